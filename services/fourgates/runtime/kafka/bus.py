"""The Log port on Kafka: following topics without a group, reading one record, scanning to the end; and one producer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType

from aiokafka import AIOKafkaConsumer, TopicPartition

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Envelope, Position, Received, Sink, Taking, Wanted
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.kafka.client import bounded, plain_consumer, received_of, start_consumer, stop_consumer
from fourgates.runtime.kafka.following import KafkaFollowing
from fourgates.runtime.kafka.producing import KafkaPublisher, RawProducer
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.taking import Opening

_FOLLOW_BYTES, _SCAN_BYTES, _ONE_BYTES = 4_194_304, 4_194_304, 65_536
_READ_MS = 5_000


class KafkaBus:
    """One process's view of the broker. Use it as a context manager, or `start` and `close` it, in one event loop."""

    def __init__(self, bootstrap: str, opener: RecordOpener, metrics: Metrics | None = None) -> None:
        self.bootstrap = bootstrap
        self.metrics = metrics or Metrics()
        self.raw = RawProducer(bootstrap, self.metrics)
        """Appends bytes as any Kafka client could."""
        self._opener, self._opening = opener, Opening(opener, self.metrics)
        self._followings: set[KafkaFollowing] = set()
        self._reader: AIOKafkaConsumer | None = None
        self._reading = asyncio.Lock()
        self._fault: Exception | None = None
        self._broken = asyncio.Event()

    async def __aenter__(self) -> KafkaBus:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects. Raises Transient where no broker answers."""
        await self.raw.start()

    async def close(self) -> None:
        """Ends every reading and the producer."""
        for following in tuple(self._followings):
            await following.close()
        self._followings.clear()
        reader, self._reader = self._reader, None
        if reader is not None:
            await stop_consumer(reader)
        await self.raw.close()

    async def broken(self) -> Exception:
        """Returns once a reading has ended by a fault: this process decides on a stale state and must end."""
        await self._broken.wait()
        assert self._fault is not None
        return self._fault

    def publisher(self, writer: RecordWriter) -> KafkaPublisher:
        """A publisher of one writer's records."""
        return KafkaPublisher(self.raw, writer)

    async def follow(
        self,
        topic: str,
        sink: Sink,
        partitions: Iterable[int] | None = None,
        wanted: Wanted | None = None,
        briefly: Callable[[], bool] | None = None,
    ) -> KafkaFollowing:
        """See the Log port."""
        return await self._follow(topic, sink, partitions, Taking(wanted, briefly), from_end=False)

    async def follow_from_end(self, topic: str, sink: Sink, partitions: Iterable[int] | None = None) -> KafkaFollowing:
        """Every valid record that is appended after this returned."""
        return await self._follow(topic, sink, partitions, Taking(), from_end=True)

    async def read_at(self, position: Position) -> Envelope:
        """See the Log port."""
        return self._opener.open(await self.received_at(position))

    async def received_at(self, position: Position) -> Received:
        """The one record at `position`, valid or not. Raises Transient where it cannot be read."""
        received = await self._first_from(position)
        if received is None or received.position != position:
            raise Transient(f"nothing lies at {position}")
        return received

    async def first_from(self, position: Position) -> int:
        """The offset of the first record at or after `position`. Raises Transient where there is none yet."""
        received = await self._first_from(position)
        if received is None:
            raise Transient(f"nothing lies at or after {position}")
        return received.position.offset

    async def scan(self, topic: str, until: Mapping[int, int] | None = None) -> AsyncIterator[Received]:
        """Every record, valid or not, from the beginning up to and without the offsets `until` (None: the present end)."""
        consumer = plain_consumer(self.bootstrap, fetch_bytes=_SCAN_BYTES)
        await start_consumer(consumer)
        try:
            numbers = range(BY_NAME[topic].partitions) if until is None else until
            tps = [TopicPartition(topic, number) for number in numbers]
            starts, ends = await bounded(consumer.beginning_offsets(tps)), await bounded(consumer.end_offsets(tps))
            if until is not None:
                ends = {tp: min(end, until[tp.partition]) for tp, end in ends.items()}
            left = {tp: end for tp, end in ends.items() if starts[tp] < end}
            consumer.assign(list(left))
            for tp in left:
                consumer.seek(tp, starts[tp])
            while left:
                fetched = await bounded(consumer.getmany(*left, timeout_ms=1_000, max_records=1_000))
                for tp, records in fetched.items():
                    for record in records:
                        if record.offset < left[tp]:
                            yield received_of(record)
                for tp in tuple(left):
                    if await consumer.position(tp) >= left[tp]:
                        consumer.pause(tp)
                        del left[tp]
        finally:
            await stop_consumer(consumer)

    async def ends(self, topic: str) -> dict[int, int]:
        """For each partition the offset of the record to come."""
        tps = [TopicPartition(topic, number) for number in range(BY_NAME[topic].partitions)]
        async with self._reading:
            ends = await bounded((await self._connected()).end_offsets(tps))
        return {tp.partition: end for tp, end in ends.items()}

    async def records(self, topic: str) -> list[Received]:
        """Everything on a topic, partition by partition. For tests and small topics."""
        found = [received async for received in self.scan(topic)]
        return sorted(found, key=lambda received: (received.position.partition, received.position.offset))

    async def opened(self, topic: str) -> list[Envelope]:
        """Every valid record of a topic, oldest first. For tests and small topics."""
        found = [envelope for received in await self.records(topic) if (envelope := self._opening.open(received)) is not None]
        return sorted(found, key=lambda envelope: (envelope.time_ms, envelope.position.offset))

    async def _first_from(self, position: Position) -> Received | None:
        tp = TopicPartition(position.topic, position.partition)
        async with self._reading:
            reader = await self._connected()
            reader.assign([tp])
            reader.seek(tp, position.offset)
            fetched = await bounded(reader.getmany(tp, timeout_ms=_READ_MS, max_records=1))
        return next((received_of(record) for record in fetched.get(tp, ())), None)

    async def _connected(self) -> AIOKafkaConsumer:
        """The consumer for single requests; whoever uses it holds `_reading`."""
        if self._reader is None:
            reader = plain_consumer(self.bootstrap, fetch_bytes=_ONE_BYTES)
            await start_consumer(reader)
            self._reader = reader
        return self._reader

    async def _follow(
        self, topic: str, sink: Sink, partitions: Iterable[int] | None, taking: Taking, *, from_end: bool
    ) -> KafkaFollowing:
        numbers = range(BY_NAME[topic].partitions) if partitions is None else partitions
        tps = [TopicPartition(topic, number) for number in numbers]
        consumer = plain_consumer(self.bootstrap, fetch_bytes=_FOLLOW_BYTES)
        await start_consumer(consumer)
        try:
            consumer.assign(tps)
            start = await bounded(consumer.end_offsets(tps) if from_end else consumer.beginning_offsets(tps))
            for tp, offset in start.items():
                consumer.seek(tp, offset)
        except BaseException:
            await stop_consumer(consumer)
            raise
        following = KafkaFollowing(consumer, start, self._opening.into(sink, taking), self._break)
        self._followings.add(following)
        return following

    def _break(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self._broken.set()
