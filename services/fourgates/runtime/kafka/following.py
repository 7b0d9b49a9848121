"""A reading of whole partitions that goes on, and says when it has reached an offset."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Received
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka.client import bounded, meaning, received_of, stop_consumer

_POLL_MS = 1_000
_AT_ONCE = 500
_AGAIN_SECONDS = 0.5


class KafkaFollowing:
    """Gives every record of its partitions to `accept`, in order, in one task. It says how many of those it was given it took.

    Where `accept` raises, or the broker refuses for good, the reading ends, whoever waits gets FatalError, and `broken` is
    told: a state that missed a record must not decide about anything.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        start: Mapping[TopicPartition, int],
        accept: Callable[[Sequence[Received]], int],
        broken: Callable[[Exception], None],
    ) -> None:
        self._consumer, self._accept, self._broken = consumer, accept, broken
        self._tps = {tp.partition: tp for tp in start}
        self._next = {tp.partition: offset for tp, offset in start.items()}
        self._waiting: dict[int, list[tuple[int, int, asyncio.Future[None]]]] = {}
        self._count = 0
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._read())

    async def reached(self, partition: int, offset: int) -> None:
        if partition not in self._tps:
            raise ValueError(f"partition {partition} is not followed here")
        await self._until(partition, offset + 1)

    async def reached_end(self) -> None:
        ends = await bounded(self._consumer.end_offsets(list(self._tps.values())))
        for tp, end in ends.items():
            await self._until(tp.partition, end)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait((self._task,))
        self._fail(Transient("the reading was closed"))
        await stop_consumer(self._consumer)

    async def _until(self, partition: int, following: int) -> None:
        """Waits until the next offset to come is `following` or later."""
        if self._failure is not None:
            raise self._failure
        if self._next[partition] >= following:
            return
        self._count += 1
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting.setdefault(partition, []), (following, self._count, arrived))
        await arrived

    async def _read(self) -> None:
        try:
            while True:
                fetched = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=_AT_ONCE)
                for tp, records in fetched.items():
                    await self._take([received_of(record) for record in records])
                    self._came_to(tp.partition, records[-1].offset + 1)
                for partition in list(self._waiting):  # compaction may have removed the very offset that is waited for
                    self._came_to(partition, await self._consumer.position(self._tps[partition]))
                await asyncio.sleep(0)  # a long backlog must not keep everything else from running
        except (KafkaError, ConsumerStoppedError) as error:
            fault = meaning(error)
            self._end(FatalError(str(fault)) if isinstance(fault, Transient) else fault)
        except Exception as error:
            self._end(error if isinstance(error, FatalError) else FatalError(f"a record was not taken: {type(error).__name__}"))

    async def _take(self, records: list[Received]) -> None:
        while records:
            try:
                records = records[self._accept(records) :]
            except Transient:  # the schema registry is away: the order matters more than the time
                await asyncio.sleep(_AGAIN_SECONDS)

    def _came_to(self, partition: int, following: int) -> None:
        self._next[partition] = max(following, self._next[partition])
        waiting = self._waiting.get(partition)
        while waiting and waiting[0][0] <= self._next[partition]:
            arrived = heapq.heappop(waiting)[2]
            if not arrived.done():
                arrived.set_result(None)
        if waiting is not None and not waiting:
            del self._waiting[partition]

    def _end(self, fault: Exception) -> None:
        self._fail(fault)
        self._broken(fault)

    def _fail(self, fault: Exception) -> None:
        self._failure = self._failure or fault
        for waiting in self._waiting.values():
            for _, _, arrived in waiting:
                if not arrived.done():
                    arrived.set_exception(self._failure)
        self._waiting.clear()
