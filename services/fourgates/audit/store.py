"""The ClickHouse store: opening a server or the embedded engine, inserting rows, asking questions."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import clickhouse_connect
from clickhouse_connect.driver.exceptions import ClickHouseError

from fourgates.audit.bulk import EngineError, Run
from fourgates.audit.columns import COLUMNS, TABLE, Row, columns_of
from fourgates.audit.settings import ReadLimits, StoreSettings
from fourgates.contract.errors import ConfigurationError, Transient

Client: TypeAlias = Any
"""A clickhouse-connect client; one runs one query at a time."""
Connect: TypeAlias = Callable[[], Client]

STORE_FAULTS = (ClickHouseError, OSError)
"""What clickhouse-connect raises where the store is away, full or refuses; urllib3's own faults come wrapped in them."""


class Query(Protocol):
    """How reports ask: rows as dicts. Over the store in this process, or over the query door."""

    def __call__(self, sql: str, parameters: Mapping[str, Any] | None = None, /) -> list[dict[str, Any]]: ...


def connector(settings: StoreSettings) -> Connect:
    """Opens clients of the configured store. Raises ConfigurationError for settings that name none or two."""
    if bool(settings.url) == (settings.folder is not None):
        raise ConfigurationError(
            "audit store: set either the URL of a ClickHouse server or the folder of the embedded engine, and not both"
        )
    if settings.url:
        return lambda: clickhouse_connect.get_client(
            dsn=settings.url, password=settings.password.get_secret_value(), autogenerate_session_id=False
        )
    folder = str(settings.folder)

    def embedded() -> Client:
        try:
            return clickhouse_connect.get_client(interface="chdb", path=folder)
        except ImportError as fault:
            raise ConfigurationError(
                "audit store: the embedded ClickHouse engine is not installed: install fourgates[embedded], or set a server's URL"
            ) from fault

    return embedded


def engine(settings: StoreSettings, connect: Connect) -> Client | None:
    """A client of an embedded engine for decoding: the store's own, beside a server one in memory; None where there is none."""
    if settings.folder is not None:
        return connect()
    try:
        return clickhouse_connect.get_client(interface="chdb")
    except ImportError:
        return None


def running(client: Client) -> Run:
    """Statements on that client, for who decodes with it. One runs at a time."""
    turn = threading.Lock()

    def run(sql: str, output_format: str) -> bytes:
        try:
            with turn:
                answer: bytes = client.raw_query(sql, fmt=output_format)
        except STORE_FAULTS as fault:
            raise EngineError(type(fault).__name__) from fault
        return answer

    return run


class Store:
    """Inserts and reads through one client. Calls from several threads take turns."""

    def __init__(self, client: Client) -> None:
        self._client, self._turn = client, threading.Lock()
        self._context: Any = None

    def insert(self, rows: Iterable[Row]) -> None:
        """Puts rows into `events`, all of them before it returns. The same rows again change no count. Raises Transient."""
        with self._turn, _as_transient():
            if self._context is None:
                self._context = self._client.create_insert_context(TABLE, column_names=COLUMNS, column_oriented=True)
            self._context.data = columns_of(rows)
            self._client.insert(context=self._context)

    def insert_native(self, blocks: Sequence[bytes]) -> None:
        """Puts rows into `events` that are there as blocks of the Native format, columns in the order of COLUMNS."""
        with self._turn, _as_transient():
            self._client.raw_insert(TABLE, COLUMNS, b"".join(blocks), fmt="Native")

    def alive(self) -> None:
        """Raises Transient where the store does not answer."""
        with self._turn, _as_transient():
            self._client.command("SELECT 1")

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, /) -> list[dict[str, Any]]:
        """Rows as dicts; times are text, in UTC, as over the query door."""
        with self._turn:
            lines: bytes = self._client.raw_query(sql, parameters=dict(parameters or {}), fmt="JSONEachRow")
        return [json.loads(line) for line in lines.splitlines()]

    def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """One statement without a result."""
        with self._turn:
            self._client.command(sql, parameters=dict(parameters or {}))

    def close(self) -> None:
        with self._turn:
            self._client.close()


@contextlib.contextmanager
def _as_transient() -> Any:
    try:
        yield
    except STORE_FAULTS as fault:
        raise Transient(f"the audit store: {type(fault).__name__}") from fault


def reading_client(connect: Connect, limits: ReadLimits) -> Client:
    """A client of its own whose every query is read-only by the engine and bounded; the writer's client is left alone."""
    client = connect()
    settings = {
        "max_execution_time": limits.seconds,
        "max_result_rows": limits.rows,
        "max_result_bytes": limits.result_bytes,
        "max_memory_usage": limits.memory_bytes,
        "max_threads": limits.threads,
        "max_block_size": 8_192,  # folding a life log takes many times the memory of the log
        "readonly": 1,  # last: from then on no setting can be changed
    }
    if client.uri.startswith("chdb:"):
        client.command("USE fourgates")
        client.command("SET use_skip_indexes_if_final_exact_mode = 0")  # all rows of a position are of one call: none is missed
        client.command("SET " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
    else:
        for name, value in settings.items():
            client.set_client_setting(name, value)
        client.database = "fourgates"
    return client
