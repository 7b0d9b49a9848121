"""The in-process bus: partitions, offsets, groups with committed offsets, broker time. It passes the suite of the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fourgates.contract.errors import Transient
from fourgates.contract.events import Record
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Clock, Envelope, Position, Received, Sink, Taking, Wanted
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import BY_NAME, TOPOLOGY
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.taking import Opening
from fourgates.runtime.trace import headers_of


@dataclass(slots=True)
class _Watcher:
    """Somebody who is told of every record of some partitions, in order."""

    partitions: frozenset[int]
    tell: Callable[[Received], object]


class MemoryBus:
    """All topics of the topology in this process. Appending is the acknowledgement; followers are told before it returns."""

    def __init__(self, opener: RecordOpener, clock: Clock, metrics: Metrics | None = None) -> None:
        self._opener, self._clock = opener, clock
        self._opening = Opening(opener, metrics or Metrics())
        self._logs: dict[str, list[list[Received]]] = {t.name: [[] for _ in range(t.partitions)] for t in TOPOLOGY}
        self._watchers: dict[str, list[_Watcher]] = {t.name: [] for t in TOPOLOGY}
        self._committed: dict[tuple[str, str, int], int] = {}
        self._away = False

    def append(
        self,
        topic: str,
        key: bytes,
        value: bytes | None,
        partition: int | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Position:
        """Puts raw bytes on a topic, as any Kafka client could. Raises Transient while the bus is `away`."""
        if self._away:
            raise Transient("the bus is away")
        number = partition_of(key, BY_NAME[topic].partitions) if partition is None else partition
        log = self._logs[topic][number]
        received = Received(Position(topic, number, len(log)), self._clock.now_ms(), key, value, headers)
        log.append(received)
        for watcher in tuple(self._watchers[topic]):
            if number in watcher.partitions:
                watcher.tell(received)
        return received.position

    def set_away(self, away: bool) -> None:
        """While away every append raises Transient, as a broker that cannot be reached."""
        self._away = away

    def publisher(self, writer: RecordWriter) -> MemoryPublisher:
        """A publisher of one writer's records."""
        return MemoryPublisher(self, writer)

    def records(self, topic: str) -> list[Received]:
        """Everything on a topic, partition by partition."""
        return [received for log in self._logs[topic] for received in log]

    def opened(self, topic: str) -> list[Envelope]:
        """Every valid record of a topic, oldest first."""
        envelopes = [e for received in self.records(topic) if (e := self._opening.open(received)) is not None]
        return sorted(envelopes, key=lambda e: (e.time_ms, e.position.offset))

    def log(self, topic: str, partition: int) -> list[Received]:
        """One partition, live."""
        return self._logs[topic][partition]

    def committed(self, group: str, topic: str, partition: int) -> int:
        """The group's committed offset; 0 where it has none."""
        return self._committed.get((group, topic, partition), 0)

    def commit(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._committed[group, topic, partition] = offset

    def watch(self, topic: str, partitions: Iterable[int], tell: Callable[[Received], object]) -> Callable[[], None]:
        """Calls `tell` for every later record; returns what ends it."""
        watcher = _Watcher(frozenset(partitions), tell)
        self._watchers[topic].append(watcher)
        return lambda: self._watchers[topic].remove(watcher) if watcher in self._watchers[topic] else None

    async def follow(
        self,
        topic: str,
        sink: Sink,
        partitions: Iterable[int] | None = None,
        wanted: Wanted | None = None,
        briefly: Callable[[], bool] | None = None,
    ) -> MemoryFollowing:
        """Every valid record through `sink`, from the beginning, and then as they come."""
        return self._follow(topic, sink, partitions, Taking(wanted, briefly), from_end=False)

    async def follow_from_end(self, topic: str, sink: Sink, partitions: Iterable[int] | None = None) -> MemoryFollowing:
        """Every valid record that comes from now on through `sink`."""
        return self._follow(topic, sink, partitions, Taking(), from_end=True)

    async def read_at(self, position: Position) -> Envelope:
        log = self._logs[position.topic][position.partition]
        if not 0 <= position.offset < len(log):
            raise Transient(f"nothing lies at {position}")
        return self._opener.open(log[position.offset])

    def _follow(
        self, topic: str, sink: Sink, partitions: Iterable[int] | None, taking: Taking, *, from_end: bool
    ) -> MemoryFollowing:
        numbers = range(BY_NAME[topic].partitions) if partitions is None else tuple(partitions)
        following, take = MemoryFollowing(self, topic, numbers), self._opening.into(sink, taking)
        for number in () if from_end else numbers:
            for received in tuple(self._logs[topic][number]):
                take((received,))
        following.end = self.watch(topic, numbers, lambda received: take((received,)))
        return following


class MemoryFollowing:
    """A reading that is always at the end, because followers are told while a record is appended."""

    def __init__(self, bus: MemoryBus, topic: str, partitions: Iterable[int]) -> None:
        self._bus, self._topic, self._partitions = bus, topic, frozenset(partitions)
        self.end: Callable[[], None] = lambda: None

    async def reached(self, partition: int, offset: int) -> None:
        """Waits for a record that is not appended yet, as the real one does."""
        if partition not in self._partitions:
            raise ValueError(f"partition {partition} of {self._topic} is not followed here")
        if offset < len(self._bus.log(self._topic, partition)):
            return
        arrived = asyncio.Event()
        stop = self._bus.watch(
            self._topic, (partition,), lambda received: arrived.set() if received.position.offset >= offset else None
        )
        try:
            await arrived.wait()
        finally:
            stop()

    async def reached_end(self) -> None:
        """Nothing to wait for."""

    async def close(self) -> None:
        self.end()


class MemoryPublisher:
    """Seals, encodes and appends one writer's records."""

    def __init__(self, bus: MemoryBus, writer: RecordWriter) -> None:
        self._bus, self._writer = bus, writer

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        topic, key, value = self._writer.encode(record)
        position = self._bus.append(topic, key, value, partition, headers_of(record))
        await asyncio.sleep(0)  # as on a broker, others may run before the acknowledgement is seen
        return position
