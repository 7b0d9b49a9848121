"""Reports over the views, second part: how long calls took, and how long people took to decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fourgates.audit.report import By, key_of, order_of, since
from fourgates.audit.store import Query

LEAST_FOR_P95, LEAST_FOR_P99 = 20, 100
"""Below so many calls the slowest one or two would be taken for a quantile; then there is none."""
GROUP = "group"
"""Approvals can also be counted by the group that was asked."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from the request to the last word, of calls that have one; None where there are too few to say."""

    key: str
    decided: int
    p50_ms: int | None
    p95_ms: int | None
    p99_ms: int | None
    p50_ms_without_people: int | None
    """Less what it waited for people."""
    p95_ms_without_people: int | None
    ran: int
    """Of the decided ones: the tool was sent for."""
    p50_ms_in_tool: int | None
    p95_ms_in_tool: int | None


@dataclass(frozen=True, slots=True)
class Approvals:
    """Questions to people. `decided` ended by somebody's word; waits are in ms from the question to its end."""

    key: str
    asked: int
    approved: int
    denied: int
    resolved: int
    """Doubts that a person cleared up."""
    expired: int
    withdrawn: int
    """The call was cancelled, or its outcome was found otherwise."""
    open: int
    p50_waited_ms: int | None
    p95_waited_ms: int | None
    longest_waited_ms: int | None

    @property
    def decided(self) -> int:
        return self.approved + self.denied + self.resolved


def latency(query: Query, by: By = By.TOOL, since_ms: int = 0) -> list[Latency]:
    """Latencies by tool, version, agent, tenant or day, the most asked first."""
    rows = query(
        f"""
SELECT {key_of(by)} AS key, toInt64(count()) AS decided_calls, toInt64(countIf(duration_ms IS NOT NULL)) AS ran_calls,
       quantilesExact(0.5, 0.95, 0.99)(toInt64(latency_ms)) AS whole,
       quantilesExact(0.5, 0.95)(toInt64(own_ms)) AS machine,
       quantilesExactIf(0.5, 0.95)(toInt64(ifNull(duration_ms, 0)), duration_ms IS NOT NULL) AS tool_ms
FROM fourgates.latencies WHERE {since()} GROUP BY key ORDER BY {order_of(by, "decided_calls")}
""",  # noqa: S608 - fixed words
        {"since": since_ms},
    )
    return [_latency(row) for row in rows]


def _latency(row: dict[str, Any]) -> Latency:
    decided, ran = int(row["decided_calls"]), int(row["ran_calls"])
    whole, machine, tool = row["whole"], row["machine"], row["tool_ms"]
    return Latency(
        row["key"], decided, _known(whole[0], decided, 1), _known(whole[1], decided, LEAST_FOR_P95),
        _known(whole[2], decided, LEAST_FOR_P99), _known(machine[0], decided, 1), _known(machine[1], decided, LEAST_FOR_P95),
        ran, _known(tool[0], ran, 1), _known(tool[1], ran, LEAST_FOR_P95),
    )  # fmt: skip


def approvals(query: Query, by: By | str = GROUP, since_ms: int = 0) -> list[Approvals]:
    """Questions to people, by the group that was asked (the default), tool, version, agent, tenant or day."""
    key = "approver_group" if by == GROUP else key_of(by, "held_at")
    rows = query(
        f"""
SELECT {key} AS key, toInt64(count()) AS asked,
       toInt64(countIf(state = 'approved')) AS approved, toInt64(countIf(state = 'denied')) AS denied,
       toInt64(countIf(state = 'resolved')) AS resolved, toInt64(countIf(state = 'expired')) AS expired,
       toInt64(countIf(state = 'withdrawn')) AS withdrawn, toInt64(countIf(state = 'open')) AS open,
       toInt64(countIf(state IN ('approved', 'denied', 'resolved'))) AS by_people,
       quantilesExactIf(0.5, 0.95, 1)(toInt64(ifNull(waited_ms, 0)), state IN ('approved', 'denied', 'resolved')) AS waits
FROM fourgates.holds WHERE (shown_at IS NOT NULL OR state != 'open') AND {since("held_at")}
GROUP BY key ORDER BY {order_of(by, "asked")}
""",  # noqa: S608 - fixed words
        {"since": since_ms},
    )
    return [_approvals(row) for row in rows]


def _approvals(row: dict[str, Any]) -> Approvals:
    waits, people = row.pop("waits"), int(row.pop("by_people"))
    return Approvals(
        **row, p50_waited_ms=_known(waits[0], people, 1), p95_waited_ms=_known(waits[1], people, LEAST_FOR_P95),
        longest_waited_ms=_known(waits[2], people, 1),
    )  # fmt: skip


def _known(value: Any, calls: int, least: int) -> int | None:
    """The engine gives 64-bit numbers as text or as numbers, and something for no calls at all."""
    return int(float(value)) if calls >= least else None
