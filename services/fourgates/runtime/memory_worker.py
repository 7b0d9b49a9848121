"""Runs one stage on the in-process bus: the same handling as on Kafka, commits of the lowest unfinished offset, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from fourgates.contract.ports import Clock, Received, Stage
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.intake import Offsets, RecordHandler
from fourgates.runtime.memory import MemoryBus


class MemoryWorker:
    """One process of a stage's group, owning the given partitions (default: all) until it is stopped or crashes."""

    def __init__(
        self,
        bus: MemoryBus,
        stage: Stage,
        handler: RecordHandler,
        clock: Clock,
        *,
        partitions: Iterable[int] | None = None,
        tick_s: float = 0.05,
    ) -> None:
        self._bus, self._stage, self._handler, self._clock, self._tick_s = bus, stage, handler, clock, tick_s
        every = range(BY_NAME[stage.reads].partitions)
        self._partitions = tuple(every if partitions is None else partitions)
        self._offsets: dict[int, Offsets] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._end_watch: Callable[[], None] = lambda: None
        self.failed: BaseException | None = None

    async def start(self) -> None:
        """Loads the stage's state and begins at the group's committed offsets."""
        await self._stage.start()
        await self._stage.assigned(self._partitions)
        todo: list[Received] = []
        for number in self._partitions:
            committed = self._bus.committed(self._stage.name, self._stage.reads, number)
            log = self._bus.log(self._stage.reads, number)
            if self._stage.restores:
                for received in tuple(log[:committed]):
                    await self._handler.restore(received)
            self._offsets[number] = Offsets()
            todo += log[committed:]
        self._end_watch = self._bus.watch(self._stage.reads, self._partitions, self._begin)
        for received in todo:
            self._begin(received)
        self._ticker = asyncio.create_task(self._tick())

    def _begin(self, received: Received) -> None:
        if self._offsets[received.position.partition].begin(received.position.offset):
            self._idle.clear()
            task = asyncio.create_task(self._process(received))
            self._tasks.add(task)

    async def _process(self, received: Received) -> None:
        number, offset = received.position.partition, received.position.offset
        try:
            await self._handler.process(received)
        except asyncio.CancelledError:
            raise
        except BaseException as fault:
            self.failed = fault
            self._end_watch()
            return
        finally:
            task = asyncio.current_task()
            if task is not None:
                self._tasks.discard(task)
            if not self._tasks:
                self._idle.set()
        offsets = self._offsets[number]
        offsets.finish(offset)
        if (committable := offsets.committable) is not None:
            self._bus.commit(self._stage.name, self._stage.reads, number, committable)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(self._tick_s)
            try:
                await self._handler.tick()
            except Exception as fault:
                self.failed = fault
                return

    async def drained(self) -> None:
        """Returns once nothing is under way."""
        if self._tasks:
            await self._idle.wait()

    async def stop(self) -> None:
        """A clean end: takes nothing new, finishes what is under way, commits it."""
        self._end_watch()
        if self._ticker is not None:
            self._ticker.cancel()
        await self.drained()
        await self._stage.revoked()
        await self._stage.close()

    async def crash(self) -> None:
        """As kill -9: whatever is under way is gone, nothing more is committed or published."""
        self._end_watch()
        tasks = [*self._tasks, *([self._ticker] if self._ticker else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stage.revoked()
        await self._stage.close()
