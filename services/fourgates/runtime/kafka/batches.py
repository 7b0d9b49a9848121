"""The Batches port on Kafka: many topics in one group, commits only of what the reader names."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import (
    CommitFailedError,
    ConsumerStoppedError,
    IllegalGenerationError,
    IllegalStateError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from fourgates.contract.ports import Offsets, Received
from fourgates.runtime.kafka.client import REQUEST_SECONDS, bounded, meaning, received_of, start_consumer, stop_consumer

_COMMIT_SECONDS = 10.0
_FETCH_BYTES = 16_777_216
_POLL_MS = 500
_NOT_OURS = (CommitFailedError, IllegalGenerationError, IllegalStateError, RebalanceInProgressError, UnknownMemberIdError)

_FETCH_LEAST_BYTES, _FETCH_WAIT_MS = 65_536, 100
"""A fetch over so many partitions costs the broker much: under light load it is answered ten times a second, no more."""


class _Assignment(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Which partitions are ours, and where each began."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self.began: dict[TopicPartition, int] = {}

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        for tp in revoked:
            self.began.pop(tp, None)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        # Asking for the position from here would wait for itself: positions are known only after this callback.
        starts = await bounded(self._consumer.beginning_offsets(list(assigned)))
        for tp, start in starts.items():
            committed = await bounded(self._consumer.committed(tp))
            self.began[tp] = start if committed is None else max(committed, start)


class GroupBatches:
    """One member of a group. Records come at least once; after a rebalance those not committed come again.

    `at_most` bounds the records of one batch. Iterating joins the group where `start` has not done it.
    """

    def __init__(
        self, bootstrap: str, group: str, topics: Iterable[str], *, at_most: int = 5_000, session_seconds: float = 30.0
    ) -> None:
        self._bootstrap, self._group, self._topics = bootstrap, group, tuple(topics)
        self._at_most, self._session_ms = at_most, int(session_seconds * 1000)
        self._consumer: AIOKafkaConsumer | None = None
        self._assignment: _Assignment | None = None
        self._closed = False

    async def start(self) -> None:
        """Joins the group. Raises Transient where no broker answers."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=self._group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            request_timeout_ms=int(REQUEST_SECONDS * 1000) + self._session_ms,
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._session_ms // 10,
            fetch_max_bytes=_FETCH_BYTES,
            fetch_min_bytes=_FETCH_LEAST_BYTES,
            fetch_max_wait_ms=_FETCH_WAIT_MS,
        )
        self._assignment = _Assignment(consumer)
        consumer.subscribe(self._topics, listener=self._assignment)
        await start_consumer(consumer)
        self._consumer = consumer

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        if self._consumer is None and not self._closed:
            await self.start()
        while (consumer := self._consumer) is not None:
            try:
                fetched = await consumer.getmany(timeout_ms=_POLL_MS, max_records=self._at_most)
            except ConsumerStoppedError:
                return
            except (KafkaError, OSError) as error:
                raise meaning(error) from error
            if fetched:
                yield [received_of(record) for records in fetched.values() for record in records]

    async def commit(self, offsets: Offsets) -> None:
        """See the Batches port. Where the group moves on meanwhile nothing is committed: those records come again."""
        if self._consumer is None:
            return
        mine = self._consumer.assignment()
        named = {TopicPartition(topic, number): offset for (topic, number), offset in offsets.items()}
        ours = {tp: offset for tp, offset in named.items() if tp in mine}
        if not ours:
            return
        try:
            await asyncio.wait_for(self._consumer.commit(ours), _COMMIT_SECONDS)
        except _NOT_OURS:
            return
        except (KafkaError, TimeoutError, OSError) as error:
            raise meaning(error) from error

    def assigned(self) -> Offsets:
        """See the Batches port."""
        began = {} if self._assignment is None else self._assignment.began
        return {(tp.topic, tp.partition): offset for tp, offset in began.items()}

    async def close(self) -> None:
        """See the Batches port. What was not committed comes again."""
        self._closed = True
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stop_consumer(consumer)
