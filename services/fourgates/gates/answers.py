"""What a ledger entry tells the host of its call, if anything: decided by what the fold says, never by the entry alone."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum

from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.gates.ledger import CallState, Outcome, OutcomeKind, Phase

RESOLVED_COMMITTED = "A person confirmed that the call took effect; what it returned is not known."
RESOLVED_NOT_APPLIED = "A person confirmed that the call did not take effect. It will not run."
NO_LONGER_KEPT = "The call took effect earlier; what it returned is no longer kept."

_ABOUT_THE_RECORD = frozenset({Code.IDENTITY_INVALID, Code.IDEMPOTENCY_CONFLICT})
_LAST_WORDS = frozenset({LedgerKind.REFUSED, LedgerKind.CANCELLED, LedgerKind.FINISHED, LedgerKind.RESOLVED, LedgerKind.REPLAYED})


class What(StrEnum):
    """Which answer an entry brings."""

    FIRST = "first"
    """This entry ended the call: its final answer, unless the very same entry was answered before."""
    AGAIN = "again"
    """The call had ended before: the bytes of its first answer once more."""
    OTHERS = "others"
    """Another call's first answer, for a call with the same effect; its code is for the case that there is none."""
    PASSING = "passing"
    """A word that does not end the call."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the host is told. `reason` and `sentence` are as the entry says and not yet safe to show."""

    what: What
    code: Code
    reason: str = ""
    sentence: str = ""
    with_details: bool = False
    """Whether the entry's field and faults belong to it."""
    with_content: bool = False
    """Whether the entry's result belongs to it."""
    since_ms: int = 0
    """Broker time since which the call is final: earlier answers are of a read that has been forgotten."""
    answers: str = ""
    """OTHERS: the call whose answer it is."""


def answer_of(before: CallState, after: CallState, entry: LedgerEntry) -> Told | None:
    """What is told of `entry`, which took the call from `before` to `after`. None: nothing, it was void or says nothing.

    `before` is the state that the fold went out from; a read's answer past its ten minutes is open there.
    """
    if entry.kind is LedgerKind.REFUSED and entry.code in _ABOUT_THE_RECORD:
        return _passing(Code(entry.code), entry)  # they answer a record; whatever the call has come to stands
    if after.phase is Phase.FINAL:
        if before.phase is not Phase.FINAL:
            return _first(after, entry)
        return _again(after, entry) if entry.kind in _LAST_WORDS else None
    match entry.kind:
        case LedgerKind.RELEASED if before.phase is not Phase.OPEN and after.phase is Phase.OPEN and entry.code:
            return _passing(Code(entry.code), entry)
        case LedgerKind.CANCELLED:
            return Told(What.PASSING, Code.CANCEL_TOO_LATE)
        case LedgerKind.PENDING if after.phase is Phase.OPEN:
            return Told(What.PASSING, Code.APPROVAL_PENDING, entry.reason)
        case LedgerKind.REPLAYED if after.phase is Phase.OPEN:
            return _others(entry)
        case LedgerKind.REFUSED | LedgerKind.FINISHED if after.phase is Phase.OPEN and not entry.claim_id and entry.code:
            return _passing(Code(entry.code), entry)
        case LedgerKind.IN_DOUBT if after.phase is Phase.IN_DOUBT and entry.claim_id == after.claim_id:
            return Told(What.PASSING, Code.IN_DOUBT, entry.reason)
        case LedgerKind.REPLAYED | LedgerKind.REFUSED if after.phase is Phase.IN_DOUBT:
            return Told(What.PASSING, Code.IN_DOUBT)  # asked again: whatever a gate says now, it may have happened
    return None


def _passing(code: Code, entry: LedgerEntry) -> Told:
    return Told(What.PASSING, code, entry.reason, entry.sentence, with_details=True)


def _first(after: CallState, entry: LedgerEntry) -> Told:
    outcome = after.outcome or Outcome(OutcomeKind.REFUSED, Code.INTERNAL)
    if entry.kind is LedgerKind.RESOLVED:
        return _resolved(What.FIRST, after, outcome)
    if outcome.code == Code.DUPLICATE_EFFECT and (others := _others(entry)) is not None:
        return replace(others, code=Code.DUPLICATE_EFFECT, since_ms=after.final_ms)
    match outcome.kind:
        case OutcomeKind.COMMITTED:
            return Told(What.FIRST, Code.OK, entry.reason, entry.sentence, with_content=True, since_ms=after.final_ms)
        case OutcomeKind.CANCELLED:
            return Told(What.FIRST, Code.CANCELLED, since_ms=after.final_ms)
    return Told(What.FIRST, _code_of(outcome), entry.reason, entry.sentence, with_details=True, since_ms=after.final_ms)


def _again(after: CallState, entry: LedgerEntry) -> Told:
    """Its code and words are those for the case that the first answer is no longer kept."""
    outcome = after.outcome or Outcome(OutcomeKind.REFUSED, Code.INTERNAL)
    if entry.kind is LedgerKind.REFUSED and entry.code == Code.CALL_TOO_OLD:
        return Told(What.AGAIN, Code.CALL_TOO_OLD, entry.reason, since_ms=after.final_ms)
    if outcome.kind is OutcomeKind.COMMITTED:
        return Told(What.AGAIN, Code.OK, "no_longer_kept", NO_LONGER_KEPT, since_ms=after.final_ms)
    if outcome.kind is OutcomeKind.NOT_APPLIED:
        return _resolved(What.AGAIN, after, outcome)
    return Told(What.AGAIN, _code_of(outcome), since_ms=after.final_ms)


def _resolved(what: What, after: CallState, outcome: Outcome) -> Told:
    if outcome.kind is OutcomeKind.COMMITTED:
        return Told(what, Code.OK, "resolved", RESOLVED_COMMITTED, since_ms=after.final_ms)
    return Told(what, Code.TOOL_FAILED, "not_applied", RESOLVED_NOT_APPLIED, since_ms=after.final_ms)


def _code_of(outcome: Outcome) -> Code:
    """An end's code; a word that cannot end a call would leave its reader waiting."""
    code = Code(outcome.code) if outcome.code else None
    if code is not None and CODES[code].final and code is not Code.OK:
        return code
    return Code.CANCELLED if outcome.kind is OutcomeKind.CANCELLED else Code.TOOL_FAILED


def _others(entry: LedgerEntry) -> Told | None:
    detail = json.loads(entry.detail)
    answers = detail.get("answers") if isinstance(detail, dict) else None
    return Told(What.OTHERS, Code.OK, answers=answers) if isinstance(answers, str) and answers else None
