"""What people decided about a run's calls, as a trace that others can check: the JSON lines of PyPI's `agentack`, version 2.

Each event comes from a record of its own: proposed from CallValidated, what was shown from Requested, what was decided from the
fold, what ran from the Claimed and Attempted of whoever ran it. A gap between them is therefore visible to the checker.

The format knows only `allow` and `deny`: a question that ended by time or by its call's end is a `deny` whose block says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from fourgates.contract.events import (
    RUN_SUBJECT,
    ApprovalEvent,
    ApprovalKind,
    CallValidated,
    Control,
    ControlKind,
    LedgerEntry,
    LedgerKind,
)
from fourgates.contract.parts import Call
from fourgates.contract.ports import Envelope
from fourgates.contract.seals import must_be_held
from fourgates.gates.approval import ApprovalFold, HoldState, HoldStatus
from fourgates.gates.ledger import Change, LedgerFold, OutcomeKind, Phase

POLICY = """\
version = 1

[approval]
max_age_seconds = 86400
single_use = true
exact_action_binding = true
stop_is_terminal = true
require_for = ["*:write", "*:destructive"]
"""
"""The checker's policy file. `write-waived`: a policy of ours let it through without people, by the authorizer's seal;
`write-refused`: it ended before anybody was asked."""

_RAN = frozenset({OutcomeKind.COMMITTED, OutcomeKind.FAILED, OutcomeKind.NOT_APPLIED})


@dataclass(slots=True)
class _Life:
    """One call, as far as its records say."""

    call: Call
    proposed_ms: int
    claim: LedgerEntry | None = None
    attempted_ms: int = 0
    ended_ms: int = 0
    code: str = ""
    ran: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """The lines of one run's trace, and how many of its calls have not come to an end."""

    events: list[dict[str, Any]]
    unended: int

    def text(self) -> str:
        return "".join(json.dumps(event, ensure_ascii=False, sort_keys=True) + "\n" for event in self.events)


@dataclass
class TraceBook:
    """Takes the records of calls.validated, approvals, calls.ledger and controls, each topic in its order."""

    run_id: str
    proven: Callable[[Envelope], bool]
    _lives: dict[str, _Life] = field(default_factory=dict)
    _shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    _stopped_ms: int = 0

    def __post_init__(self) -> None:
        self._holds = ApprovalFold(self.proven)
        self._ledger = LedgerFold(watch=self._on_ledger)

    def read(self, envelopes: Iterable[Envelope]) -> None:
        """Takes one topic's records, or a part of them."""
        for envelope in envelopes:
            record = envelope.record
            match record:
                case CallValidated(call=call) if call.run_id == self.run_id:
                    self._lives.setdefault(call.call_id, _Life(call, envelope.time_ms))
                case LedgerEntry():
                    self._ledger.apply(envelope)
                case Control(kind=ControlKind.STOP, subject=subject) if self._is_run(subject):
                    self._stopped_ms = self._stopped_ms or envelope.time_ms
                case ApprovalEvent():
                    self._on_approval(envelope)

    @property
    def calls(self) -> Collection[str]:
        """The run's calls so far: the records of others on their topics need not be read."""
        return self._lives.keys()

    def _is_run(self, subject: str) -> bool:
        return subject.startswith(RUN_SUBJECT) and subject.rpartition("/")[2] == self.run_id

    def _on_approval(self, envelope: Envelope) -> None:
        change = self._holds.apply(envelope)
        if change.counted and envelope.record.kind is ApprovalKind.REQUESTED and envelope.record.call_id in self._lives:
            self._shown[change.hold_id] = json.loads(envelope.record.requested.shown)

    def _on_ledger(self, envelope: Envelope, change: Change) -> None:
        life, entry = self._lives.get(envelope.record.call_id), envelope.record
        if life is None or not change.counted:
            return
        if entry.kind is LedgerKind.CLAIMED:
            life.claim, life.attempted_ms = entry, 0
        elif entry.kind is LedgerKind.ATTEMPTED:
            life.attempted_ms = life.attempted_ms or envelope.time_ms
        after = change.after
        if after.phase is Phase.FINAL and after.outcome is not None:
            life.ended_ms, life.code, life.ran = envelope.time_ms, after.outcome.code, after.outcome.kind in _RAN
            life.attempted_ms = life.attempted_ms or (entry.started_ms if life.ran else 0)
        elif after.phase is Phase.IN_DOUBT:
            life.ended_ms, life.ran = envelope.time_ms, True

    def trace(self) -> Trace:
        """What can be said now. Calls that have not ended are counted and left out: nobody can judge them yet."""
        told: list[tuple[int, dict[str, Any]]] = []
        unended = 0
        for life in self._lives.values():
            holds = [h for h in self._holds.of_call(life.call.call_id) if h.hold_id in self._shown and not h.in_doubt]
            if not life.ended_ms or any(hold.open for hold in holds):
                unended += 1
                continue
            latest = 0
            for at_ms, event in self._of(life, holds):
                latest = max(latest, at_ms)
                told.append((latest, event))
        if self._stopped_ms:
            told.append((self._stopped_ms, {"type": "interrupt", "reason": "the run was stopped"}))
        told.sort(key=lambda pair: pair[0])
        if told and not unended:
            told.append((told[-1][0], {"type": "session_end"}))
        head = {"schema_version": 2, "session_id": self.run_id}
        return Trace([head | {"timestamp": _time(at_ms)} | event for at_ms, event in told], unended)

    def _of(self, life: _Life, holds: list[HoldState]) -> Iterator[tuple[int, dict[str, Any]]]:
        call = life.call
        operation = self._operation(life, holds)
        whose = {"action_id": call.call_id, **({"intent_id": call.effect_key} if call.effect_key else {})}
        yield life.proposed_ms, whose | {"type": "action_proposed", "action": _action(call.tool, operation, call.arguments)}
        for hold in holds:
            approval, shown = whose | {"approval_id": hold.hold_id}, self._shown[hold.hold_id]
            action = _action(str(shown["tool"]), operation, str(shown["arguments"]))
            yield hold.requested_ms, approval | {"type": "approval_requested", "action": action}
            allowed = hold.status is HoldStatus.APPROVED
            until = {"expires_at": _time(hold.expires_ms)} if allowed and hold.expires_ms is not None else {}
            yield hold.ended_ms, approval | {"type": "approval_decision", "decision": "allow" if allowed else "deny"} | until
        if life.ran:
            claimed = life.claim.call if life.claim is not None and life.claim.call is not None else call
            by = life.claim.hold_id if life.claim is not None else next((h.hold_id for h in reversed(holds)), "")
            ran = whose | {"type": "action_executed", "action": _action(claimed.tool, operation, claimed.arguments)}
            yield life.attempted_ms or life.ended_ms, ran | ({"approval_id": by} if by else {})
        else:
            by = holds[-1].hold_id if holds else ""
            yield (
                life.ended_ms,
                whose | {"type": "action_blocked", "reason": life.code or "cancelled"} | ({"approval_id": by} if by else {}),
            )

    def _operation(self, life: _Life, holds: list[HoldState]) -> str:
        risk = life.call.risk
        if holds:
            return risk.value
        if not life.ran:
            return f"{risk.value}-refused"
        waived = life.claim is not None and not must_be_held(risk, life.claim.verdicts)
        return f"{risk.value}-waived" if waived else risk.value


def _action(tool: str, operation: str, arguments: str) -> dict[str, Any]:
    return {"tool": tool, "operation": operation, "parameters": json.loads(arguments)}


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
