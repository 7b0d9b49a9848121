"""The waiter dies at every point of its work, and whoever comes next ends each call once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from fourgates.contract.events import ApprovalKind, LedgerEntry, LedgerKind, Record
from fourgates.contract.parts import ref_of
from fourgates.contract.ports import Position, Publisher
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person
from support.waiting import Waiting, call_of, sealed

H = "a" * 32
Story = Callable[[Waiting, Callable[[], Awaitable[None]]], Awaitable[None]]


class DyingPublisher:
    """Stands still for ever right before or right after its n-th record is in the log, until the process is killed."""

    def __init__(self, inner: Publisher, number: int, after: bool) -> None:
        self._inner, self._left, self._after = inner, number, after
        self.dead = asyncio.Event()

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        self._left -= 1
        if self._left == 0:
            if self._after:
                await self._inner.publish(record, partition)
            self.dead.set()
            await asyncio.Event().wait()
        return await self._inner.publish(record, partition)


async def decide(world: Waiting, verdict: str) -> None:
    asked = world.approvals(ApprovalKind.REQUESTED, H)[0].record
    record = decided(H, verdict, person("ben"), call_id=asked.call_id, shown_digest=asked.requested.shown_digest)
    await world.publish("approver", record)


async def approved(world: Waiting, settle: Callable[[], Awaitable[None]]) -> None:
    await settle()
    await decide(world, "approve")
    await settle()


async def denied(world: Waiting, settle: Callable[[], Awaitable[None]]) -> None:
    await settle()
    await decide(world, "deny")
    await settle()


async def expired(world: Waiting, settle: Callable[[], Awaitable[None]]) -> None:
    await settle()
    await world.clock.advance(3_601)
    await settle()


async def cancelled(world: Waiting, settle: Callable[[], Awaitable[None]]) -> None:
    await settle()
    call = call_of(world.shop)
    entry = LedgerEntry(event_id="c", producer="t", kind=LedgerKind.CANCELLED, call_id=call.call_id, about=ref_of(call))
    await world.publish("validator", entry)
    await world.clock.advance(0.2)
    await settle()


ENDS: dict[Story, tuple[str, ...]] = {
    approved: ("CallCleared",), denied: ("approval_denied",), expired: ("approval_expired",), cancelled: (),
}  # fmt: skip


def outcome(world: Waiting) -> tuple[str, ...]:
    """What ended the call: by the id of its record, for one that was appended before the death comes again with the same id."""
    cleared = {record.event_id for record in world.cleared()}
    refused = {record.event_id: record.code for record in world.ledger(LedgerKind.REFUSED)}
    return (*("CallCleared" for _ in cleared), *refused.values())


@pytest.mark.parametrize("story", ENDS, ids=lambda story: story.__name__)
@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_death_at_any_point_gives_one_outcome(story: Story, number: int, after: bool) -> None:
    """A6, E5: kill -9 right before or after each record of the waiter; nothing is lost, nothing is decided twice."""
    world = Waiting()
    publisher = DyingPublisher(world.publisher("waiter"), number, after)
    workers: list[MemoryWorker] = [await world.waiter(publisher=publisher)]

    async def settle() -> None:
        """Until all is quiet, or the waiter has died and another has taken over."""
        for _ in range(6):
            idle = asyncio.create_task(world.settle(*workers))
            dead = asyncio.create_task(publisher.dead.wait())
            await asyncio.wait((idle, dead), return_when=asyncio.FIRST_COMPLETED)
            for task in (idle, dead):
                task.cancel()
            await asyncio.gather(idle, dead, return_exceptions=True)
            if publisher.dead.is_set():
                publisher.dead.clear()
                await workers.pop().crash()
                workers.append(await world.waiter())
            await world.clock.advance(1)

    await world.hold(H, verdicts=sealed(call_of(world.shop)))
    await story(world, settle)
    assert outcome(world) == ENDS[story]
    assert world.dead() == []
    assert not list(workers[0]._stage._holds.open_holds())  # type: ignore[attr-defined]
    await workers[0].crash()


async def test_partitions_move_between_waiters_and_every_call_ends_once() -> None:
    """A6, S1: a rebalance while people decide; each waiter answers for what is its own now, and nobody answers twice."""
    world = Waiting()
    calls = [call_of(world.shop, call_id=f"{number:064x}") for number in range(24)]
    one = await world.waiter()
    for number, call in enumerate(calls):
        await world.hold(f"{number:032x}", call, verdicts=sealed(call))
    await world.settle(one)
    await one.stop()
    two, three = await world.waiter(partitions=range(6)), await world.waiter(partitions=range(6, 12))
    for event in world.approvals(ApprovalKind.REQUESTED)[:16]:
        asked = event.record
        record = decided(
            asked.hold_id, "approve", person("ben"), call_id=asked.call_id, shown_digest=asked.requested.shown_digest
        )
        await world.publish("approver", record)
    await world.settle(two, three)
    await two.crash()
    await three.crash()
    four = await world.waiter()
    await world.clock.advance(3_601)
    for _ in range(3):
        await world.clock.advance(4)
        await world.settle(four)
    refused = [entry.hold_id for entry in world.ledger(LedgerKind.REFUSED)]
    cleared = [record.hold_id for record in world.cleared()]
    assert (len(cleared), len(refused)) == (16, 8)
    assert sorted(cleared + refused) == [f"{number:032x}" for number in range(24)]
    await four.crash()
