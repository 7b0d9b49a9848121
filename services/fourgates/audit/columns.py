"""The columns of `fourgates.events`, in one place for whoever makes rows and whoever inserts them. The DDL is held to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

TABLE = "fourgates.events"

Row: TypeAlias = dict[str, Any]
"""Column name -> value; a row has every column."""

_TEXT = (
    "topic", "record", "kind", "event_id", "writer", "producer", "cause_event_id", "cause_topic", "trace_id", "value_digest",
    "call_id", "run_id", "tool_call_id", "tenant", "subject", "person", "agent", "tool", "tool_version", "risk", "intent",
    "arguments", "args_digest", "effect_key", "code", "code_class", "reason", "field", "sentence", "policies_digest", "hold_id",
    "hold_reason", "approver_group", "verdict", "shown_digest", "preview_digest", "claim_id", "attempt", "sent_by", "outcome",
    "state_change", "observation", "observation_digest", "origin_topic", "body", "made_by",
)  # fmt: skip
_NUMBERS = (
    "partition", "offset", "at", "cause_partition", "cause_offset", "value_bytes", "deadline_ms", "quorum", "expires_ms",
    "not_before_ms", "amount", "started_ms", "duration_ms", "output_bytes", "redactions", "origin_partition", "origin_offset",
    "erased_ms",
)  # fmt: skip
_FLAGS = ("service", "approvable", "final", "truncated", "replayed")
_LISTS = ("groups", "rules", "policies", "obligations", "approvers")

EMPTY: Row = {
    **dict.fromkeys(_TEXT, ""),
    **dict.fromkeys(_NUMBERS, 0),
    **dict.fromkeys(_FLAGS, False),
    **{name: [] for name in _LISTS},
    "fence": -1,
    "vouches": None,
}
"""What a column holds where a record says nothing about it. `at` is in ms of broker time."""

COLUMNS: tuple[str, ...] = tuple(EMPTY)


def columns_of(rows: Iterable[Row]) -> list[Sequence[Any]]:
    """The rows turned on their side, in the order of COLUMNS."""
    rows = list(rows)
    return [[row[name] for row in rows] for name in COLUMNS]
