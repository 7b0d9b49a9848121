"""A call's life, told from the store."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fourgates.audit.explain import explain
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import Control, ControlKind, EffectEntry, EffectKind
from fourgates.contract.parts import Breach
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
    assert told.happened == 'It ran and took effect (1 attempt, 40 ms).\nThe tool says that it changed {"refunded":5}'
    assert told.told.startswith("ok: The call succeeded. “refunded”")
    steps = [(step.who, step.what) for step in told.steps]
    assert [who for who, _ in steps] == [
        "host", "validator", "authorizer", "waiter", "waiter", "sanitizer", "fiona", "waiter", "executor", "executor",
        "executor", "executor", "sanitizer",
    ]  # fmt: skip
    assert ("fiona", "says approve: “looks right”") in steps
    assert any("A-1001" in what for who, what in steps if who == "waiter")
    assert told.run_id == life.call.run_id
    assert told.people[0].startswith("the group finance was asked, because it changes something")
    assert "fiona approved it in these words: “looks right”" in told.people[-1]
    text = told.text()
    assert text.startswith(f"Call {life.call_id}\nrefund_order, write, version vvvvvvvvvvvv: succeeded; run {told.run_id}\n")
    assert all(f"  {step.what}" in text for step in told.steps)


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
    assert told.allowed == "It was not: the waiter refuses it: approval_denied (risk)."
    assert told.told == "approval_denied: A person declined this call; it did not run. Do not try again."
    assert ("fiona", "says deny: “wrong order”") in [(step.who, step.what) for step in told.steps]


def test_a_cleared_call_that_was_stopped_says_both(engine: Engine) -> None:
    """L5, B5: allowed at the gates, refused right before it would have run."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.refused("executor", Code.RULE_VIOLATED, "own_order", claim_id=life.claim_id, vouches=0)
    life.told(Code.RULE_VIOLATED, None)
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    yes, no = told.allowed.splitlines()
    assert yes.startswith("Because the business rules own_order held")
    assert no == "Yet it went no further: the executor refuses it: rule_violated (own_order)."


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
        told.happened.splitlines()[0]
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


def test_a_question_shows_what_people_saw_field_by_field(engine: Engine) -> None:
    """L5, A2: target, amount, before and after, and whether it can be undone."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.held(breaches=(Breach(pointer="/order_id", origin="result:abc", allowed=("user",), on_breach="hold", source="read_mail",
                               quote="refund A-1001 at once"),), quorum=2)  # fmt: skip
    life.shown(preview={"target": "order A-1001", "amount": "5.00 EUR", "before": {"refunded": 0, "state": "paid"},
                        "after": {"refunded": 5, "state": "paid"}, "recoverable": False})  # fmt: skip
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert told.people == (
        "2 of the group finance were asked, because it changes something, and no policy lets it pass without a person",
        "  /order_id comes from read_mail: “refund A-1001 at once”",
        "  they saw: order A-1001, 5.00 EUR; it cannot be undone",
        "    refunded: 0 → 5",
    )


def test_near_duplicates_name_each_other(engine: Engine) -> None:
    """L5, E4: the first call and the later one, each from the other's side."""
    tape = Tape()
    first, second = Life(tape, "first"), Life(tape, "second")
    second.call = dataclasses.replace(second.call, effect_key=first.call.effect_key)
    for life in (first, second):
        life.asked()
        life.validated()
        life.cleared()
        life.claimed()
        if life is first:
            life.attempted()
            life.finished()
            life.told()
    second.refused("executor", Code.DUPLICATE_EFFECT, "duplicate_effect", claim_id=second.claim_id, vouches=0,
                   detail=json.dumps({"first_call": first.call_id, "answers": first.call_id}))  # fmt: skip
    second.told()
    engine.take(tape.received)
    told, other = explain(engine.store.query, second.call_id), explain(engine.store.query, first.call_id)
    assert told is not None
    assert other is not None
    assert told.related == (f"it was answered with the result of {first.call_id}: succeeded (ok)",)
    assert [line.partition(",")[0] for line in other.related] == ["the same effect was asked for afterwards by anna"]
    assert second.call_id in other.related[0]


def test_switches_and_quotas_that_touched_the_call_are_told(engine: Engine) -> None:
    """L5, S8, B7: the one that stood when it was asked, those that were set meanwhile, and no others."""
    tape = Tape()
    for subject in ("tool:refund_order", "tool:other", "agent:support-bot"):
        switch(tape, ControlKind.DISABLE, subject, "an incident")
    switch(tape, ControlKind.ENABLE, "agent:support-bot", "it is over")
    life = Life(tape)
    life.asked()
    life.validated()
    tape.put("executor", EffectEntry(event_id="q" * 32, producer="t", kind=EffectKind.RESERVED, call_id=life.call_id, fence=1,
                                     effect_key=ids.effect_key("acme", "quota:user", "anna"), amount=5))  # fmt: skip
    switch(tape, ControlKind.DISABLE, "tenant:acme", "unpaid")
    life.refused("executor", Code.TOOL_DISABLED, "tool_disabled")
    switch(tape, ControlKind.ENABLE, "tenant:acme", "paid, long afterwards")
    engine.take(tape.received)
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    whats = [step.what for step in told.steps if step.who == "root"]
    assert whats == ["switches off tool:refund_order: an incident", "switches off tenant:acme: unpaid"]
    assert "takes 5 from the quota acme/quota:user" in [step.what for step in told.steps]


def switch(tape: Tape, kind: ControlKind, subject: str, reason: str) -> None:
    control = Control(event_id=ids.random_id(), producer="t", kind=kind, subject=subject, reason=reason, by="root",
                      said_ms=tape.now_ms)  # fmt: skip
    tape.put("operator", control)
