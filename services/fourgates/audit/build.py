"""Puts the audit service together from its parts. The caller brings the bus, the keys, the redactor and the folder of the DDL."""

from __future__ import annotations

import hmac
from pathlib import Path

from starlette.applications import Starlette

from fourgates.audit.bulk import BulkMaker, BulkRows
from fourgates.audit.door import LOOPBACK_HOSTS, build_door
from fourgates.audit.made_by import build_digest
from fourgates.audit.migrations import migrate, migrations_in
from fourgates.audit.reading import Readers
from fourgates.audit.redactions import Redactions, kinds_in
from fourgates.audit.rows import RowMaker
from fourgates.audit.settings import DoorSettings, SinkSettings, StoreSettings
from fourgates.audit.sink import AuditSink, Inserts, Rows
from fourgates.audit.store import Client, Connect, Store, connector, running
from fourgates.catalog import Catalog
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Clock, Publisher
from fourgates.contract.seals import RecordOpener
from fourgates.gates.redaction_proof import prove

__all__ = ["build_bulk_rows", "build_query_door", "build_rows", "build_sink", "open_store"]


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
    store: Inserts, rows: Rows, publisher: Publisher, clock: Clock, producer: str, settings: SinkSettings | None = None
) -> AuditSink:
    """The sink, to be run on the Batches of its group. Raises ConfigurationError where the redaction does not prove itself."""
    prove()
    return AuditSink(store, rows, publisher, clock, producer, settings or SinkSettings())


def build_rows(opener: RecordOpener, key: bytes, catalog: Catalog | None) -> RowMaker:
    """What makes rows. `key` is the placeholder key: with another one digests in the store no longer compare.

    Without a catalog every tool counts as unknown, and all kinds of personal data are redacted.
    """
    kinds_of = kinds_in(catalog) if catalog is not None else lambda tool: None
    kinds = sorted((tool.name, *tool.redact) for tool in catalog or ())
    digests = hmac.digest(key, b"fourgates.audit.digest.v1", "sha256")
    return RowMaker(opener, Redactions(key, kinds_of), digests, build_digest(digests, repr(kinds)))


def build_bulk_rows(
    opener: RecordOpener, key: bytes, catalog: Catalog | None, engine: Client | None, settings: SinkSettings
) -> Rows:
    """As `build_rows`, with an embedded engine for large batches. Where there is none every row is made by itself."""
    rows = build_rows(opener, key, catalog)
    if engine is None:
        return rows
    return BulkRows(rows, BulkMaker(opener, rows, running(engine)), settings.bulk)


def build_query_door(connect: Connect, token: str, settings: DoorSettings) -> tuple[Starlette, Readers]:
    """The door's application, to be served on `settings.host`, and its readers, to be closed after it."""
    if settings.host not in LOOPBACK_HOSTS | {"::1"}:
        raise ConfigurationError(f"audit door: host {settings.host!r} is not a loopback address; use 127.0.0.1")
    if len(token) < 16:
        raise ConfigurationError("audit door: the token must have at least 16 characters")
    readers = Readers.open(connect, settings.readers, settings.waiting, settings.limits)
    return build_door(readers, token, settings.limits.query_bytes), readers
