"""What every bus must do, in-process or Kafka: order, following, reading one record, and being deaf to invalid ones."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from fourgates.contract.avro_beginning import LedgerBeginning
from fourgates.contract.errors import Poison, Transient
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_CLEARED, CALLS_LEDGER
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.trace import TRACE
from support.sealing import opener, writer

SOON = 20.0


def entry(number: int, call_id: str = "a" * 64) -> LedgerEntry:
    return LedgerEntry(event_id=f"{number:032x}", producer="test", kind=LedgerKind.REPLAYED, call_id=call_id, code="ok")


class Bus:
    """One bus under test, with the few things whose form differs."""

    def __init__(self, bus: MemoryBus | KafkaBus, append: Callable[..., Awaitable[Position]], metrics: Metrics) -> None:
        self.log: Any = bus
        self.append = append
        self.metrics = metrics
        self.publisher = bus.publisher(writer("executor"))

    async def received(self, topic: str) -> list[Received]:
        if isinstance(self.log, KafkaBus):
            return await self.log.records(topic)
        return list(self.log.records(topic))

    def skipped(self, reason: str) -> float:
        return self.metrics.registry.get_sample_value("fourgates_skipped_total", {"topic": CALLS_LEDGER, "reason": reason}) or 0.0


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def bootstrap(request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("fresh_kafka").bootstrap if request.param == "kafka" else None


@pytest.fixture
async def bus(bootstrap: str | None) -> AsyncIterator[Bus]:
    metrics = Metrics()
    if bootstrap is None:
        memory = MemoryBus(opener(), SystemClock(), metrics)

        async def append(*given: Any, **named: Any) -> Position:
            return memory.append(*given, **named)

        yield Bus(memory, append, metrics)
        return
    async with KafkaBus(bootstrap, opener(), metrics) as kafka:
        yield Bus(kafka, kafka.raw.append, metrics)


async def within(work: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(work, SOON)


async def test_published_records_keep_their_order_on_the_partition_of_their_key(bus: Bus) -> None:
    positions = [await bus.publisher.publish(entry(number)) for number in range(20)]
    number = partition_of(b"a" * 64, CALL_PARTITIONS)
    assert [p.partition for p in positions] == [number] * 20
    assert [p.offset for p in positions] == list(range(20))
    assert {p.topic for p in positions} == {CALLS_LEDGER}


async def test_a_record_can_be_placed_on_a_named_partition(bus: Bus) -> None:
    assert (await bus.publisher.publish(entry(1), partition=7)).partition == 7


async def test_a_follower_sees_what_was_there_and_what_comes_in_order(bus: Bus) -> None:
    seen: list[Envelope] = []
    before = [await bus.publisher.publish(entry(number)) for number in range(5)]
    following = await bus.log.follow(CALLS_LEDGER, seen.append)
    await within(following.reached_end())
    assert [e.record.event_id for e in seen] == [entry(number).event_id for number in range(5)]
    after = [await bus.publisher.publish(entry(number)) for number in range(5, 10)]
    await within(following.reached(after[-1].partition, after[-1].offset))
    assert [e.position for e in seen] == before + after
    assert {e.writer for e in seen} == {"executor"}
    await following.close()


async def test_reached_waits_for_a_record_that_is_not_appended_yet(bus: Bus) -> None:
    seen: list[Envelope] = []
    following = await bus.log.follow(CALLS_LEDGER, seen.append)
    number = partition_of(b"a" * 64, CALL_PARTITIONS)
    waiting = asyncio.create_task(following.reached(number, 1))
    await bus.publisher.publish(entry(0))
    await within(following.reached(number, 0))
    assert not waiting.done()
    await bus.publisher.publish(entry(1))
    await within(waiting)
    assert len(seen) == 2
    await following.close()


async def test_reached_end_of_an_empty_topic_returns(bus: Bus) -> None:
    following = await bus.log.follow(CALLS_CLEARED, lambda envelope: None)
    await within(following.reached_end())
    await following.close()


async def test_a_partition_that_is_not_followed_cannot_be_waited_for(bus: Bus) -> None:
    following = await bus.log.follow(CALLS_LEDGER, lambda envelope: None, [1, 2])
    with pytest.raises(ValueError):
        await following.reached(3, 0)
    await following.close()


async def test_a_follower_of_some_partitions_sees_no_others(bus: Bus) -> None:
    keys = [f"{n:064x}" for n in range(40)]
    wanted = [key for key in keys if partition_of(key.encode(), CALL_PARTITIONS) in (2, 5)]
    seen: list[str] = []
    following = await bus.log.follow(CALLS_LEDGER, lambda e: seen.append(e.record.call_id), [2, 5])
    for number, key in enumerate(keys):
        await bus.publisher.publish(entry(number, key))
    await within(following.reached_end())
    assert sorted(seen) == sorted(wanted)
    await following.close()


async def test_a_follower_is_spared_what_it_does_not_want_and_misses_nothing_else(bus: Bus) -> None:
    seen: list[Envelope] = []
    following = await bus.log.follow(CALLS_LEDGER, seen.append, wanted=lambda kind, call_id: kind != LedgerKind.REPLAYED)
    await bus.publisher.publish(entry(0))
    kept = dataclasses.replace(entry(1), kind=LedgerKind.FINISHED)
    await bus.publisher.publish(kept)
    await bus.append(CALLS_LEDGER, b"a" * 64, b"no record at all")
    last = await bus.publisher.publish(entry(2))
    await within(following.reached(last.partition, last.offset))
    assert [e.record.event_id for e in seen] == [kept.event_id]
    assert bus.skipped("malformed_avro") == 1
    await following.close()


async def test_a_follower_that_reads_briefly_gets_what_a_fold_needs_until_it_wants_all(bus: Bus) -> None:
    """E1: no more than the fold looks at; a forged record reaches it as little as anybody."""
    seen: list[Envelope] = []
    brief = True
    following = await bus.log.follow(CALLS_LEDGER, seen.append, briefly=lambda: brief)
    whole = dataclasses.replace(entry(0), kind=LedgerKind.FINISHED, claim_id="x", outcome="committed", reason="r", duration_ms=7)
    first = await bus.publisher.publish(whole)
    await bus.append(CALLS_LEDGER, b"a" * 64, b"no record at all")
    await within(following.reached(first.partition, first.offset))
    brief = False
    last = await bus.publisher.publish(dataclasses.replace(whole, event_id="later"))
    await within(following.reached(last.partition, last.offset))
    short, full = (e.record for e in seen)
    assert (short.kind, short.call_id, short.claim_id, short.outcome) == (whole.kind, whole.call_id, "x", "committed")
    assert isinstance(short, LedgerBeginning)
    assert (full.reason, full.duration_ms) == ("r", 7)
    assert {e.writer for e in seen} == {"executor"}
    assert bus.skipped("malformed_avro") == 1
    await following.close()


async def test_following_from_the_end_sees_only_what_comes(bus: Bus) -> None:
    seen: list[Envelope] = []
    await bus.publisher.publish(entry(0))
    following = await bus.log.follow_from_end(CALLS_LEDGER, seen.append)
    position = await bus.publisher.publish(entry(1))
    await within(following.reached(position.partition, position.offset))
    assert [e.record.event_id for e in seen] == [entry(1).event_id]
    await following.close()


async def test_invalid_records_reach_no_follower_and_are_counted(bus: Bus) -> None:
    """P6"""
    seen: list[Envelope] = []
    number = partition_of(b"a" * 64, CALL_PARTITIONS)
    _, key, good = writer("executor").encode(entry(1))
    _, _, foreign = writer("sanitizer").encode(entry(2))
    await bus.append(CALLS_LEDGER, key, None)
    await bus.append(CALLS_LEDGER, key, b"no avro")
    await bus.append(CALLS_LEDGER, key, good[:-1] + bytes([good[-1] ^ 1]))
    await bus.append(CALLS_LEDGER, key, foreign)
    await bus.append(CALLS_LEDGER, key, good, (number + 1) % CALL_PARTITIONS)
    last = await bus.append(CALLS_LEDGER, key, good)
    following = await bus.log.follow(CALLS_LEDGER, seen.append)
    await within(following.reached_end())
    assert [e.position for e in seen] == [last]
    for reason in ("null_value", "malformed_avro", "bad_seal", "wrong_writer", "wrong_partition"):
        assert bus.skipped(reason) == 1, reason
    await following.close()


async def test_one_record_is_read_where_it_lies(bus: Bus) -> None:
    positions = [await bus.publisher.publish(entry(number)) for number in range(3)]
    for number in (1, 0, 2):
        envelope = await within(bus.log.read_at(positions[number]))
        assert envelope.record.event_id == entry(number).event_id
        assert envelope.position == positions[number]


async def test_reading_an_invalid_record_is_poison(bus: Bus) -> None:
    position = await bus.append(CALLS_LEDGER, b"a" * 64, b"no avro")
    with pytest.raises(Poison):
        await within(bus.log.read_at(position))


async def test_reading_where_nothing_lies_is_transient(bus: Bus) -> None:
    position = await bus.publisher.publish(entry(0))
    with pytest.raises(Transient):
        await within(bus.log.read_at(dataclasses.replace(position, offset=50)))


async def test_time_is_the_brokers(bus: Bus) -> None:
    before = SystemClock().now_ms()
    position = await bus.publisher.publish(entry(0))
    envelope = await within(bus.log.read_at(position))
    assert before - 2 <= envelope.time_ms <= SystemClock().now_ms() + 2


async def test_headers_carry_the_code_and_the_trace_under_way(bus: Bus) -> None:
    parent = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    TRACE.set((("traceparent", parent),))
    await bus.publisher.publish(entry(0))
    (received,) = await bus.received(CALLS_LEDGER)
    assert dict(received.headers) == {"traceparent": parent, "code": b"ok"}
