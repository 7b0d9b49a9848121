"""The fold of calls.ledger in SQL beside the one that the executor believes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.parts import ref_of
from fourgates.contract.ports import Envelope
from fourgates.gates.ledger import OPEN, CallState, fold_entry
from support.auditing import Engine
from support.samples import CALL
from support.sealing import opener
from support.stories import Tape

pytestmark = pytest.mark.engine

CALLS = 1_500
WRITERS = {
    LedgerKind.REFUSED: "executor", LedgerKind.CANCELLED: "validator", LedgerKind.PENDING: "waiter",
    LedgerKind.REPLAYED: "waiter",
}  # fmt: skip


def _entry(dice: random.Random, call_id: str, number: int) -> LedgerEntry:
    """Any entry at all, likely and unlikely ones."""
    kind = dice.choice([kind for kind in LedgerKind if kind is not LedgerKind.BARRIER])
    fields: dict[str, Any] = {"claim_id": dice.choice(["", "x", "x", "x", "y"])}
    if kind is LedgerKind.ATTEMPTED:
        fields |= {"attempt": dice.choice(["a1", "a2"]), "by": dice.choice(["holder", "recoverer"])}
    if kind in (LedgerKind.RELEASED, LedgerKind.REFUSED, LedgerKind.FINISHED, LedgerKind.RESOLVED):
        fields["vouches"] = dice.choice([None, -1, 0, 0, 1, 2])
    if kind is LedgerKind.FINISHED:
        fields["outcome"] = dice.choice(["committed", "failed"])
    if kind is LedgerKind.RESOLVED:
        fields["outcome"] = dice.choice(["committed", "not_applied"])
    if kind is LedgerKind.REFUSED:
        fields["code"] = dice.choice([Code.PERMISSION_DENIED, Code.UNAVAILABLE, Code.IDEMPOTENCY_CONFLICT]).value
    return LedgerEntry(
        event_id=f"{call_id}-{number}", producer="dice@localhost:1", kind=kind, call_id=call_id, about=ref_of(CALL), **fields
    )


def _expected(state: CallState) -> dict[str, Any]:
    outcome = state.outcome
    return {
        "phase": state.phase.value, "claim_id": state.claim_id, "fence": state.fence, "attempts": len(state.attempts),
        "outcome": outcome.kind.value if outcome else "", "outcome_code": outcome.code if outcome else "",
    }  # fmt: skip


def test_the_view_says_of_every_call_what_the_fold_says(engine: Engine) -> None:
    """L4: a call's outcome in a report is the one that everybody acted on."""
    seed = random.SystemRandom().randrange(2**32)
    dice, tape, states = random.Random(seed), Tape(), {}
    for number in range(CALLS):
        call_id, state = f"call-{number}", OPEN
        for step in range(dice.randrange(1, 9)):
            if dice.random() < 0.1:
                tape.now_ms += 600_000  # a read is forgotten
            entry = _entry(dice, call_id, step)
            received = tape.put(WRITERS.get(entry.kind, "executor"), entry)
            envelope: Envelope = opener().open(received)
            state = fold_entry(state, envelope.record, received.position.offset, received.time_ms)
        states[call_id] = state
    engine.take(tape.received)
    rows = engine.ask("SELECT call_id, phase, claim_id, fence, attempts, outcome, outcome_code FROM fourgates.ledger_states")
    seen = {row.pop("call_id"): row for row in rows}
    wrong = {call: (seen[call], _expected(state)) for call, state in states.items() if seen[call] != _expected(state)}
    assert not wrong, f"seed {seed}: {dict(list(wrong.items())[:3])}"
    assert len({state.phase for state in states.values()}) == 4
