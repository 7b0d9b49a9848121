"""The audit store on the embedded engine, and what makes rows for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fourgates.audit.build import open_store
from fourgates.audit.redactions import Redactions
from fourgates.audit.rows import RowMaker
from fourgates.audit.settings import StoreSettings
from fourgates.audit.store import Client, Connect, Store
from fourgates.contract.ports import Received
from fourgates.runtime.data import data_folder
from support.sealing import opener

KEY = b"a key of the tests, 32 bytes lo."
DDL = data_folder("deploy/clickhouse")


def row_maker(**kinds: tuple[str, ...]) -> RowMaker:
    """Knows the tools of the stories, and those that a test names with their kinds."""
    known = {"refund_order": (), "read_order": ()} | kinds
    return RowMaker(opener(), Redactions(KEY, known.get), KEY)


@dataclass
class Engine:
    """An embedded store with its schema."""

    store: Store
    connect: Connect
    rows: RowMaker

    def take(self, received: Iterable[Received]) -> None:
        """As the sink does with one batch."""
        self.store.insert([self.rows.row(one) for one in received])

    def empty(self) -> None:
        """As new, but for the schema."""
        for table in ("events", "call_rollup"):
            self.store.command(f"TRUNCATE TABLE fourgates.{table}")

    def ask(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.store.query(sql, parameters)

    def one(self, sql: str, **parameters: Any) -> Any:
        """The only value of the only row."""
        (row,) = self.ask(sql, **parameters)
        (value,) = row.values()
        return value


@contextmanager
def engine_in(folder: Path) -> Iterator[Engine]:
    """Opens the engine in `folder`. A process has one engine folder at a time, so every client of it is closed again."""
    store, connect = open_store(StoreSettings(folder=folder), DDL)
    clients: list[Client] = []

    def remembered() -> Client:
        clients.append(connect())
        return clients[-1]

    try:
        yield Engine(store, remembered, row_maker())
    finally:
        for client in clients:
            client.close()
        store.close()
