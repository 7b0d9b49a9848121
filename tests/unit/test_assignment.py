"""Which records are started, and what may be committed, while partitions come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Position, Received
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.runtime.assignment import Assignment
from fourgates.runtime.intake import FatalError
from support.eventually import eventually


class Gate:
    """A handler whose records end when the test says so."""

    def __init__(self) -> None:
        self.started: list[tuple[int, int]] = []
        self.ticks = 0
        self._ends: dict[tuple[int, int], asyncio.Future[None]] = {}

    async def process(self, received: Received) -> None:
        place = (received.position.partition, received.position.offset)
        self.started.append(place)
        end = self._ends[place] = asyncio.get_running_loop().create_future()
        await end

    async def tick(self) -> None:
        self.ticks += 1

    async def end(self, partition: int, offset: int, fault: Exception | None = None) -> None:
        await settle()
        end = self._ends[partition, offset]
        end.set_exception(fault) if fault else end.set_result(None)
        await settle()


class Log:
    """What really lies in the partitions."""

    def __init__(self) -> None:
        self.offsets, self.sought, self.asked, self.away = list(range(1_000)), list[int](), 0, False

    async def first_from(self, partition: int, offset: int) -> int:
        self.asked += 1
        if self.away:
            raise Transient("away")
        return next(o for o in self.offsets if o >= offset)

    async def seek(self, partition: int, offset: int) -> None:
        self.sought.append(offset)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def record(partition: int, offset: int) -> Received:
    return Received(Position(CALLS_LEDGER, partition, offset), 0, b"k", b"v")


class Bench:
    def __init__(self, at_once: int = 100, span: int = 100) -> None:
        self.gate, self.faults = Gate(), list[Exception]()
        handler: Any = self.gate
        self.log = Log()
        self.ours = Assignment(handler, self.log, at_once=at_once, span=span, failed=self.faults.append)


@pytest.fixture
def make() -> Callable[..., Bench]:
    return Bench


async def test_nothing_is_committed_past_an_unfinished_record(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({3: 10})
    for offset in range(10, 14):
        await bench.ours.take(record(3, offset))
    assert bench.ours.committable() == {}
    await bench.gate.end(3, 12)
    assert bench.ours.committable() == {}
    await bench.gate.end(3, 10)
    assert bench.ours.committable() == {3: 11}
    bench.ours.committed({3: 11})
    assert bench.ours.committable() == {}
    await bench.gate.end(3, 11)
    assert bench.ours.committable() == {3: 13}
    assert bench.ours.position(3) == 13
    assert bench.ours.position(4) is None


async def test_records_wait_for_room_and_for_the_span(make: Callable[..., Bench]) -> None:
    """E11"""
    for bench in (make(at_once=2), make(span=2)):
        bench.ours.take_up({0: 0})
        await bench.ours.take(record(0, 0))
        await bench.ours.take(record(0, 1))
        waiting = asyncio.create_task(bench.ours.take(record(0, 2)))
        await settle()
        assert len(bench.gate.started) == 2
        await bench.gate.end(0, 0)
        await asyncio.wait_for(waiting, 1)
        await settle()
        assert bench.gate.started == [(0, 0), (0, 1), (0, 2)]


async def test_work_of_an_old_assignment_commits_nothing_in_the_new_one(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    await bench.ours.take(record(0, 0))
    await settle()
    bench.ours.give_up()
    bench.ours.take_up({0: 0})
    await bench.gate.end(0, 0)
    assert bench.ours.committable() == {}
    assert bench.ours.position(0) == 0


async def test_what_waited_for_room_is_not_started_after_the_partition_is_gone(make: Callable[..., Bench]) -> None:
    bench = make(at_once=1)
    bench.ours.take_up({0: 0})
    await bench.ours.take(record(0, 0))
    waiting = asyncio.create_task(bench.ours.take(record(0, 1)))
    await settle()
    draining = asyncio.create_task(bench.ours.drain(5))
    await bench.gate.end(0, 0)
    await asyncio.wait_for(draining, 1)
    await asyncio.wait_for(waiting, 1)
    assert bench.gate.started == [(0, 0)]
    assert bench.ours.committable() == {0: 1}
    bench.ours.give_up()
    bench.ours.take_up({0: 1})
    await bench.ours.take(record(0, 1))
    await bench.gate.end(0, 1)
    assert bench.ours.committable() == {0: 2}


async def test_drain_waits_then_cancels_and_keeps_what_was_cancelled_uncommitted(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    for offset in range(3):
        await bench.ours.take(record(0, offset))
    await bench.gate.end(0, 0)
    await bench.gate.end(0, 2)
    await asyncio.wait_for(bench.ours.drain(0.01), 1)
    assert bench.ours.under_way == 0
    assert bench.ours.committable() == {0: 1}


async def test_between_two_assignments_records_are_left_to_the_next_owner(make: Callable[..., Bench]) -> None:
    bench = make()
    await bench.ours.take(record(0, 0))
    bench.ours.take_up({0: 0})
    bench.ours.give_up()
    await bench.ours.take(record(0, 0))
    await bench.ours.tick()
    assert (bench.gate.started, bench.gate.ticks, bench.faults) == ([], 0, [])


async def test_what_comes_too_early_is_left_out_and_read_again(make: Callable[..., Bench]) -> None:
    """A client that still holds records from before it went back to the committed offset must not make those before look old."""
    bench = make()
    bench.ours.take_up({0: 100})
    for offset in (121, 122, 123, 100, 101, 102):
        await bench.ours.take(record(0, offset))
    await settle()
    assert bench.gate.started == [(0, 100), (0, 101), (0, 102)]
    assert (bench.log.sought, bench.log.asked) == ([100], 1)
    for offset in (100, 101, 102):
        await bench.gate.end(0, offset)
    assert bench.ours.committable() == {0: 103}
    await bench.ours.take(record(0, 110))
    await bench.ours.take(record(0, 103))
    await settle()
    assert bench.gate.started[-1] == (0, 103)
    assert bench.log.sought == [100, 103]


async def test_a_real_hole_in_the_log_is_stepped_over(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.log.offsets = [500, 501, 503]
    bench.ours.take_up({0: 0})
    for offset in (500, 501, 503):
        await bench.ours.take(record(0, offset))
    await settle()
    assert bench.gate.started == [(0, 500), (0, 501), (0, 503)]
    assert bench.log.sought == []


async def test_a_gap_is_looked_into_as_soon_as_the_log_answers(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    bench.log.away = True
    waiting = asyncio.create_task(bench.ours.take(record(0, 5)))
    await eventually(lambda: bench.log.asked >= 2)
    bench.log.away = False
    await asyncio.wait_for(waiting, 5)
    assert bench.log.sought == [0]
    assert bench.gate.started == []


async def test_a_record_of_a_foreign_partition_ends_the_process(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    await bench.ours.take(record(1, 0))
    assert [type(fault) for fault in bench.faults] == [FatalError]


async def test_a_fatal_fault_of_a_record_ends_the_process_and_leaves_it_uncommitted(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    await bench.ours.take(record(0, 0))
    await bench.gate.end(0, 0, FatalError("no"))
    assert [str(fault) for fault in bench.faults] == ["no"]
    assert bench.ours.committable() == {}


async def test_a_repeated_delivery_is_not_started_again(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ours.take_up({0: 0})
    for offset in (0, 1, 0, 1, 2):
        await bench.ours.take(record(0, offset))
    await settle()
    assert bench.gate.started == [(0, 0), (0, 1), (0, 2)]
