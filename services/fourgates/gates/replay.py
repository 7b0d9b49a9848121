"""Whether a dead record may be appended to its topic once more. Pure.

Only what a stage reads as its input may: a stage checks everything again, and the call's own ledger decides what counts. A record
of a log that is folded would count at its new place, later than it was said: that could change what others have acted on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from fourgates.contract.canonical import digest_bytes
from fourgates.contract.dead import REPLAYED
from fourgates.contract.events import CallRequested, DeadRecord
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import (
    APPROVALS,
    AUDIT_WATERMARKS,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    CONTROLS,
    EFFECTS,
    RECORDS_DEAD,
)
from fourgates.gates.ledger import CallState, Phase

REPLAYABLE = frozenset({CALLS_REQUESTED, CALLS_VALIDATED, CALLS_CLEARED})
_WHY_NOT: Mapping[str, str] = {
    APPROVALS: "what people said counts when they said it; let them decide again",
    CALLS_LEDGER: "an entry that counts late would change what the call's life was for everybody",
    EFFECTS: "an entry that counts late would change who holds an effect",
    CONTROLS: "a switch is set by saying it again: fourgates disable, enable or stop",
    CALLS_COMPLETED: "the sanitizer tells the answer again by itself when the call is asked for again",
    AUDIT_WATERMARKS: "the sink says how far it is by itself",
    RECORDS_DEAD: "it is a dead letter itself",
}


def whole(letter: DeadRecord, value: bytes) -> bool:
    """Whether these are the very bytes that were buried."""
    return len(value) == letter.size and digest_bytes(value) == letter.digest


def not_replayable(letter: DeadRecord) -> str:
    """Why nothing of that letter's topic is ever replayed; empty where something may be."""
    if letter.reason == REPLAYED:
        return "it only says that another letter was replayed"
    if letter.topic in REPLAYABLE:
        return ""
    return f"nothing is replayed to {letter.topic}: {_WHY_NOT.get(letter.topic, 'it is not known here')}"


def not_now(envelope: Envelope, state: CallState, now_ms: int) -> str:
    """Why this record, which proves itself today, should not be replayed now; empty where it may. `state`: of its call."""
    record = envelope.record
    if state.phase is Phase.FINAL:
        return "its call has ended, and the first last word stands; there is nothing left to do"
    if state.phase is not Phase.OPEN:
        return "its call is claimed or in doubt; whoever holds it, or the people who are asked, end it"
    deadline_ms = record.deadline_ms if isinstance(record, CallRequested) else record.call.deadline_ms
    waited = bool(getattr(record, "hold_id", ""))
    if not waited and now_ms >= deadline_ms:
        at = f"{datetime.fromtimestamp(deadline_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"the call's time was over at {at}, so it would only be refused; its host has to ask again"
    return ""
