"""Which topics exist, who writes and reads them, how long they are kept. Everything else is checked against this table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

HORIZON = timedelta(days=7)
"""How long a key is remembered; a call of an older run is refused (`call_too_old`)."""
LONGEST_WAIT = timedelta(days=30)
"""The longest time that a call may wait for people."""
EFFECT_WINDOW = timedelta(hours=24)
"""The default window in which one effect key may have one effect."""
FOREVER = timedelta.max
"""Of a log that is never cut: what was said in it counts until something else is said."""
CALL_PARTITIONS = 12
"""Partitions of every call-keyed topic, fixed for life: a call's partition number is the same on all of them."""

Actor = Literal["sdk", "validator", "authorizer", "waiter", "approver", "executor", "sanitizer", "audit", "operator", "worker"]


@dataclass(frozen=True, slots=True)
class Topic:
    """One row of the topology. `kept` is None for a compacted topic, which is never an event log."""

    name: str
    record: str
    key: str
    written_by: tuple[Actor, ...]
    read_by: tuple[Actor, ...]
    kept: timedelta | None
    kept_words: str
    partitions: int = CALL_PARTITIONS

    @property
    def compacted(self) -> bool:
        return self.kept is None


CALLS_REQUESTED = "calls.requested"
CALLS_VALIDATED = "calls.validated"
APPROVALS = "approvals"
CALLS_CLEARED = "calls.cleared"
CALLS_LEDGER = "calls.ledger"
EFFECTS = "effects"
CONTROLS = "controls"
CALLS_COMPLETED = "calls.completed"
AUDIT_WATERMARKS = "audit.watermarks"
RECORDS_DEAD = "records.dead"

_LONG = HORIZON + LONGEST_WAIT

TOPOLOGY: tuple[Topic, ...] = (
    Topic(CALLS_REQUESTED, "CallRequested", "call_id", ("sdk",), ("validator", "audit"), timedelta(days=1), "1 day"),
    Topic(CALLS_VALIDATED, "CallValidated", "call_id", ("validator",), ("authorizer", "audit"), timedelta(days=7), "7 days"),
    Topic(APPROVALS, "ApprovalEvent", "call_id", ("authorizer", "executor", "waiter", "approver"),
          ("waiter", "approver", "audit"), _LONG, "horizon + longest wait"),
    Topic(CALLS_CLEARED, "CallCleared", "call_id", ("authorizer", "waiter"), ("executor", "audit"), timedelta(days=7), "7 days"),
    Topic(CALLS_LEDGER, "LedgerEntry", "call_id", ("validator", "authorizer", "waiter", "executor"),
          ("executor", "waiter", "sanitizer", "audit"), _LONG, "horizon + longest wait"),
    Topic(EFFECTS, "EffectEntry", "effect_key or quota key", ("executor",), ("executor", "audit"), _LONG, "longest window"),
    Topic(CONTROLS, "Control", "subject", ("operator", "sanitizer"),
          ("validator", "authorizer", "waiter", "executor", "sanitizer", "audit"), FOREVER, "for ever", partitions=1),
    Topic(CALLS_COMPLETED, "CallCompleted", "run (tenant, run_id)", ("sanitizer",),
          ("sdk", "sanitizer", "audit"), HORIZON, "horizon"),
    Topic(AUDIT_WATERMARKS, "AuditWatermark", "topic + partition", ("audit",), ("executor",), None, "compacted", partitions=1),
    Topic(RECORDS_DEAD, "DeadRecord", "origin", ("worker", "operator"), ("operator", "audit"), timedelta(days=30), "30 days"),
)  # fmt: skip

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPOLOGY}
BY_RECORD: dict[str, Topic] = {topic.record: topic for topic in TOPOLOGY}
CALL_KEYED: tuple[str, ...] = (CALLS_REQUESTED, CALLS_VALIDATED, APPROVALS, CALLS_CLEARED, CALLS_LEDGER)
AUDITED: tuple[str, ...] = tuple(topic.name for topic in TOPOLOGY if "audit" in topic.read_by)


def topology_markdown() -> str:
    """The table as Markdown: the README carries this text under `## Topology`, word for word."""
    head = ("topic", "record", "key", "written by", "read by", "kept")
    rows = [(t.name, t.record, t.key, ", ".join(t.written_by), ", ".join(t.read_by), t.kept_words) for t in TOPOLOGY]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))
