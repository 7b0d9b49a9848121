"""What we take from Faust, and what we leave out: one raw topic that Faust never acknowledges, one agent that never raises."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, cast

import faust
from faust.app.base import BootStrategy
from faust.tables import TableManager
from faust.transport.consumer import Consumer
from faust.types import TP
from faust.worker import Worker

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Position, Received
from fourgates.runtime.faust_consumer import DirectTransport
from fourgates.runtime.worker_settings import WorkerSettings

_COMMIT_SECONDS = 5.0
_BUFFERED = 16_384
_log = logging.getLogger("faust.worker")  # else Faust names its own lines after this module


class Hooks(Protocol):
    """What Faust calls; nothing of it raises."""

    async def take(self, received: Received) -> None:
        """A record; returns when there is room for the next."""

    async def assigned(self) -> None:
        """After a rebalance; awaited before records come."""

    async def revoked(self) -> None:
        """In a rebalance; awaited before the group goes on."""


class _Boot(BootStrategy):
    enable_kafka_producer = False  # records are published by the bus, whose acknowledgements we await


class _NoTables(TableManager):
    logger = _log

    async def on_start(self) -> None:
        """As the base class, without its second of waiting for tables to be declared."""
        await self._update_channels()
        await self.recovery.start()


class StageApp(faust.App):
    """A Faust application for one stage."""

    logger = _log
    BootStrategy = _Boot

    def __init__(self, group: str, bootstrap: str, settings: WorkerSettings, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            group,
            loop=loop,
            broker=[f"kafka://{server.strip()}" for server in bootstrap.split(",")],
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

    def connect(self, reads: str, hooks: Hooks, end: Callable[[], Awaitable[None]]) -> None:
        """Lets records and rebalances of the topic come to `hooks`; `end` is awaited while we are still a member.

        One handler a signal: Faust calls several in any order.
        """

        async def intake(stream: Any) -> None:
            async for event in stream.events():
                await hooks.take(_received(event.message))

        async def assigned(*_: Any, **__: Any) -> None:
            await hooks.assigned()

        async def revoked(*_: Any, **__: Any) -> None:
            await hooks.revoked()

        async def ending(*_: Any, **__: Any) -> None:
            await end()

        self.agent(self.topic(reads, key_type=bytes, value_type=bytes, acks=False), name=f"{reads}.intake")(intake)
        self.on_rebalance_complete.connect(assigned, weak=False)
        self.on_partitions_revoked.connect(revoked, weak=False)
        self.on_before_shutdown.connect(ending, weak=False)

    def on_init_dependencies(self) -> Iterable[Any]:
        """Without Faust's monitor, which costs time for each message; our metrics are elsewhere."""
        return self.boot_strategy.server()

    def _new_transport(self) -> Any:
        return DirectTransport(self.conf.broker_consumer, self)

    def on_rebalance_start(self) -> None:
        super().on_rebalance_start()
        self._rebalancing_sensor_state = {"none": None}  # else every rebalance warns that there are no sensors

    def _create_directories(self) -> None:
        """No tables, so no folder for them in whatever the current folder is."""


class FaustGroup:
    """The group's offsets through Faust's own consumer, which is a member of it."""

    def __init__(self, app: StageApp, reads: str) -> None:
        self._app, self._reads = app, reads

    async def committed(self) -> dict[int, int]:
        """Our partitions, each with its committed offset; 0 where there is none. Raises TimeoutError."""
        offsets = await asyncio.wait_for(self._consumer().seek_to_committed(), _COMMIT_SECONDS)
        return {tp.partition: offset or 0 for tp, offset in offsets.items() if tp.topic == self._reads}

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        """False where the group moved on meanwhile. Raises TimeoutError: the client itself would try for ever."""
        todo = {TP(self._reads, number): offset for number, offset in offsets.items()}
        return bool(await asyncio.wait_for(self._consumer()._commit(todo), _COMMIT_SECONDS))

    async def seek(self, partition: int, offset: int) -> None:
        """Reading goes on from there. Raises Transient where the partition is being taken away."""
        try:
            await self._consumer().seek(TP(self._reads, partition), offset)
        except Exception as fault:
            raise Transient(f"seek: {type(fault).__name__}") from fault

    def _consumer(self) -> Consumer:
        return cast(Consumer, self._app.consumer)


class StageWorker(Worker):
    """Runs the application until a signal, `end` or a crash."""

    logger = _log

    def __init__(self, app: StageApp, loop: asyncio.AbstractEventLoop) -> None:
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


def _received(message: Any) -> Received:
    where = Position(message.topic, message.partition, message.offset)
    headers = tuple(message.headers.items() if isinstance(message.headers, dict) else message.headers or ())
    return Received(where, round(message.timestamp * 1000), message.key or b"", message.value, headers)
