"""A call's life, told from the store."""

from __future__ import annotations

import pytest

from fourgates.audit.explain import explain
from fourgates.contract.codes import Code
from support.auditing import Engine
from support.stories import Life, Tape, a_denied_write, a_doubt, a_misspelt_call, a_read, an_approved_write

pytestmark = pytest.mark.engine


def test_an_approved_call_is_told_from_the_words_to_the_answer(engine: Engine) -> None:
    """L5, L1."""
    tape = Tape()
    life = an_approved_write(tape)
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert "anna of acme through the agent support-bot asked for refund_order" in told.asked
    assert "“Please refund order A-1001.”" in told.asked
    assert "own_order" in told.allowed
    assert "support-may-refund" in told.allowed
    assert "fiona approved what they were shown" in told.allowed
    assert told.happened == "It ran and took effect (1 attempt, 40 ms)."
    assert told.told.startswith("ok: The call succeeded. “refunded”")
    steps = [(step.who, step.what) for step in told.steps]
    assert [who for who, _ in steps] == [
        "host", "validator", "authorizer", "waiter", "waiter", "sanitizer", "fiona", "waiter", "executor", "executor",
        "executor", "executor", "sanitizer",
    ]  # fmt: skip
    assert ("fiona", "says approve: “looks right”") in steps
    assert any("A-1001" in what for who, what in steps if who == "waiter")
    assert told.text().count("\n") == len(told.steps) + 6


def test_a_refused_call_names_gate_reason_and_field(engine: Engine) -> None:
    """L5."""
    tape = Tape()
    life = a_misspelt_call(tape)
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert told.allowed == "It was not: the validator refuses it: invalid_arguments (unknown_field) at /order_idd."
    assert told.happened == "It did not take effect: invalid_arguments."


def test_a_denied_call_says_who_said_no(engine: Engine) -> None:
    """L5, A4."""
    tape = Tape()
    life = a_denied_write(tape)
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert ("fiona", "says deny: “wrong order”") in [(step.who, step.what) for step in told.steps]


def test_a_doubt_is_told_as_a_doubt(engine: Engine) -> None:
    """L5, E6."""
    tape = Tape()
    life = a_doubt(tape)
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert told.happened == "It was sent, and nobody knows yet whether it took effect (1 attempt, 0 ms)."
    assert told.told == "So far: in_doubt."


@pytest.mark.parametrize("end", ["open", "cancelled", "failed", "not_applied", "claimed"])
def test_every_end_has_its_sentence(engine: Engine, end: str) -> None:
    """L5."""
    tape = Tape()
    life = Life(tape)
    life.asked()
    life.validated()
    if end == "cancelled":
        life.cancelled()
    if end in ("failed", "not_applied", "claimed"):
        life.cleared()
        life.claimed()
        life.attempted()
    if end == "failed":
        life.finished("failed", code=Code.TOOL_FAILED.value, vouches=1)
    if end == "not_applied":
        life.in_doubt()
        life.resolved("not_applied")
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert (
        told.happened
        == {
            "open": "Nothing has run so far.",
            "cancelled": "It was cancelled before it took effect.",
            "failed": "It ran and failed without an effect (1 attempt, 40 ms).",
            "not_applied": "It was in doubt; a person found that it had not taken effect (1 attempt, 0 ms).",
            "claimed": "It is being executed.",
        }[end]
    )


def test_a_request_that_proved_nothing_is_told_as_such(engine: Engine) -> None:
    """L5, P6."""
    tape = Tape()
    life = Life(tape)
    life.asked()
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert told.asked.startswith("A request for refund_order that proved nothing (yet).")


def test_an_unknown_call_has_no_life(engine: Engine) -> None:
    """L5."""
    a_read(tape := Tape())
    engine.take(tape.received)
    assert explain(engine.store.query, "0" * 64) is None
