"""Runs one stage as a process of its consumer group. Faust carries signals, membership and rebalances; offsets are ours."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
import uvloop

from fourgates.contract.ports import Failpoints, Publisher, Stage
from fourgates.contract.seals import RecordOpener
from fourgates.contract.topology import TOPOLOGY
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.failpoints import FailingGroup
from fourgates.runtime.faust_app import FaustGroup, StageApp, StageWorker
from fourgates.runtime.health import Health, HealthServer
from fourgates.runtime.intake import OnUnforeseen, RecordHandler
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.membership import Group, Membership, patiently
from fourgates.runtime.topics import await_broker, check_topics
from fourgates.runtime.watchdog import watch
from fourgates.runtime.worker_settings import WorkerSettings

_END_SECONDS = 15.0
_log = structlog.get_logger("fourgates.worker")


@dataclass(frozen=True, slots=True)
class Work:
    """What a worker runs, and with what."""

    stage: Stage
    bus: KafkaBus
    publisher: Publisher
    """Seals with the stage's own key; on `bus`."""
    opener: RecordOpener
    producer: str
    """Names this process in its records."""
    on_unforeseen: OnUnforeseen
    settings: WorkerSettings = field(default_factory=WorkerSettings)
    failpoints: Failpoints | None = None


def run_worker(work: Work) -> int:
    """Runs until a signal ends it (0) or it cannot go on (1).

    Raises ConfigurationError where it may not start, and whatever but Transient the stage's `start` raises.
    """
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return _Process(work, loop).run()


class _Process:
    """One run of a stage. Everything that may end it comes to `fail`."""

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        self._work, self._stage, self._settings, self._loop = work, work.stage, work.settings, loop
        self._metrics, self._health = work.bus.metrics, Health()
        self._served = HealthServer(self._health, self._metrics, work.settings.health_host, work.settings.health_port)
        handler = RecordHandler(
            work.stage, work.opener, work.publisher, SystemClock(), work.producer, work.on_unforeseen, self._metrics
        )
        self._app = StageApp(work.settings.group or work.stage.name, work.bus.bootstrap, work.settings, loop)
        group: Group = FaustGroup(self._app, work.stage.reads)
        if work.failpoints is not None:
            group = FailingGroup(group, work.failpoints, work.stage.name)
        self._membership = Membership(work.stage, handler, work.bus, group, work.settings, self._health)
        self._membership.failed = self.fail
        self._faults: list[BaseException] = []
        self._loops: list[asyncio.Task[None]] = []
        self._timers: list[threading.Timer] = []
        self._worker: StageWorker | None = None

    def run(self) -> int:
        try:
            if not self._interruptible(self._prepare()):
                return 0
            if self._faults:
                self._loop.run_until_complete(self._close())
            else:
                self._serve()
            return 1 if self._faults else 0
        finally:
            for timer in self._timers:
                timer.cancel()

    def _serve(self) -> None:
        self._app.connect(self._stage.reads, self._membership, self._end)
        self._worker = StageWorker(self._app, self._loop)
        with contextlib.suppress(SystemExit):
            self._worker.execute_from_commandline()
        if self._worker.crash_reason is not None:
            self.fail(self._worker.crash_reason)

    def fail(self, fault: BaseException) -> None:
        """Ends the process with exit code 1: no drain, no new work; what is finished is still committed."""
        self._faults.append(fault)
        if len(self._faults) > 1:
            return
        _log.error("the worker ends", stage=self._stage.name, fault=type(fault).__name__, why=str(fault))
        self._health.ill = str(fault) or type(fault).__name__
        self._membership.hurry()
        self._end_for_certain(_END_SECONDS)
        if self._worker is not None:
            self._worker.end()

    def _end_for_certain(self, seconds: float) -> None:
        """Whatever hangs while we end (a thread, a library, the broker): the supervisor must get its turn."""
        timer = threading.Timer(seconds, os._exit, (1,))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _interruptible(self, work: Awaitable[None]) -> bool:
        """Runs the start; False where a signal ended it before Faust has the signals."""

        async def awaited() -> None:
            await work

        task = self._loop.create_task(awaited())
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, task.cancel)
        try:
            self._loop.run_until_complete(task)
        except asyncio.CancelledError:
            self._loop.run_until_complete(self._close())
            return False
        except BaseException:
            self._loop.run_until_complete(self._close())
            raise
        return True

    async def _prepare(self) -> None:
        bus = self._work.bus
        await self._served.start()
        _log.info("health", stage=self._stage.name, url=self._served.url)
        await await_broker(bus.bootstrap, progress=lambda line: _log.info(line, stage=self._stage.name))
        await check_topics(bus.bootstrap)
        await bus.start()
        await bus.raw.warm_up(topic.name for topic in TOPOLOGY)
        await patiently(self._stage.name, self._stage.start)
        self._loops = [
            asyncio.create_task(self._every(self._settings.commit, self._membership.commit)),
            asyncio.create_task(self._every(self._settings.tick, self._membership.assignment.tick)),
            asyncio.create_task(self._bus_broken()),
            asyncio.create_task(self._stalled()),
        ]

    async def _close(self) -> None:
        self._metrics.ready.labels(self._stage.name).set(0)
        for task in self._loops:
            task.cancel()
        await self._stage.close()
        await self._work.bus.close()
        await self._served.close()

    async def _end(self) -> None:
        """Consumer and group are still alive here."""
        self._end_for_certain(self._settings.drain + _END_SECONDS)
        try:
            await self._membership.ending()
        finally:
            await self._close()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._metrics.under_way.labels(self._stage.name).set(self._membership.assignment.under_way)
            try:
                await work()
            except Exception as fault:
                self.fail(fault)

    async def _bus_broken(self) -> None:
        self.fail(await self._work.bus.broken())

    async def _stalled(self) -> None:
        watched = self._membership.assignment
        self.fail(await watch(self._work.bus, self._stage.reads, watched, self._metrics, self._settings.stall))
