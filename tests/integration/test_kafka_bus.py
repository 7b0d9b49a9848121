"""What only a real broker can do to a bus: go away, come back, and hold more than one fetch."""

from __future__ import annotations

import asyncio

import pytest

from fourgates.contract.errors import Transient
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.topics import create_topics
from support.sealing import opener, writer

pytestmark = pytest.mark.kafka


def entry(number: int) -> LedgerEntry:
    return LedgerEntry(event_id=f"{number:032x}", producer="test", kind=LedgerKind.REPLAYED, call_id=f"{number % 50:064x}")


async def test_a_sink_that_fails_ends_the_reading_and_tells_the_process(fresh_kafka: LocalBroker) -> None:
    async with KafkaBus(fresh_kafka.bootstrap, opener()) as bus:

        def sink(envelope: Envelope) -> None:
            raise ValueError

        following = await bus.follow(CALLS_LEDGER, sink)
        position = await bus.publisher(writer("executor")).publish(entry(0))
        with pytest.raises(FatalError):
            await asyncio.wait_for(following.reached(position.partition, position.offset), 20)
        assert isinstance(await asyncio.wait_for(bus.broken(), 1), FatalError)
        with pytest.raises(FatalError):
            await following.reached_end()


async def test_whoever_waits_for_a_closed_reading_is_told(fresh_kafka: LocalBroker) -> None:
    async with KafkaBus(fresh_kafka.bootstrap, opener()) as bus:
        following = await bus.follow(CALLS_LEDGER, lambda envelope: None)
        waiting = asyncio.create_task(following.reached(0, 99))
        await asyncio.sleep(0)
        await following.close()
        with pytest.raises(Transient):
            await asyncio.wait_for(waiting, 5)


async def test_a_scan_reads_all_to_the_present_end_or_to_the_named_offsets(fresh_kafka: LocalBroker) -> None:
    """L2"""
    async with KafkaBus(fresh_kafka.bootstrap, opener()) as bus:
        publisher = bus.publisher(writer("executor"))
        positions = await asyncio.gather(*[publisher.publish(entry(n)) for n in range(3_000)])
        assert len(await bus.records(CALLS_LEDGER)) == 3_000
        number = positions[0].partition
        found = [received.position.offset async for received in bus.scan(CALLS_LEDGER, {number: 20, (number + 1) % 12: 0})]
        assert found == list(range(20))
        beyond = [received async for received in bus.scan(CALLS_LEDGER, {number: 1_000_000})]
        assert len(beyond) == sum(p.partition == number for p in positions)


async def test_nobody_answers_is_transient() -> None:
    with pytest.raises(Transient):
        await KafkaBus("127.0.0.1:1", opener()).start()


@pytest.mark.timeout(150)
async def test_readings_and_publishing_go_on_after_the_broker_was_killed(fragile: LocalBroker) -> None:
    """E5"""
    await create_topics(fragile.bootstrap)
    seen: list[Envelope] = []
    async with KafkaBus(fragile.bootstrap, opener()) as bus:
        publisher = bus.publisher(writer("executor"))
        following = await bus.follow(CALLS_LEDGER, seen.append)
        await publisher.publish(entry(0))
        await following.reached_end()
        await fragile.kill()
        waiting = asyncio.create_task(publisher.publish(entry(1)))
        await fragile.start()
        position = await waiting
        await asyncio.wait_for(following.reached(position.partition, position.offset), 60)
        assert [e.record.event_id for e in seen] == [entry(0).event_id, entry(1).event_id]
        envelope = await asyncio.wait_for(bus.read_at(position), 60)
        assert envelope.record == seen[1].record


@pytest.mark.timeout(150)
async def test_a_bus_closes_in_bounded_time_while_the_broker_is_frozen(fragile: LocalBroker) -> None:
    await create_topics(fragile.bootstrap)
    bus = KafkaBus(fragile.bootstrap, opener())
    await bus.start()
    await bus.follow(CALLS_LEDGER, lambda envelope: None)
    publishing = asyncio.create_task(bus.publisher(writer("executor")).publish(entry(0)))
    fragile.pause()
    try:
        await asyncio.wait_for(bus.close(), 45)
    finally:
        fragile.resume()
        publishing.cancel()
        await asyncio.wait((publishing,))
