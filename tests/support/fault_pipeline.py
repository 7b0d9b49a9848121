"""The pipeline on the in-process bus, made to fail: failpoints that tests hold, second workers, a log that is read late."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fourgates.assembly import StageSettings, build_stage, last_word
from fourgates.catalog import Catalog
from fourgates.contract.ports import Envelope, Following, Log, Position, Publisher, Sink, Wanted
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.failpoints import FailingPublisher, FailingStage, Tripped
from fourgates.runtime.intake import RecordHandler
from fourgates.runtime.memory_worker import MemoryWorker
from fourgates.testing import PRODUCER, Pipeline
from support.toolbox import make_catalog
from support.worlds import FAST, OPTIONS, TENANT, MemoryWorld

BRISK = 4.0
"""Leases pass so many times faster than tools run."""


class BriskClock(SystemClock):
    """Wall time is real, leases and waits pass quickly."""

    def monotonic(self) -> float:
        return super().monotonic() * BRISK

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / BRISK)


@dataclass(slots=True)
class Armed:
    """One point of one call: `came` once somebody is there, who goes on after `go`."""

    word: str = "hold"
    came: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


class HeldPoints:
    """Failpoints of stages in this process. Each counts once, for whoever comes first."""

    def __init__(self) -> None:
        self._armed: dict[tuple[str, str], Armed] = {}
        self._all: list[Armed] = []

    def arm(self, name: str, call_id: str, word: str = "hold") -> Armed:
        armed = self._armed[name, call_id] = Armed(word)
        self._all.append(armed)
        return armed

    def clear(self) -> None:
        """Whoever is held goes on; nothing is armed any more."""
        self._armed.clear()
        for armed in self._all:
            armed.go.set()

    async def hit(self, name: str, call_id: str = "") -> None:
        armed = self._armed.pop((name, call_id), None)
        if armed is None:
            return
        armed.came.set()
        if armed.word == "raise":
            raise Tripped(name)
        await armed.go.wait()


class _Late:
    """A reading whose records come `lag` seconds after they lie in the log."""

    def __init__(self, sink: Sink, lag: float) -> None:
        self._sink, self._lag = sink, lag
        self._due: asyncio.Queue[Envelope] = asyncio.Queue()
        self._put = self._done = 0
        self._moved = asyncio.Condition()
        self._task = asyncio.create_task(self._give())
        self.inner: Following

    def put(self, envelope: Envelope) -> None:
        self._put += 1
        self._due.put_nowait(envelope)

    async def _give(self) -> None:
        while True:
            first = await self._due.get()
            await asyncio.sleep(self._lag)
            batch = [first, *(self._due.get_nowait() for _ in range(self._due.qsize()))]
            for envelope in batch:
                self._sink(envelope)
            async with self._moved:
                self._done += len(batch)
                self._moved.notify_all()

    async def _given(self) -> None:
        until = self._put
        async with self._moved:
            await self._moved.wait_for(lambda: self._done >= until)

    async def reached(self, partition: int, offset: int) -> None:
        await self.inner.reached(partition, offset)
        await self._given()

    async def reached_end(self) -> None:
        await self._given()

    async def close(self) -> None:
        await self.inner.close()
        self._task.cancel()


class LateLog:
    """A log whose followers hear of a record some time after it was acknowledged, as on a broker."""

    def __init__(self, log: Log, lag: float = 0.003) -> None:
        self._log, self._lag = log, lag

    async def follow(
        self,
        topic: str,
        sink: Sink,
        partitions: Iterable[int] | None = None,
        wanted: Wanted | None = None,
        briefly: Callable[[], bool] | None = None,
    ) -> Following:
        late = _Late(sink, self._lag)
        late.inner = await self._log.follow(topic, late.put, partitions, wanted, briefly)
        return late

    async def read_at(self, position: Position) -> Envelope:
        return await self._log.read_at(position)


class FaultyPipeline(Pipeline):
    """The stages with failpoints, over a late log."""

    def __init__(self, catalog: Catalog, settings: StageSettings) -> None:
        self.points = HeldPoints()
        patient = settings.executor.model_copy(update={"audit_lag": 30.0})  # the sink shares this loop with everything else
        settings = settings.model_copy(update={"executor": patient})
        super().__init__(catalog, settings=settings, clock=BriskClock(), tenant=TENANT, options=OPTIONS)
        self.world = dataclasses.replace(self.world, failpoints=self.points, log=LateLog(self.bus))

    def publisher(self, writer: str) -> Publisher:
        return FailingPublisher(super().publisher(writer), self.points, writer)

    async def another(self, name: str, partitions: Iterable[int] | None = None) -> MemoryWorker:
        """A worker of the stage from the committed offsets on, beside whatever else owns the same partitions."""
        stage = FailingStage(build_stage(name, self.world, self._settings, PRODUCER), self.points)
        handler = RecordHandler(
            stage, self.opener, self.publisher(name), self.clock, PRODUCER, last_word(stage, PRODUCER), self.metrics
        )
        worker = MemoryWorker(self.bus, stage, handler, self.clock, partitions=partitions)
        await worker.start()
        return worker

    async def start_stage(self, name: str) -> None:
        self.workers[name] = await self.another(name)


class FaultyMemoryWorld(MemoryWorld):
    """A world of stories in which each of them can be made to fail."""

    def __init__(self, folder: Path, settings: StageSettings = FAST) -> None:
        super().__init__(folder)
        self.pipeline: FaultyPipeline = FaultyPipeline(make_catalog(folder), settings)
        self.keyring, self.client = self.pipeline.keyring, self.pipeline.client

    @property
    def points(self) -> HeldPoints:
        return self.pipeline.points

    async def query(self, sql: str) -> list[dict[str, Any]]:
        raise NotImplementedError("there is no ClickHouse in this process")
