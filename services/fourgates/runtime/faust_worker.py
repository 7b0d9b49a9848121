"""Runs one stage as a member of its consumer group. Faust carries signals, membership and rebalances; offsets are ours."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, cast

import faust
import structlog
import uvloop
from faust.app.base import BootStrategy
from faust.tables import TableManager
from faust.transport.consumer import Consumer
from faust.types import TP
from faust.worker import Worker

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Position, Publisher, Received, Stage
from fourgates.contract.seals import RecordOpener
from fourgates.contract.topology import TOPOLOGY
from fourgates.runtime.assignment import Assignment
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.health import Health, HealthServer
from fourgates.runtime.intake import OnUnforeseen, RecordHandler, backoff
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.topics import await_broker, check_topics
from fourgates.runtime.watchdog import watch
from fourgates.runtime.worker_settings import WorkerSettings

_COMMIT_SECONDS = 5.0
_END_SECONDS = 15.0
_BUFFERED = 16_384
_log = structlog.get_logger("fourgates.worker")
_faust_log = logging.getLogger("faust.worker")  # else Faust names its own lines after this module


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


def run_worker(work: Work) -> int:
    """Runs until a signal ends it (0) or it cannot go on (1). Raises ConfigurationError where it may not start at all."""
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return _Process(work, loop).run()


class _Process:
    """One run of a stage. Everything that may end it comes to `fail`."""

    def __init__(self, work: Work, loop: asyncio.AbstractEventLoop) -> None:
        self._work, self._stage, self._settings, self._loop = work, work.stage, work.settings, loop
        self._metrics = work.bus.metrics
        self._health = Health()
        self._served = HealthServer(self._health, self._metrics, work.settings.health_host, work.settings.health_port)
        self._handler = RecordHandler(
            work.stage, work.opener, work.publisher, SystemClock(), work.producer, work.on_unforeseen, self._metrics
        )
        self._assignment = Assignment(
            self._handler, self, at_once=work.settings.at_once, span=work.settings.span, failed=self.fail
        )
        self._faults: list[BaseException] = []
        self._taking_up: asyncio.Task[None] | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._worker: _Worker | None = None

    def run(self) -> int:
        try:
            if not self._interruptible(self._prepare()):
                return 0
            if self._faults:
                self._loop.run_until_complete(self._close())
                return 1
            self._worker = _Worker(self._app(), self._loop)
            with contextlib.suppress(SystemExit):
                self._worker.execute_from_commandline()
            if self._worker.crash_reason is not None:
                self.fail(self._worker.crash_reason)
            return 1 if self._faults else 0
        finally:
            self._metrics.ready.labels(self._stage.name).set(0)

    def fail(self, fault: BaseException) -> None:
        """Ends the process with exit code 1: no drain, no new work; what is finished is still committed."""
        self._faults.append(fault)
        if len(self._faults) > 1:
            return
        _log.error("the worker ends", stage=self._stage.name, fault=type(fault).__name__, why=str(fault))
        self._health.ill = str(fault) or type(fault).__name__
        self._end_for_certain(_END_SECONDS)
        if self._worker is not None:
            self._worker.end()

    async def first_from(self, partition: int, offset: int) -> int:
        """See Rereading."""
        return await self._work.bus.first_from(Position(self._stage.reads, partition, offset))

    async def seek(self, partition: int, offset: int) -> None:
        """See Rereading."""
        try:
            await self._consumer().seek(TP(self._stage.reads, partition), offset)
        except Exception as fault:  # the partition is being taken away, or the client ends
            raise Transient(f"seek: {type(fault).__name__}") from fault

    def _end_for_certain(self, seconds: float) -> None:
        """Whatever hangs while we end (a thread, a library, the broker): the supervisor must get its turn."""
        timer = threading.Timer(seconds, os._exit, (1,))
        timer.daemon = True
        timer.start()

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
        await self._patiently(self._stage.start)
        self._loops = [
            asyncio.create_task(self._every(self._settings.commit, self._commit)),
            asyncio.create_task(self._every(self._settings.tick, self._assignment.tick)),
            asyncio.create_task(self._bus_broken()),
            asyncio.create_task(self._stalled()),
        ]

    async def _close(self) -> None:
        for task in self._loops:
            task.cancel()
        await self._stage.close()
        await self._work.bus.close()
        await self._served.close()

    def _app(self) -> faust.App:
        """The Faust application: one raw topic that is never acknowledged by Faust, one agent that never raises."""
        settings = self._settings
        app = _App(
            settings.group or self._stage.name,
            loop=self._loop,
            broker=f"kafka://{self._work.bus.bootstrap.replace(',', ';')}",
            key_serializer="raw",
            value_serializer="raw",
            web_enabled=False,
            autodiscover=False,
            topic_disable_leader=True,
            topic_allow_declare=False,
            stream_wait_empty=False,
            stream_buffer_maxsize=_BUFFERED,
            stream_recovery_delay=0.0,
            broker_session_timeout=settings.session,
            broker_rebalance_timeout=settings.rebalance,
            broker_heartbeat_interval=settings.session / 10,
            broker_request_timeout=settings.session + settings.rebalance,
            broker_max_poll_interval=2 * settings.stall + settings.rebalance,
            consumer_auto_offset_reset="earliest",
            TableManager=_NoTables,
        )
        self._faust = app
        topic = app.topic(self._stage.reads, key_type=bytes, value_type=bytes, acks=False)

        async def intake(stream: Any) -> None:
            async for event in stream.events():
                await self._assignment.take(_received(event.message))

        app.agent(topic, name=f"{self._stage.name}.intake")(intake)
        app.on_rebalance_complete.connect(self._assigned, weak=False)
        app.on_partitions_revoked.connect(self._revoked, weak=False)
        app.on_before_shutdown.connect(self._shut_down, weak=False)
        return app

    async def _assigned(self, *_: Any, **__: Any) -> None:
        """Faust waits for this before the flow resumes. A rebalance meanwhile cancels it: `_revoked`."""
        self._taking_up = asyncio.create_task(self._take_up())
        await asyncio.wait((self._taking_up,))

    async def _take_up(self) -> None:
        try:
            committed = await self._patiently(self._committed)
            if committed:
                await self._patiently(lambda: self._restore(committed))
            self._assignment.take_up(committed)
            self._metrics.rebalances.labels(self._stage.name).inc()
            self._metrics.ready.labels(self._stage.name).set(1)
            self._health.not_ready = ""
            _log.info("assigned", stage=self._stage.name, partitions=sorted(committed))
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self.fail(fault)

    async def _committed(self) -> dict[int, int]:
        offsets = await asyncio.wait_for(self._consumer().seek_to_committed(), _COMMIT_SECONDS)
        return {tp.partition: offset or 0 for tp, offset in offsets.items() if tp.topic == self._stage.reads}

    def _consumer(self) -> Consumer:
        return cast(Consumer, self._faust.consumer)

    async def _restore(self, committed: dict[int, int]) -> None:
        try:
            await self._stage.assigned(sorted(committed))
            if self._stage.restores:
                async for received in self._work.bus.scan(self._stage.reads, committed):
                    await self._handler.restore(received)
        except Transient:
            await self._stage.revoked()  # half a state: the next attempt begins with none
            raise

    async def _revoked(self, *_: Any, **__: Any) -> None:
        """Faust lets the group go on after this: what is under way ends here, and what is finished is committed."""
        self._health.not_ready = "between two assignments"
        try:
            await self._let_go()
        except Exception as fault:
            self.fail(fault)

    async def _let_go(self) -> None:
        if self._taking_up is not None:
            self._taking_up.cancel()
            await asyncio.wait((self._taking_up,))
            self._taking_up = None
        await self._assignment.drain(0 if self._faults else self._settings.drain)
        await self._commit()
        self._assignment.give_up()
        await self._stage.revoked()

    async def _shut_down(self, *_: Any, **__: Any) -> None:
        """Consumer and producer are still alive here."""
        self._health.not_ready = "ending"
        self._end_for_certain(self._settings.drain + _END_SECONDS)
        try:
            await self._let_go()
        except Exception as fault:
            self.fail(fault)
        finally:
            await self._close()

    async def _commit(self) -> None:
        offsets = self._assignment.committable()
        if not offsets:
            return
        topic = self._stage.reads
        todo = {TP(topic, number): offset for number, offset in offsets.items()}
        try:  # the client tries for ever; what is not committed now is tried again with the next round
            done = await asyncio.wait_for(self._consumer()._commit(todo), _COMMIT_SECONDS)
        except TimeoutError:
            _log.warning("the commit was not answered", stage=self._stage.name)
            return
        if done:
            self._assignment.committed(offsets)
            self._metrics.commits.labels(self._stage.name).inc()

    async def _every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            self._metrics.under_way.labels(self._stage.name).set(self._assignment.under_way)
            try:
                await work()
            except Exception as fault:
                self.fail(fault)

    async def _bus_broken(self) -> None:
        self.fail(await self._work.bus.broken())

    async def _stalled(self) -> None:
        self.fail(await watch(self._work.bus, self._stage.reads, self._assignment, self._metrics, self._settings.stall))

    async def _patiently(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Tries again for as long as what is missing may come back."""
        attempt = 0
        while True:
            try:
                return await work()
            except (Transient, TimeoutError) as fault:
                attempt += 1
                _log.info("tried again", stage=self._stage.name, fault=str(fault), attempt=attempt)
            await asyncio.sleep(backoff(attempt))


def _received(message: Any) -> Received:
    where = Position(message.topic, message.partition, message.offset)
    headers = tuple(message.headers.items() if isinstance(message.headers, dict) else message.headers or ())
    return Received(where, round(message.timestamp * 1000), message.key or b"", message.value, headers)


class _Boot(BootStrategy):
    enable_kafka_producer = False  # records are published by the bus, whose acknowledgements we await


class _App(faust.App):
    logger = _faust_log
    BootStrategy = _Boot

    def on_init_dependencies(self) -> Iterable[Any]:
        """Without Faust's monitor, which costs time for each message; our metrics are elsewhere."""
        return self.boot_strategy.server()

    def on_rebalance_start(self) -> None:
        super().on_rebalance_start()
        self._rebalancing_sensor_state = {"none": None}  # else every rebalance warns that there are no sensors

    def _create_directories(self) -> None:
        """No tables, so no folder for them in whatever the current folder is."""


class _NoTables(TableManager):
    logger = _faust_log

    async def on_start(self) -> None:
        """As the base class, without its second of waiting for tables to be declared."""
        await self._update_channels()
        await self.recovery.start()


class _Worker(Worker):
    logger = _faust_log

    def __init__(self, app: faust.App, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(app, loop=loop, override_logging=False, redirect_stdouts=False, quiet=True)
        self.spinner = None

    def end(self) -> None:
        """As a signal does."""
        self._schedule_shutdown(signal.SIGTERM)

    def _on_sigint(self) -> None:
        self._schedule_shutdown(signal.SIGINT)

    def _on_sigterm(self) -> None:
        self._schedule_shutdown(signal.SIGTERM)

    def _on_sigusr2(self) -> None:
        """Faust would stop in a debugger that nobody sees."""

    def _shutdown_loop(self) -> None:
        """As the base class, without its seconds of sleep."""
        self.loop.run_until_complete(self._gather_rest())
        self.loop.close()
        if self.crash_reason:
            raise self.crash_reason

    async def _gather_rest(self) -> None:
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=1.0)
