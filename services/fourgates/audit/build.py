"""Puts the audit service together from its parts. The caller brings the bus, the keys, the redactor and the folder of the DDL."""

from __future__ import annotations

from pathlib import Path

from starlette.applications import Starlette

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Clock, Publisher
from fourgates.contract.seals import RecordOpener

from .door import LOOPBACK_HOSTS, build_door
from .migrations import migrate, migrations_in
from .reading import Readers
from .redactions import Redactions
from .rows import RowMaker
from .settings import DoorSettings, SinkSettings, StoreSettings
from .sink import AuditSink, Inserts
from .store import Connect, Store, connector

__all__ = ["build_query_door", "build_sink", "connector", "open_store"]


def open_store(settings: StoreSettings, migrations: Path) -> tuple[Store, Connect]:
    """The store, with its schema brought up to date, and what opens further clients of it.

    `migrations` is `deploy/clickhouse`. Raises ConfigurationError, also where the database is newer than this code.
    """
    connect = connector(settings)
    store = Store(connect())
    try:
        migrate(store, migrations_in(migrations))
    except BaseException:
        store.close()
        raise
    return store, connect


def build_sink(
    store: Inserts,
    opener: RecordOpener,
    redactions: Redactions,
    digest_key: bytes,
    publisher: Publisher,
    clock: Clock,
    producer: str,
    settings: SinkSettings | None = None,
) -> AuditSink:
    """The sink. `digest_key` keys the digests of arguments; it is the deployment's and must stay the same."""
    rows = RowMaker(opener, redactions, digest_key)
    return AuditSink(store, rows, publisher, clock, producer, settings or SinkSettings())


def build_query_door(connect: Connect, token: str, settings: DoorSettings) -> tuple[Starlette, Readers]:
    """The door's application, to be served on `settings.host`, and its readers, to be closed after it."""
    if settings.host not in LOOPBACK_HOSTS | {"::1"}:
        raise ConfigurationError(f"audit door: host {settings.host!r} is not a loopback address; use 127.0.0.1")
    if len(token) < 16:
        raise ConfigurationError("audit door: the token must have at least 16 characters")
    readers = Readers.open(connect, settings.readers, settings.waiting, settings.limits)
    return build_door(readers, token, settings.limits.query_bytes), readers
