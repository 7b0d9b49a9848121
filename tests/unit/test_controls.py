"""What is switched off: the last word that was said on a subject counts, whatever is appended after it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Poison
from fourgates.contract.events import Control, ControlKind, LedgerKind
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.topology import CALLS_COMPLETED, CONTROLS
from fourgates.gates.control_view import ControlView
from fourgates.gates.controls import ControlFold, check_subject, run_subject
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.memory import MemoryBus
from support.samples import PRINCIPAL, RUN_ID
from support.sanitizing import RUN, Sanitizing
from support.sealing import opener, writer

DAY_MS = 86_400_000
RUN_SUBJECT = run_subject("acme", RUN_ID)


def word(kind: ControlKind, subject: str, said_ms: int) -> Control:
    return Control(event_id=ids.random_id(), producer="cli", kind=kind, subject=subject, reason="r", by="olga", said_ms=said_ms)


class Said:
    """A fold and a hand that appends."""

    def __init__(self) -> None:
        self.fold, self.offset = ControlFold(), 0

    def __call__(self, kind: ControlKind, subject: str, said_ms: int, at_ms: int = 1_000) -> Said:
        self.fold.apply(Envelope(word(kind, subject, said_ms), Position(CONTROLS, 0, self.offset), at_ms, "operator"))
        self.offset += 1
        return self

    def code(self, **who: Any) -> Code | None:
        refusal = self.fold.barred("refund_order", dataclasses.replace(PRINCIPAL, **who), RUN_ID)
        return None if refusal is None else refusal.code


@pytest.mark.parametrize(
    ("subject", "code"),
    [("tool:refund_order", Code.TOOL_DISABLED), ("agent:support-bot", Code.PERMISSION_DENIED),
     ("tenant:acme", Code.PERMISSION_DENIED), (RUN_SUBJECT, Code.RUN_STOPPED)],
)  # fmt: skip
def test_the_last_said_word_on_a_subject_counts(subject: str, code: Code) -> None:
    """C4, S6"""
    said = Said()
    assert said.code() is None
    assert said(ControlKind.DISABLE, subject, 10).code() is code
    assert said(ControlKind.ENABLE, subject, 20).code() is None
    assert said(ControlKind.DISABLE, subject, 30).code() is code


@pytest.mark.parametrize(
    "subject",
    ["tool:look", "agent:other-bot", "tenant:acme2", run_subject("acme", ids.new_run_id())],
    ids=["tool", "agent", "tenant", "run"],
)
def test_what_is_about_others_does_not_matter(subject: str) -> None:
    """C4"""
    assert Said()(ControlKind.DISABLE, subject, 10).code() is None


def test_a_human_without_an_agent_is_no_agent() -> None:
    """C4"""
    assert Said()(ControlKind.DISABLE, "agent:", 10).code(agent="") is None


def test_an_old_word_that_is_appended_once_more_changes_nothing() -> None:
    """P6: it proves that it was said, not that it is said now; the same of a redelivered one."""
    said = Said()(ControlKind.ENABLE, "tool:refund_order", 10)(ControlKind.DISABLE, "tool:refund_order", 20)
    assert said(ControlKind.ENABLE, "tool:refund_order", 10).code() is Code.TOOL_DISABLED
    assert said(ControlKind.ENABLE, "tool:refund_order", 20).code() is Code.TOOL_DISABLED
    assert said(ControlKind.ENABLE, "tool:refund_order", 21).code() is None


def test_only_a_run_is_stopped() -> None:
    """S6"""
    assert Said()(ControlKind.STOP, "tool:refund_order", 10).code() is None
    assert Said()(ControlKind.STOP, RUN_SUBJECT, 10).code() is Code.RUN_STOPPED


def test_a_stop_is_forgotten_when_no_call_of_the_run_can_be_left_and_a_switch_never() -> None:
    """S6: a call may wait for people for thirty days."""
    said = Said()(ControlKind.STOP, RUN_SUBJECT, 1, at_ms=0)(ControlKind.DISABLE, "tool:refund_order", 1, at_ms=0)
    said(ControlKind.STOP, run_subject("acme", ids.new_run_id()), 1, at_ms=36 * DAY_MS)
    assert said.code() is Code.RUN_STOPPED
    said(ControlKind.STOP, run_subject("acme", ids.new_run_id()), 1, at_ms=37 * DAY_MS)
    assert said.code() is Code.TOOL_DISABLED


@pytest.mark.parametrize(
    ("kind", "subject"),
    [(ControlKind.DISABLE, "refund_order"), (ControlKind.DISABLE, "tool:"), (ControlKind.DISABLE, "tool:a\nb"),
     (ControlKind.DISABLE, "user:anna"), (ControlKind.STOP, "tool:refund_order"), (ControlKind.STOP, "run:acme"),
     (ControlKind.STOP, f"run:{RUN_ID}"), (ControlKind.STOP, f"run:/{RUN_ID}"), (ControlKind.STOP, "run:acme/1")],
)  # fmt: skip
def test_a_subject_that_no_call_could_have_is_refused(kind: ControlKind, subject: str) -> None:
    """S8: a kill switch that hits nothing is worse than none."""
    with pytest.raises(ConfigurationError, match=r"write tool:NAME|write run:TENANT|only a run"):
        check_subject(kind, subject)


def test_subjects_that_calls_have_are_taken() -> None:
    """S8"""
    for subject in ("tool:refund_order", "agent:support-bot", "tenant:acme/eu", run_subject("acme/eu", RUN_ID)):
        check_subject(ControlKind.DISABLE, subject)
    check_subject(ControlKind.STOP, RUN_SUBJECT)


@pytest.mark.parametrize(
    ("kind", "subject", "only"),
    [(ControlKind.STOP, RUN_SUBJECT, {"operator", "sanitizer"}), (ControlKind.DISABLE, RUN_SUBJECT, {"operator"}),
     (ControlKind.ENABLE, RUN_SUBJECT, {"operator"}), (ControlKind.STOP, "tool:x", {"operator"}),
     (ControlKind.DISABLE, "tool:x", {"operator"}), (ControlKind.ENABLE, "tool:x", {"operator"})],
)  # fmt: skip
def test_the_sanitizer_stops_runs_and_nothing_else(kind: ControlKind, subject: str, only: set[str]) -> None:
    """P6: its key must not switch a tool on."""
    for name in ("validator", "authorizer", "waiter", "executor", "sanitizer", "audit", "operator"):
        topic, key, value = writer(name).encode(word(kind, subject, 1))
        received = Received(Position(topic, 0, 0), 1, key, value)
        if name in only:
            assert opener().open(received).writer == name
        else:
            with pytest.raises(Poison, match="wrong_writer"):
                opener().open(received)


async def test_a_view_knows_what_was_said_before_it_began_and_bars_nothing_unseen() -> None:
    """S6: a view that was not started would let everything pass."""
    bus = MemoryBus(opener(), ManualClock())
    await bus.publisher(writer("operator")).publish(word(ControlKind.DISABLE, "tool:refund_order", 1))
    view = ControlView(bus)
    with pytest.raises(RuntimeError, match="not started"):
        view.barred("refund_order", PRINCIPAL, RUN_ID)
    await view.start()
    assert view.barred("refund_order", PRINCIPAL, RUN_ID) is not None
    await bus.publisher(writer("operator")).publish(word(ControlKind.ENABLE, "tool:refund_order", 2))
    assert view.barred("refund_order", PRINCIPAL, RUN_ID) is None
    await view.close()


async def internal(world: Sanitizing, **fields: Any) -> None:
    world.put(world.entry(LedgerKind.REFUSED, code="internal", reason="unforeseen", **fields))
    await world.drained()


async def test_before_anybody_hears_internal_the_run_is_stopped() -> None:
    """S6: said once more by a redelivery it is the same event, said at the same time."""
    world = Sanitizing()
    await world.start()
    order: list[str] = []
    for topic in (CONTROLS, CALLS_COMPLETED):
        await world.bus.follow(topic, lambda envelope: order.append(envelope.position.topic))
    await internal(world, about=dataclasses.replace(world.about(), tenant="acme", run_id=RUN))
    assert order == [CONTROLS, CALLS_COMPLETED]
    (stop,) = world.bus.opened(CONTROLS)
    assert (stop.record.kind, stop.record.subject, stop.writer) == (ControlKind.STOP, run_subject("acme", RUN), "sanitizer")
    await world.crash()
    world.bus.commit("sanitizer", "calls.ledger", world.bus.opened("calls.ledger")[0].position.partition, 0)
    await world.start()
    await world.drained()
    first, second = world.bus.opened(CONTROLS)
    assert (first.record.event_id, first.record.said_ms) == (second.record.event_id, second.record.said_ms)


@pytest.mark.parametrize("code", ["run_stopped", "rule_violated", "tool_failed"])
async def test_other_answers_stop_no_run(code: str) -> None:
    """S6"""
    world = Sanitizing()
    await world.start()
    world.put(world.entry(LedgerKind.REFUSED, code=code))
    await world.drained()
    assert len(world.bus.opened(CALLS_COMPLETED)) == 1
    assert world.bus.opened(CONTROLS) == []


async def test_our_own_failure_on_an_entry_stops_the_run_too() -> None:
    """S6: the result of a read that cannot be opened."""
    world = Sanitizing()
    await world.start()
    about: CallRef = world.about("look")
    world.put(
        world.entry(LedgerKind.FINISHED, tool="look", about=about, outcome="committed", result=world.box("x", "other-call"))
    )
    await world.drained()
    (answer,) = world.bus.opened(CALLS_COMPLETED)
    assert answer.record.code == "internal"
    assert [envelope.record.subject for envelope in world.bus.opened(CONTROLS)] == [run_subject(about.tenant, about.run_id)]
