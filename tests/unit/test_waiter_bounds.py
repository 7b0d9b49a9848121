"""What the waiter does not ask people about, or no longer: floods, switches, versions that are gone."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

import pytest

from fourgates.approval import WaiterSettings
from fourgates.catalog import Catalog
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import ApprovalKind, ControlKind, LedgerEntry, LedgerKind
from fourgates.contract.parts import Call, ref_of
from fourgates.gates.approval import alike
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person
from support.waiting import Waiting, call_of, sealed

BEN = person("ben")


@pytest.fixture
async def worker(world: Waiting) -> AsyncIterator[MemoryWorker]:
    running = await world.waiter(WaiterSettings(waiting_per_agent=3))
    yield running
    await running.crash()


def nth(world: Waiting, number: int, agent: str = "support-bot") -> Call:
    call = call_of(world.shop, call_id=f"{number:064x}", tool_call_id=f"call_{number}")
    return dataclasses.replace(call, principal=dataclasses.replace(call.principal, agent=agent))


async def ask(world: Waiting, number: int, agent: str = "support-bot") -> str:
    call, hold_id = nth(world, number, agent), f"{number:032x}"
    await world.hold(hold_id, call, verdicts=sealed(call))
    return hold_id


async def answer(world: Waiting, hold_id: str, verdict: str) -> None:
    shown = world.approvals(ApprovalKind.REQUESTED, hold_id)[0].record
    record = decided(hold_id, verdict, BEN, call_id=shown.call_id, shown_digest=shown.requested.shown_digest)
    await world.publish("approver", dataclasses.replace(record, event_id=ids.random_id()))


def refusals(world: Waiting) -> dict[str, str]:
    return {entry.call_id[-2:]: entry.code for entry in world.ledger(LedgerKind.REFUSED)}


async def test_an_agents_flood_is_bounded_and_the_rest_hears_why(world: Waiting, worker: MemoryWorker) -> None:
    """A9: the first three wait, each further one ends with a code of its own; another agent is not hindered."""
    for number in range(1, 7):
        await ask(world, number)
    await ask(world, 9, agent="other-bot")
    await world.settle(worker)
    asked = {event.record.hold_id for event in world.approvals(ApprovalKind.REQUESTED)}
    assert asked == {f"{number:032x}" for number in (1, 2, 3, 9)}
    assert refusals(world) == {f"0{number}": Code.QUOTA_EXCEEDED for number in (4, 5, 6)}


async def test_room_is_made_by_what_ends(world: Waiting, worker: MemoryWorker) -> None:
    """A9: decided, expired or withdrawn, each end lets the next call wait."""
    holds = [await ask(world, number) for number in (1, 2, 3)]
    await world.settle(worker)
    await answer(world, holds[0], "deny")
    call = nth(world, 2)
    cancelled = LedgerEntry(event_id="x", producer="t", kind=LedgerKind.CANCELLED, call_id=call.call_id, about=ref_of(call))
    await world.publish("validator", cancelled)
    await world.clock.advance(0.2)
    await world.settle(worker)
    for number in (4, 5, 6):
        await ask(world, number)
    await world.settle(worker)
    asked = {event.record.hold_id for event in world.approvals(ApprovalKind.REQUESTED)}
    assert asked == {f"{number:032x}" for number in (1, 2, 3, 4, 5)}
    assert refusals(world) == {"01": Code.APPROVAL_DENIED, "06": Code.QUOTA_EXCEEDED}


async def test_the_bound_is_counted_from_the_log_by_who_comes_next(world: Waiting, worker: MemoryWorker) -> None:
    """A9: a restart does not open the door to another flood."""
    for number in (1, 2, 3):
        await ask(world, number)
    await world.settle(worker)
    await worker.crash()
    again = await world.waiter(WaiterSettings(waiting_per_agent=3))
    await ask(world, 4)
    await world.settle(again)
    assert refusals(world) == {"04": Code.QUOTA_EXCEEDED}
    await again.crash()


async def test_equal_calls_are_one_group_and_decided_one_by_one(world: Waiting, worker: MemoryWorker) -> None:
    """A9: one yes answers one call, whatever the page shows together."""
    one, two = await ask(world, 1), await ask(world, 2)
    other = await ask(world, 3, agent="other-bot")
    await world.settle(worker)
    names = {event.record.event_id: alike(event.record.held) for event in world.approvals(ApprovalKind.HELD)}
    assert names[one] == names[two] != names[other]
    assert {hold_id: world.shown(hold_id)["alike"] for hold_id in names} == names
    await answer(world, one, "approve")
    await world.settle(worker)
    assert [cleared.hold_id for cleared in world.cleared()] == [one]


@pytest.mark.parametrize(
    ("kind", "subject", "code"),
    [
        (ControlKind.DISABLE, "tool:refund_order", Code.TOOL_DISABLED),
        (ControlKind.DISABLE, "agent:support-bot", Code.PERMISSION_DENIED),
        (ControlKind.DISABLE, "tenant:acme", Code.PERMISSION_DENIED),
        (ControlKind.STOP, "run:", Code.RUN_STOPPED),
    ],
)
async def test_what_was_switched_off_is_not_left_to_people(
    world: Waiting, worker: MemoryWorker, kind: ControlKind, subject: str, code: Code
) -> None:
    """S8, S6: what waits ends with the switch's own code, a yes after it is void, and nothing more of it is asked."""
    hold_id = await ask(world, 1)
    await world.doubt(call=nth(world, 8))
    await world.settle(worker)
    await world.switch(kind, subject + f"acme/{nth(world, 1).run_id}" if subject == "run:" else subject)
    await world.clock.advance(0.2)
    await world.settle(worker)
    assert refusals(world) == {"01": code}
    await answer(world, hold_id, "approve")
    await ask(world, 2)
    await world.settle(worker)
    assert refusals(world) == {"01": code, "02": code}
    assert world.cleared() == []
    assert len(world.approvals(ApprovalKind.REQUESTED)) == 2, "the first question, and the doubt, which stays"
    assert [hold.hold_id for hold in worker._stage._holds.open_holds()] == ["d" * 32]  # type: ignore[attr-defined]


async def test_switched_on_again_it_is_asked_again(world: Waiting, worker: MemoryWorker) -> None:
    """S8"""
    await world.switch(ControlKind.DISABLE, "tool:refund_order")
    await world.switch(ControlKind.ENABLE, "tool:refund_order")
    await ask(world, 1)
    await world.settle(worker)
    assert refusals(world) == {} and len(world.approvals(ApprovalKind.REQUESTED)) == 1


async def test_what_waits_for_a_version_that_is_gone_ends_when_the_new_one_comes(world: Waiting, worker: MemoryWorker) -> None:
    """S8: a waiter that starts with the new catalog ends the old version's questions as tool_changed, and says so once."""
    hold_id = await ask(world, 1)
    await world.settle(worker)
    await worker.crash()
    world.shop.catalog = Catalog("the shop without that version")
    new = await world.waiter()
    await world.settle(new)
    await world.clock.advance(0.2)
    await world.settle(new)
    assert refusals(world) == {"01": Code.TOOL_CHANGED}
    await answer(world, hold_id, "approve")
    await world.clock.advance(5)
    await world.settle(new)
    assert world.cleared() == [] and len(world.approvals(ApprovalKind.WITHDRAWN)) == 1
    await new.crash()


@pytest.mark.parametrize("first_ends", ["approve", "deny", ""])
async def test_other_arguments_under_a_key_that_is_taken_are_a_conflict(
    world: Waiting, worker: MemoryWorker, first_ends: str
) -> None:
    """E2, A3: they are not asked about, and never answered with what became of the first; the first goes on as it was."""
    first = await ask(world, 1)
    await world.settle(worker)
    if first_ends:
        await answer(world, first, first_ends)
        await world.settle(worker)
    other = call_of(world.shop, call_id=f"{1:064x}", tool_call_id="call_1", arguments={"order_id": "A-1001", "amount": 999})
    await world.hold("e" * 32, other, verdicts=sealed(other))
    await world.settle(worker)
    told = world.ledger(LedgerKind.REFUSED)[-1]
    assert (told.code, told.about.args_digest if told.about else "") == (Code.IDEMPOTENCY_CONFLICT, other.args_digest)
    assert len(world.approvals(ApprovalKind.REQUESTED)) == 1 and world.ledger(LedgerKind.REPLAYED) == []
    if not first_ends:
        await answer(world, first, "approve")
        await world.settle(worker)
    assert [cleared.hold_id for cleared in world.cleared()] == ([] if first_ends == "deny" else [first])


async def test_asked_again_after_a_cancel_it_is_the_same_call(world: Waiting, worker: MemoryWorker) -> None:
    """E2, A10: who cancels repeats no arguments; that makes the call itself no other one."""
    await ask(world, 1)
    await world.settle(worker)
    call = nth(world, 1)
    about = dataclasses.replace(ref_of(call), args_digest="")
    await world.publish(
        "validator", LedgerEntry(event_id="x", producer="t", kind=LedgerKind.CANCELLED, call_id=call.call_id, about=about)
    )
    await world.clock.advance(0.2)
    await world.settle(worker)
    await world.hold("f" * 32, call, verdicts=sealed(call))
    await world.settle(worker)
    assert refusals(world) == {} and len(world.ledger(LedgerKind.REPLAYED)) == 1
