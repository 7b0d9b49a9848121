"""The audit sink against a shelf in memory: what is inserted, committed and said in which order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fourgates.audit.columns import Row
from fourgates.audit.settings import SinkSettings
from fourgates.audit.sink import AuditSink
from fourgates.contract.errors import Transient
from fourgates.contract.events import AuditWatermark, Record
from fourgates.contract.ports import Offsets, Position, Received
from fourgates.contract.topology import AUDIT_WATERMARKS, AUDITED, CALL_PARTITIONS, CALLS_LEDGER
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.memory import MemoryBus, MemoryPublisher
from fourgates.runtime.memory_batches import MemoryBatches
from support.auditing import row_maker
from support.eventually import eventually
from support.sealing import opener, writer
from support.stories import Tape, a_read, a_waived_write


@dataclass
class Shelf:
    """A store in memory that may be away."""

    journal: list[str]
    rows: list[Row] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    away: bool = False
    refusals: int = 0

    def insert(self, rows: Sequence[Row]) -> None:
        if self.away:
            self.refusals += 1
            raise Transient("the store is away")
        self.rows += rows
        self.batches.append(len(rows))
        self.journal.append("insert")

    def alive(self) -> None:
        if self.away:
            self.refusals += 1
            raise Transient("the store is away")


class JournalledBatches(MemoryBatches):
    journal: list[str]
    read = 0

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        async for received in super().__aiter__():
            self.read += len(received)
            yield received

    async def commit(self, offsets: Offsets) -> None:
        await super().commit(offsets)
        self.journal.append("commit")


class JournalledPublisher(MemoryPublisher):
    journal: list[str]

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        self.journal.append("watermark")
        return await super().publish(record, partition)


class Audit:
    """A bus, a sink on it, and what the sink did."""

    def __init__(self, settings: SinkSettings, clock: ManualClock | None = None) -> None:
        self.journal: list[str] = []
        self.clock = clock or ManualClock()
        self.bus, self.shelf = MemoryBus(opener(), self.clock), Shelf(self.journal)
        publisher = JournalledPublisher(self.bus, writer("audit"))
        publisher.journal = self.journal
        self.sink = AuditSink(self.shelf, row_maker(), publisher, self.clock, "audit@test", settings)
        self.batches = self.reading()

    def reading(self) -> JournalledBatches:
        batches = JournalledBatches(self.bus, "audit", AUDITED)
        batches.journal = self.journal
        return batches

    def play(self, tape: Tape) -> None:
        for one in tape.received:
            self.bus.append(one.position.topic, one.key, one.value, one.position.partition)

    def marks(self, topic: str = CALLS_LEDGER) -> dict[int, int]:
        """The newest watermark of each partition."""
        found: dict[int, int] = {}
        for envelope in self.bus.opened(AUDIT_WATERMARKS):
            mark: AuditWatermark = envelope.record
            if mark.topic == topic:
                found[mark.partition] = mark.offset
        return found

    def committed(self) -> dict[tuple[str, int], int]:
        places = [(topic, number) for topic in AUDITED for number in range(CALL_PARTITIONS)]
        return {place: offset for place in places if (offset := self.bus.committed("audit", *place))}


@asynccontextmanager
async def running(settings: SinkSettings | None = None) -> AsyncIterator[Audit]:
    audit = Audit(settings or SinkSettings(age=0))
    task = asyncio.create_task(audit.sink.run(audit.batches))
    try:
        yield audit
    finally:
        await audit.batches.close()
        await asyncio.wait((task,), timeout=1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def story() -> Tape:
    tape = Tape()
    a_read(tape)
    a_waived_write(tape)
    return tape


async def test_every_record_is_inserted_then_committed_then_marked() -> None:
    """L2."""
    tape = story()
    async with running() as audit:
        audit.play(tape)
        await eventually(lambda: len(audit.shelf.rows) == len(tape.received) and "watermark" in audit.journal)
        first = audit.journal.index("watermark")
        assert "insert" in audit.journal[:first] and audit.journal[first - 1] == "commit"
        await eventually(lambda: sum(audit.committed().values()) == len(tape.received))
        for (topic, partition), offset in audit.committed().items():
            assert offset == len(audit.bus.log(topic, partition))
            if topic != "calls.ledger":  # nobody waits for the others': they come with the next heartbeat
                await eventually(lambda t=topic, p=partition: _advanced(audit, lambda: audit.marks(t).get(p) is not None))
            await eventually(lambda t=topic, p=partition, o=offset: audit.marks(t).get(p) == o)


async def test_while_the_store_is_away_nothing_is_committed_or_marked_and_afterwards_nothing_is_missing() -> None:
    """L2, L3."""
    tape = story()
    async with running() as audit:
        audit.shelf.away = True
        audit.play(tape)
        await eventually(lambda: audit.shelf.refusals >= 1)
        await eventually(lambda: audit.sink.failing)
        await eventually(lambda: _advanced(audit, lambda: audit.shelf.refusals >= 4))
        assert audit.committed() == {}
        assert audit.bus.records(AUDIT_WATERMARKS) == []
        audit.shelf.away = False
        await eventually(lambda: _advanced(audit, lambda: len(audit.shelf.rows) == len(tape.received)))
        placed = {(row["topic"], row["partition"], row["offset"]) for row in audit.shelf.rows}
        assert len(placed) == len(tape.received)
        await eventually(lambda: not audit.sink.failing and audit.committed() != {})


async def _advanced(audit: Audit, condition: Callable[[], bool]) -> bool:
    await audit.clock.advance(10)
    return condition()


async def test_partitions_of_the_ledger_that_stand_still_get_a_watermark_each_second() -> None:
    """L3: the executor sees that the store is there although nothing happens."""
    async with running() as audit:
        for count in (1, 2, 3):
            await eventually(lambda n=count: _beaten(audit, n))
        assert audit.marks() == dict.fromkeys(range(CALL_PARTITIONS), 0)
        assert audit.marks("calls.requested") == {}


async def _beaten(audit: Audit, count: int) -> bool:
    if len(audit.bus.records(AUDIT_WATERMARKS)) >= count * CALL_PARTITIONS:
        return True
    await audit.clock.advance(1)
    return False


async def test_no_heartbeat_while_the_store_does_not_answer() -> None:
    """L3."""
    async with running() as audit:
        audit.shelf.away = True
        await eventually(lambda: _advanced(audit, lambda: audit.shelf.refusals >= 3))
        assert audit.bus.records(AUDIT_WATERMARKS) == []


async def test_a_watermark_after_a_restart_starts_at_what_was_committed() -> None:
    """L2: what was committed is in the store, so saying so again is true."""
    tape = story()
    async with running() as audit:
        audit.play(tape)
        await eventually(lambda: audit.committed() != {} and len(audit.shelf.rows) == len(tape.received))
        await eventually(lambda: audit.marks() != {})
        before = audit.marks()
    again = audit.reading()
    sink = AuditSink(audit.shelf, row_maker(), audit.bus.publisher(writer("audit")), audit.clock, "audit@2", SinkSettings(age=0))
    task = asyncio.create_task(sink.run(again))
    try:
        seen = len(audit.bus.records(AUDIT_WATERMARKS))
        await eventually(lambda: _beaten(audit, seen // CALL_PARTITIONS + 2))
        after = audit.marks()
        assert {number: after[number] for number in before} == before
    finally:
        await again.close()
        await task


async def test_a_batch_is_bounded_by_rows_and_a_small_one_by_age() -> None:
    """L2: memory stays bounded whatever the backlog."""
    tape = story()
    audit = Audit(SinkSettings(age=60, rows=4))
    audit.batches = JournalledBatches(audit.bus, "audit", AUDITED, most=3)
    audit.batches.journal = audit.journal
    audit.play(tape)
    task = asyncio.create_task(audit.sink.run(audit.batches))
    await eventually(lambda: sum(audit.shelf.batches) >= len(tape.received) - 3)
    assert max(audit.shelf.batches) <= 6
    await eventually(lambda: _advanced(audit, lambda: sum(audit.shelf.batches) == len(tape.received)))
    await audit.batches.close()
    await task


class Busy(JournalledBatches):
    """The next record is there whenever somebody asks."""

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        async for received in super().__aiter__():
            for one in received:
                yield [one]


class Hurrying(ManualClock):
    """Time goes on with every look at it."""

    def monotonic(self) -> float:
        self._elapsed += 0.04
        return self._elapsed


async def test_a_batch_is_not_older_than_its_age_while_records_keep_coming() -> None:
    """L3: under a load that never ends the executor would else find the store ever further behind."""
    tape = story()
    audit = Audit(SinkSettings(age=0.1), Hurrying())
    audit.batches = Busy(audit.bus, "audit", AUDITED)
    audit.batches.journal = audit.journal
    audit.play(tape)
    task = asyncio.create_task(audit.sink.run(audit.batches))
    await eventually(lambda: audit.shelf.batches)
    assert audit.shelf.batches[0] <= 4 < len(tape.received)  # the next one grows only as long as this one is under way
    await audit.batches.close()
    await task


async def test_what_was_read_before_the_end_is_still_inserted() -> None:
    """L2."""
    tape = story()
    audit = Audit(SinkSettings(age=3_600))
    audit.play(tape)
    task = asyncio.create_task(audit.sink.run(audit.batches))
    await eventually(lambda: audit.batches.read == len(tape.received))
    assert audit.shelf.rows == []
    await audit.batches.close()
    await task
    assert len(audit.shelf.rows) == len(tape.received)
    assert sum(audit.committed().values()) == len(tape.received)
