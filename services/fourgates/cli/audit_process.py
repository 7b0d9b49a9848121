"""The audit's process: the sink into ClickHouse, and the query door on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager

from fourgates.assembly import producer_of
from fourgates.audit.build import build_bulk_rows, build_query_door, build_rows, build_sink, open_store
from fourgates.audit.columns import Row
from fourgates.audit.erasure import Eraser
from fourgates.audit.erasure_door import erasure_route
from fourgates.audit.sink import AuditSink
from fourgates.audit.store import STORE_FAULTS, Connect, Store, engine
from fourgates.cli.serving import serving, telling_health
from fourgates.cli.settings import PREFIX, Settings
from fourgates.cli.world import Base
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.topology import AUDITED
from fourgates.runtime.data import data_folder
from fourgates.runtime.health import Health
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka import GroupBatches, KafkaBus
from fourgates.runtime.metrics import Metrics

GROUP = "audit"
_BETWEEN_SECONDS = 1.0
_LAST_BATCH_SECONDS = 10.0


async def run_audit(base: Base) -> None:
    """Until it is cancelled. Raises ConfigurationError, Transient, FatalError."""
    settings, keys, health = base.settings, base.keyring, Health()
    async with AsyncExitStack() as stack:
        store, connect = await _opened(settings)
        stack.push_async_callback(asyncio.to_thread, store.close)
        door, readers = await asyncio.to_thread(build_query_door, connect, keys.door_token(), settings.door())
        stack.push_async_callback(readers.close)
        bus = await stack.enter_async_context(base.bus())
        decoder = await asyncio.to_thread(engine, settings.store(), connect)
        if decoder is not None:
            stack.push_async_callback(asyncio.to_thread, decoder.close)
        erasing = await asyncio.to_thread(lambda: Store(connect()))  # of its own: an erasure must not hold up the sink
        stack.push_async_callback(asyncio.to_thread, erasing.close)
        maker = build_rows(base.opener, keys.placeholder_key(), base.catalog)
        eraser = Eraser(erasing, maker, base.blobs, base.clock)
        door.routes.append(erasure_route(eraser, keys.verifier(), base.clock))
        rows = build_bulk_rows(base.opener, keys.placeholder_key(), base.catalog, decoder, settings.sink)
        watched, publisher = _Watched(store, health, base.metrics), bus.publisher(base.writer("audit"))
        sink = build_sink(watched, rows, publisher, base.clock, producer_of("audit"), settings.sink)
        await stack.enter_async_context(telling_health(base, health))
        await stack.enter_async_context(serving(door, f"{PREFIX}AUDIT_DOOR", settings.audit_door))
        await _sink(sink, GroupBatches(settings.bootstrap, GROUP, AUDITED), bus)
    raise FatalError("The audit sink has ended; it has to be started again.")


async def _sink(sink: AuditSink, batches: GroupBatches, bus: KafkaBus) -> None:
    """Reads and inserts until it is cancelled or cannot go on; what was read by then is inserted."""
    await batches.start()
    sinking, broken = asyncio.create_task(sink.run(batches)), asyncio.create_task(bus.broken())
    try:
        await asyncio.wait((sinking, broken), return_when=asyncio.FIRST_COMPLETED)
    finally:
        broken.cancel()
        await batches.close()
        await _ended(sinking)


class _Watched:
    """The store as the sink sees it. Ready is who has put something into it, or got a sign of life, last time."""

    def __init__(self, store: Store, health: Health, metrics: Metrics) -> None:
        self._store, self._health, self._ready = store, health, metrics.ready.labels("audit")

    def insert(self, rows: Sequence[Row]) -> None:
        with self._noted():
            self._store.insert(rows)

    def insert_native(self, blocks: Sequence[bytes]) -> None:
        with self._noted():
            self._store.insert_native(blocks)

    def alive(self) -> None:
        with self._noted():
            self._store.alive()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except Transient:
            self._health.not_ready = "the store does not answer"
            self._ready.set(0)
            raise
        self._health.not_ready = ""
        self._ready.set(1)


async def _opened(settings: Settings) -> tuple[Store, Connect]:
    """The store, once it answers."""
    until = time.monotonic() + settings.start_wait
    while True:
        try:
            return await asyncio.to_thread(open_store, settings.store(), data_folder("deploy/clickhouse"))
        except STORE_FAULTS as fault:
            if time.monotonic() > until or not settings.clickhouse_url:
                setting = "CLICKHOUSE_URL" if settings.clickhouse_url else "HOME"
                where = settings.clickhouse_url or settings.home / "clickhouse"
                raise ConfigurationError(
                    f"{PREFIX}{setting}: ClickHouse cannot be opened at {where} ({_words(fault)})"
                ) from fault
        await asyncio.sleep(_BETWEEN_SECONDS)


async def _ended(sinking: asyncio.Task[None]) -> None:
    """What was read is inserted, unless the store is away: then it is read again by who comes next."""
    try:
        await asyncio.wait_for(sinking, _LAST_BATCH_SECONDS)
    except TimeoutError:
        return


def _words(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0][:200]
