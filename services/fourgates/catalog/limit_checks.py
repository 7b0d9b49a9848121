"""What a contract may not say of limits and quotas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from fourgates.contract.topology import HORIZON, LONGEST_WAIT

from .keywords import resolve
from .limits import Quota, QuotaOf
from .tool import Tool

_NOTHING = timedelta(0)


def limit_complaints(tool: Tool) -> Iterator[str]:
    """One sentence for each contradiction, with what would go wrong."""
    if tool.at_once < 1:
        yield "at_once must be 1 at least: no call would ever run"
    if tool.rate is not None and (tool.rate.calls < 1 or tool.rate.per <= _NOTHING):
        yield "rate must allow a call at least, in a positive time: every call would be rate_limited"
    if tool.quotas and not tool.writes:
        yield "it is a read with quotas; reads reserve nothing, so they would never be counted; use rate, or call it a write"
        return
    for quota in tool.quotas:
        yield from quota_complaints(tool.schema, quota)
    for (whose, of, _), count in Counter((q.whose.value, q.of, q.per) for q in tool.quotas).items():
        if count > 1:
            yield f"{count} quotas count {of or 'calls'} of one {whose} in one period: only the smallest would matter; keep one"


def quota_complaints(schema: Mapping[str, Any], quota: Quota) -> Iterator[str]:
    """What is wrong with a quota over arguments of this schema."""
    of_run = quota.whose is QuotaOf.RUN
    if bool(quota.calls) == bool(quota.amount) or bool(quota.amount) != bool(quota.of):
        yield f"quota {quota.words!r} must say either calls, or amount and of: nobody would know what it counts"
        return
    if quota.limit < 0 or quota.unit < 1:
        yield f"quota {quota.words!r} must be positive, its unit as well: no call would ever fit"
    if of_run and quota.per:
        yield f"quota {quota.words!r} is about a run and has a period: a run is counted as a whole; leave out per"
    if not of_run and not _NOTHING < quota.per <= HORIZON + LONGEST_WAIT:
        yield (
            f"quota {quota.words!r} needs a period of at most {(HORIZON + LONGEST_WAIT).days} days: "
            "the log is not kept longer, what was used before would be forgotten"
        )
    if quota.of:
        yield from _counted(schema, quota)


def _counted(schema: Mapping[str, Any], quota: Quota) -> Iterator[str]:
    argument = resolve(schema, schema.get("properties", {}).get(quota.of))
    if not isinstance(argument, Mapping) or argument.get("type") not in ("integer", "number"):
        yield f"quota {quota.words!r} sums up {quota.of!r}, which is no number among the arguments"
    elif quota.of not in schema.get("required", ()):
        yield f"quota {quota.words!r} sums up {quota.of!r}, which is optional: a call without it would take nothing"
    elif max(argument.get("minimum", -1), argument.get("exclusiveMinimum", -1)) < 0:
        yield f"quota {quota.words!r} sums up {quota.of!r}, which may be negative: such a call would make room; give it a minimum"
