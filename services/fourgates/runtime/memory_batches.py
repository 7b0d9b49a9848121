"""Reading many topics of the in-process bus in one group, in batches: the audit sink's way in, where there is no Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from fourgates.contract.ports import Offsets, Received
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.memory import MemoryBus


class MemoryBatches:
    """The only member of its group; begins at the group's committed offsets."""

    def __init__(self, bus: MemoryBus, group: str, topics: Sequence[str], most: int = 5_000) -> None:
        self._bus, self._group, self._most = bus, group, most
        places = [(topic, number) for topic in topics for number in range(BY_NAME[topic].partitions)]
        self._begun = {(topic, number): bus.committed(group, topic, number) for topic, number in places}
        self._next = dict(self._begun)
        self._arrived = asyncio.Event()
        self._closed = False
        self._stops = [
            bus.watch(topic, range(BY_NAME[topic].partitions), lambda received: self._arrived.set()) for topic in topics
        ]

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        while not self._closed:
            self._arrived.clear()
            if found := self._take():
                yield found
            else:
                await self._arrived.wait()

    def _take(self) -> list[Received]:
        found: list[Received] = []
        for (topic, number), start in self._next.items():
            new = self._bus.log(topic, number)[start : start + self._most - len(found)]
            self._next[topic, number] = start + len(new)
            found += new
            if len(found) >= self._most:
                break
        return found

    async def commit(self, offsets: Offsets) -> None:
        for (topic, number), offset in offsets.items():
            self._bus.commit(self._group, topic, number, offset)

    def assigned(self) -> Offsets:
        return dict(self._begun)

    async def close(self) -> None:
        self._closed = True
        self._arrived.set()
        for stop in self._stops:
            stop()
