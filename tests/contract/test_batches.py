"""What every way of reading in batches must do, in-process or Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fourgates.contract.ports import Batches, Position, Received
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_LEDGER, CONTROLS
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.kafka import GroupBatches, RawProducer
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_batches import MemoryBatches
from support.eventually import eventually
from support.kafka import committed_offsets
from support.sealing import opener

TOPICS = (CALLS_LEDGER, CALLS_COMPLETED, CONTROLS)
GROUP = "audit"


class Reading:
    """What a member of the group has got so far."""

    def __init__(self, batches: Batches) -> None:
        self.batches = batches
        self.got: list[Received] = []
        self.ended = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for batch in self.batches:
            assert batch
            self.got += batch

    def places(self) -> list[tuple[str, int, int]]:
        return [(r.position.topic, r.position.partition, r.position.offset) for r in self.got]

    async def has(self, number: int) -> None:
        await eventually(lambda: len(self.got) >= number)


class Source:
    """One kind of broker."""

    def __init__(self, append: Callable[..., Awaitable[Position]], make: Callable[[], Batches], bootstrap: str | None) -> None:
        self.append, self._make, self.bootstrap = append, make, bootstrap

    @asynccontextmanager
    async def member(self) -> AsyncIterator[Reading]:
        batches = self._make()
        reading = Reading(batches)
        try:
            yield reading
        finally:
            await batches.close()
            await asyncio.wait_for(reading.ended, 10)


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("fresh_kafka").bootstrap if request.param == "kafka" else None


@pytest.fixture
async def source(bootstrap: str | None) -> AsyncIterator[Source]:
    if bootstrap is None:
        memory = MemoryBus(opener(), SystemClock())

        async def append(*given: Any) -> Position:
            return memory.append(*given)

        yield Source(append, lambda: MemoryBatches(memory, GROUP, TOPICS), None)
        return
    async with RawProducer(bootstrap) as producer:
        yield Source(producer.append, lambda: GroupBatches(bootstrap, GROUP, TOPICS, session_seconds=6), bootstrap)


async def test_every_record_comes_unopened_and_in_its_partitions_order(source: Source) -> None:
    """L2"""
    values = [None, b"no avro", b"\0\0\0\0\1junk", *[b"x%d" % n for n in range(20)]]
    before = [await source.append(CALLS_LEDGER, b"k", value, n % 3) for n, value in enumerate(values)]
    async with source.member() as reading:
        await reading.has(len(before))
        after = [await source.append(CALLS_COMPLETED, b"k", b"late", 7), await source.append(CONTROLS, b"k", b"late", 0)]
        await reading.has(len(before) + 2)
        places = reading.places()
        assert sorted(places) == sorted((p.topic, p.partition, p.offset) for p in before + after)
        for number in range(3):
            offsets = [offset for topic, partition, offset in places if (topic, partition) == (CALLS_LEDGER, number)]
            assert offsets == sorted(offsets)
        assert [r.value for r in reading.got if r.position == before[0]] == [None]


async def test_the_next_start_is_at_what_was_committed(source: Source) -> None:
    positions = [await source.append(CALLS_LEDGER, b"k", b"v", 4) for _ in range(10)]
    async with source.member() as reading:
        await reading.has(10)
        assert reading.batches.assigned()[CALLS_LEDGER, 4] == 0
        await reading.batches.commit({(CALLS_LEDGER, 4): positions[6].offset})
    async with source.member() as reading:
        await reading.has(4)
        assert [offset for _, _, offset in reading.places()] == [6, 7, 8, 9]
        assert reading.batches.assigned()[CALLS_LEDGER, 4] == 6
        assert reading.batches.assigned()[CALLS_COMPLETED, 4] == 0


async def test_all_partitions_of_all_topics_are_assigned(source: Source) -> None:
    async with source.member() as reading:
        await eventually(lambda: len(reading.batches.assigned()) == 25)
        assert {topic for topic, _ in reading.batches.assigned()} == set(TOPICS)


@pytest.mark.kafka
async def test_two_members_share_the_partitions_and_miss_nothing(fresh_kafka: Any) -> None:
    """L2"""
    bootstrap = fresh_kafka.bootstrap
    async with RawProducer(bootstrap) as producer:
        source = Source(producer.append, lambda: GroupBatches(bootstrap, GROUP, TOPICS, session_seconds=6), bootstrap)
        async with source.member() as first:
            before = [await source.append(CALLS_LEDGER, b"k", b"v", n % 12) for n in range(36)]
            await first.has(36)
            async with source.member() as second:
                await eventually(lambda: second.batches.assigned())
                await eventually(lambda: len(first.batches.assigned()) + len(second.batches.assigned()) == 25)
                assert not set(first.batches.assigned()) & set(second.batches.assigned())
                theirs = next(iter(second.batches.assigned()))
                await first.batches.commit({theirs: 3})
                assert await committed(bootstrap) == {}
                after = [await source.append(CALLS_LEDGER, b"k", b"v", n % 12) for n in range(36)]
                wanted = {(p.topic, p.partition, p.offset) for p in before + after}
                await eventually(lambda: wanted <= {*first.places(), *second.places()})


async def committed(bootstrap: str) -> Mapping[int, int]:
    return await committed_offsets(bootstrap, GROUP, CALLS_LEDGER)
