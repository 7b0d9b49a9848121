"""Appending to topics: raw bytes, and one writer's sealed records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from fourgates.contract.events import Record
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Position
from fourgates.contract.seals import RecordWriter
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka.client import CLOSE_SECONDS, REQUEST_SECONDS, bounded, meaning
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.trace import headers_of

_BATCH_BYTES = 65_536


class RawProducer:
    """Appends bytes and waits for the acknowledgement of all in-sync replicas.

    It may append a record twice when an acknowledgement was lost; ours carry an event_id by which every fold knows the
    repetition. Within a partition it never changes the order.
    """

    def __init__(self, bootstrap: str, metrics: Metrics | None = None) -> None:
        self._bootstrap = bootstrap
        self._producer: AIOKafkaProducer | None = None
        published = (metrics or Metrics()).published
        self._published = {topic: published.labels(topic) for topic in BY_NAME}

    async def __aenter__(self) -> RawProducer:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def start(self) -> None:
        """Connects. Raises Transient where no broker answers."""
        if self._producer is not None:
            return
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all",
            linger_ms=0,
            request_timeout_ms=int(REQUEST_SECONDS * 1000),
            max_batch_size=_BATCH_BYTES,
        )
        try:
            await bounded(producer.start())
        except BaseException:
            await _stop(producer)
            raise
        self._producer = producer

    async def warm_up(self, topics: Iterable[str]) -> None:
        """Learns where the topics lie and connects there, so that the first record is as fast as the second."""
        producer = self._running()
        for topic in topics:
            await bounded(producer.partitions_for(topic))
        for node in producer.client.cluster.brokers():
            await bounded(producer.client.ready(node.nodeId))

    async def close(self) -> None:
        """Sends what is buffered, in bounded time, and closes."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await _stop(producer)

    async def append(
        self,
        topic: str,
        key: bytes,
        value: bytes | None,
        partition: int | None = None,
        headers: Iterable[tuple[str, bytes]] = (),
    ) -> Position:
        """Returns where the record lies once it is acknowledged. Raises Transient, ValueError (too large), FatalError."""
        producer = self._running()
        if partition is None and topic in BY_NAME:
            partition = partition_of(key, BY_NAME[topic].partitions)
        try:
            future = await producer.send(topic, value, key=key, partition=partition, headers=list(headers))
            done = await future
        except (KafkaError, TimeoutError, OSError) as error:
            raise meaning(error) from error
        if (counter := self._published.get(topic)) is not None:
            counter.inc()
        return Position(topic, done.partition, done.offset)

    def _running(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise FatalError("the producer is not running")
        return self._producer


async def _stop(producer: AIOKafkaProducer) -> None:
    try:
        await asyncio.wait_for(producer.stop(), CLOSE_SECONDS)
    except (KafkaError, TimeoutError, OSError):
        return  # whoever waited for an unsent record was told so by its own error


class KafkaPublisher:
    """Seals, encodes and appends one writer's records."""

    def __init__(self, producer: RawProducer, writer: RecordWriter) -> None:
        self._producer, self._writer = producer, writer

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        """See the Publisher port."""
        topic, key, value = self._writer.encode(record)
        return await self._producer.append(topic, key, value, partition, headers_of(record))
