"""What becomes of a record, whatever its handling does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from fourgates.contract.errors import Poison, Transient
from fourgates.contract.events import DeadRecord, LedgerEntry, LedgerKind, Record
from fourgates.contract.ports import Emit, Envelope, Position, Received
from fourgates.contract.stage import BaseStage
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.intake import BACKOFF_CAP, FatalError, RecordHandler, Turns, backoff
from fourgates.runtime.trace import TRACE
from support.sealing import opener, writer


def entry(number: int, call_id: str = "a" * 64) -> LedgerEntry:
    return LedgerEntry(event_id=f"{number:032x}", producer="test", kind=LedgerKind.REPLAYED, call_id=call_id)


def received(number: int = 0, call_id: str = "a" * 64, value: bytes | None = b"?") -> Received:
    _, key, good = writer("executor").encode(entry(number, call_id))
    from fourgates.contract.partition import partition_of

    return Received(Position(CALLS_LEDGER, partition_of(key, 12), number), 1_000, key, good if value == b"?" else value)


class Scripted(BaseStage):
    """Does for each record what the test says."""

    name = "sanitizer"
    reads = CALLS_LEDGER

    def __init__(self) -> None:
        self.script: Callable[[Envelope], Awaitable[Sequence[Emit]]] = self.quiet
        self.handled: list[int] = []
        self.folded: list[int] = []
        self.ticking: Callable[[], Sequence[Emit]] = tuple

    def fold(self, envelope: Envelope) -> int:
        self.folded.append(envelope.position.offset)
        return len(self.folded)

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        self.handled.append(envelope.position.offset)
        return await self.script(envelope)

    async def tick(self) -> Sequence[Emit]:
        return self.ticking()

    async def quiet(self, envelope: Envelope) -> Sequence[Emit]:
        return ()


class Paper:
    """A publisher that writes down."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.faults: list[Exception] = []

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        if self.faults:
            raise self.faults.pop(0)
        self.records.append(record)
        return Position("", 0, 0)


class Bench:
    def __init__(self, on_unforeseen: Callable[[Envelope], Sequence[Emit]] = lambda envelope: ()) -> None:
        self.stage, self.paper, self.clock = Scripted(), Paper(), ManualClock()
        self.handler = RecordHandler(self.stage, opener(), self.paper, self.clock, "sanitizer@test:1", on_unforeseen)

    def script(self, *outcomes: Any) -> None:
        """One outcome a call of `handle`: an exception is raised, anything else returned."""
        left = list(outcomes)

        async def play(envelope: Envelope) -> Sequence[Emit]:
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        self.stage.script = play

    async def through(self, work: Awaitable[Any]) -> None:
        """Runs it while time goes by."""
        task = asyncio.ensure_future(work)
        for _ in range(200):
            await self.clock.advance(1)
            if task.done():
                break
        await asyncio.wait_for(task, 1)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_what_a_stage_returns_is_published_in_its_order(bench: Bench) -> None:
    bench.script([entry(7), entry(8)])
    await bench.handler.process(received())
    assert [record.event_id for record in bench.paper.records] == [entry(7).event_id, entry(8).event_id]


async def test_an_unreadable_record_is_dead_lettered_and_never_handled(bench: Bench) -> None:
    """P6"""
    await bench.handler.process(received(value=b"\0garbage"))
    (dead,) = bench.paper.records
    assert isinstance(dead, DeadRecord)
    assert (dead.worker, dead.reason, dead.payload, dead.cause) == ("sanitizer", "unknown_schema", b"\0garbage", None)
    assert bench.stage.handled == bench.stage.folded == []


async def test_a_redelivered_dead_record_repeats_its_event_id(bench: Bench) -> None:
    await bench.handler.process(received(value=None))
    await bench.handler.process(received(value=None))
    first, second = bench.paper.records
    assert first == second


async def test_poison_of_a_stage_is_dead_lettered_and_answers_nobody() -> None:
    bench = Bench(lambda envelope: [entry(99)])
    bench.script(Poison("bad_grant", "its key does not fit"))
    await bench.handler.process(received())
    (dead,) = bench.paper.records
    assert (dead.reason, dead.detail, dead.cause.event_id) == ("bad_grant", "its key does not fit", entry(0).event_id)


async def test_transient_is_tried_until_it_works_and_folded_once(bench: Bench) -> None:
    bench.script(Transient("away"), Transient("away"), Transient("away"), [entry(7)])
    await bench.through(bench.handler.process(received()))
    assert bench.stage.handled == [0] * 4
    assert bench.stage.folded == [0]
    assert len(bench.paper.records) == 1


async def test_a_record_that_cannot_be_published_now_is_not_handled_again(bench: Bench) -> None:
    bench.script([entry(7), entry(8)])
    bench.paper.faults = [Transient("broker away"), Transient("broker away")]
    await bench.through(bench.handler.process(received()))
    assert bench.stage.handled == [0]
    assert [record.event_id for record in bench.paper.records] == [entry(7).event_id, entry(8).event_id]


async def test_an_unforeseen_exception_is_dead_lettered_and_owned_up_to() -> None:
    """S6"""
    bench = Bench(lambda envelope: [entry(98), entry(99, envelope.record.call_id)])
    bench.script(ValueError("a message with hunter2"))
    await bench.handler.process(received())
    dead, *last_words = bench.paper.records
    assert (dead.reason, dead.cause.event_id) == ("unforeseen", entry(0).event_id)
    assert "hunter2" not in repr(dead)
    assert last_words == [entry(98), entry(99)]


async def test_five_unforeseen_in_a_row_are_fatal_after_each_was_dead_lettered(bench: Bench) -> None:
    bench.script(*[ValueError()] * 4, [], *[ValueError()] * 5)
    for number in range(9):
        await bench.handler.process(received(number))
    with pytest.raises(FatalError):
        await bench.handler.process(received(9))
    assert len(bench.paper.records) == 9


async def test_a_dead_letter_that_cannot_be_written_is_fatal(bench: Bench) -> None:
    bench.paper.faults = [ValueError("too large")]
    with pytest.raises(FatalError):
        await bench.handler.process(received(value=None))


async def test_a_record_that_cannot_be_folded_is_fatal(bench: Bench) -> None:
    def broken(envelope: Envelope) -> int:
        raise ValueError

    bench.stage.fold = broken  # type: ignore[method-assign]
    with pytest.raises(FatalError):
        await bench.handler.process(received())


async def test_records_are_folded_in_the_order_in_which_they_are_started(bench: Bench) -> None:
    async def slow(envelope: Envelope) -> Sequence[Emit]:
        await bench.clock.sleep(10 - envelope.position.offset)
        return ()

    bench.stage.script = slow
    await bench.through(asyncio.gather(*[bench.handler.process(received(n, f"{n:064x}")) for n in range(8)]))
    assert bench.stage.folded == list(range(8))


async def test_the_same_key_waits_and_others_do_not(bench: Bench) -> None:
    """E1"""
    ended: list[int] = []

    async def slow(envelope: Envelope) -> Sequence[Emit]:
        await bench.clock.sleep(5 - envelope.position.offset)
        ended.append(envelope.position.offset)
        return ()

    bench.stage.script = slow
    await bench.through(
        asyncio.gather(*[bench.handler.process(received(n, key * 64)) for n, key in enumerate(("a", "a", "a", "b"))])
    )
    assert ended == [3, 0, 1, 2]


async def test_a_trace_travels_from_a_record_to_what_it_causes(bench: Bench) -> None:
    """S3"""
    seen: list[Any] = []

    async def look(envelope: Envelope) -> Sequence[Emit]:
        seen.append(TRACE.get())
        return ()

    bench.stage.script = look
    parent = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    plain = received()
    for headers in ((parent, ("tracestate", b"a=1")), (("traceparent", b"<script>"),), ()):
        await bench.handler.process(Received(plain.position, plain.time_ms, plain.key, plain.value, headers))
    assert seen == [(parent, ("tracestate", b"a=1")), (), ()]


async def test_a_tick_that_fails_five_times_in_a_row_is_fatal(bench: Bench) -> None:
    def broken() -> Sequence[Emit]:
        raise ValueError

    bench.stage.ticking = broken
    for _ in range(4):
        await bench.handler.tick()
    bench.stage.ticking = lambda: [entry(5)]
    await bench.handler.tick()
    assert bench.paper.records == [entry(5)]
    bench.stage.ticking = broken
    for _ in range(4):
        await bench.handler.tick()
    with pytest.raises(FatalError):
        await bench.handler.tick()


async def test_a_restored_record_is_folded_and_not_handled(bench: Bench) -> None:
    await bench.handler.restore(received(3))
    await bench.handler.restore(received(4, value=b"junk"))
    assert bench.stage.folded == [3]
    assert bench.stage.handled == bench.paper.records == []


async def test_who_asked_after_a_cancelled_one_still_waits_for_those_before() -> None:
    turns, release, order = Turns(), asyncio.Event(), list[str]()

    async def work(name: str) -> None:
        order.append(name)
        await release.wait()

    first, second, third = (asyncio.create_task(turns.take("k", lambda n=n: work(n))) for n in ("first", "second", "third"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait((second,))
    await asyncio.sleep(0)
    assert order == ["first"]
    release.set()
    await asyncio.wait_for(asyncio.gather(first, third), 1)
    assert order == ["first", "third"]
    assert not turns._last


def test_backoff_grows_to_its_cap() -> None:
    assert all(0 <= backoff(attempt) <= min(BACKOFF_CAP, 0.1 * 2**attempt) for attempt in range(1, 60))
    assert max(backoff(50) for _ in range(200)) > BACKOFF_CAP / 2


async def test_what_a_tick_says_of_one_key_stays_in_order_and_other_keys_do_not_wait_for_it(bench: Bench) -> None:
    """A5: thousands of holds may expire in the same second."""
    calls = [f"{number:064x}" for number in range(3)]
    bench.stage.ticking = lambda: [entry(number, calls[number % 3]) for number in range(9)]
    bench.paper.faults = [Transient("the broker is away for the first of them")]
    ticking = asyncio.create_task(bench.handler.tick())
    for _ in range(20):
        await asyncio.sleep(0)
    assert [int(record.event_id, 16) for record in bench.paper.records] == [1, 4, 7, 2, 5, 8]
    await bench.through(ticking)
    assert [int(record.event_id, 16) for record in bench.paper.records[6:]] == [0, 3, 6]
