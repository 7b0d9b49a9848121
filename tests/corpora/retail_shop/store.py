"""The shop's data: one SQLite file a tenant, so that the processes of a pipeline see the same shop, and each tenant its own."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

Document = dict[str, Any]
_KINDS = ("products", "users", "orders")
_TABLES = """
PRAGMA journal_mode=WAL;
CREATE TABLE documents (kind TEXT, id TEXT, body TEXT NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE items (id TEXT PRIMARY KEY, product TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE applied (key TEXT PRIMARY KEY, result TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (id INTEGER PRIMARY KEY, key TEXT NOT NULL, tool TEXT NOT NULL);
"""
LATER = (
    "cancel_reason", "exchange_items", "exchange_new_items", "exchange_payment_method_id", "exchange_price_difference",
    "return_items", "return_payment_method_id",
)  # fmt: skip
"""Fields of an order that are null until something is done with it."""
_MONEY = frozenset({"price", "amount", "balance"})
_TENANT = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")
_TEMPLATE = "template.sqlite"


class Changed(Exception):
    """The document is no longer what the rules were checked on; nothing was written."""


class Draft:
    """Documents as a change sees and alters them; nothing is written until the store saves it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._before: dict[tuple[str, str], Document] = {}
        self._now: dict[tuple[str, str], Document] = {}

    def order(self, order_id: str) -> Document:
        """KeyError where there is none."""
        return self._document("orders", order_id)

    def user(self, user_id: str) -> Document:
        """KeyError where there is none."""
        return self._document("users", user_id)

    def product(self, product_id: str) -> Document:
        """KeyError where there is none."""
        return self._document("products", product_id)

    def changes(self) -> Iterator[tuple[str, str, Document, Document]]:
        """(kind, id, before, after) of what is no longer as it was."""
        for (kind, name), now in self._now.items():
            if now != self._before[kind, name]:
                yield kind, name, self._before[kind, name], now

    def _document(self, kind: str, name: str) -> Document:
        if (kind, name) not in self._now:
            row = self._db.execute("SELECT body FROM documents WHERE kind = ? AND id = ?", (kind, name)).fetchone()
            if row is None:
                raise KeyError(name)
            self._now[kind, name] = json.loads(row[0])
            self._before[kind, name] = deepcopy(self._now[kind, name])
        return self._now[kind, name]


class Store:
    """One shop. A connection a question, so that threads and processes may ask at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def looking(self) -> Iterator[Draft]:
        """The documents as they stand; what is done to them is forgotten."""
        with self._reading() as db:
            yield Draft(db)

    def order(self, order_id: str) -> tuple[Document, int] | None:
        """The order and its version."""
        return self._versioned("orders", order_id)

    def user(self, user_id: str) -> tuple[Document, int] | None:
        """The customer's profile and its version."""
        return self._versioned("users", user_id)

    def product(self, product_id: str) -> Document | None:
        found = self._versioned("products", product_id)
        return None if found is None else found[0]

    def variant(self, item_id: str) -> Document | None:
        """An item, whichever product it is one of."""
        with self._reading() as db:
            row = db.execute("SELECT product FROM items WHERE id = ?", (item_id,)).fetchone()
        product = None if row is None else self.product(row[0])
        return None if product is None else product["variants"][item_id]

    def all(self, kind: str) -> Iterator[Document]:
        """Every document of a kind: `products`, `users` or `orders`."""
        with self._reading() as db:
            for (body,) in db.execute("SELECT body FROM documents WHERE kind = ?", (kind,)):
                yield json.loads(body)

    def apply_once(
        self, key: str, change: Callable[[Draft], Any], guarded: tuple[str, str] | None = None, version: int | None = None
    ) -> Any:
        """The change and its key in one transaction: the same key again gets the first result and changes nothing.

        Raises Changed where the document `guarded`, (kind, id), is at another version.
        """
        with closing(sqlite3.connect(self._path, timeout=10, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous=NORMAL")  # it must outlive a process, not the machine
            db.execute("BEGIN IMMEDIATE")
            try:
                known = db.execute("SELECT result FROM applied WHERE key = ?", (key,)).fetchone()
                result = json.loads(known[0]) if known else self._change(db, key, change, guarded, version)
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise
        return result

    def applied(self, key: str) -> Any:
        """What the change under this key gave, None where it has not happened."""
        with self._reading() as db:
            row = db.execute("SELECT result FROM applied WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    def note(self, key: str, tool: str) -> None:
        """A tool's function was entered for the call of this key."""
        with closing(sqlite3.connect(self._path, timeout=10)) as db, db:
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute("INSERT INTO entries (key, tool) VALUES (?, ?)", (key, tool))

    def entries(self) -> list[str]:
        """The key of each time that any tool's function was entered, in order."""
        with self._reading() as db:
            return [row[0] for row in db.execute("SELECT key FROM entries ORDER BY id")]

    def digest(self) -> str:
        """sha256 of everything in it as one JSON text, keys sorted, no spaces."""
        parts: dict[str, list[str]] = {kind: [] for kind in sorted(_KINDS)}
        with self._reading() as db:
            for kind, name, body in db.execute("SELECT kind, id, body FROM documents ORDER BY kind, id"):
                parts[kind].append(f"{json.dumps(name)}:{body}")  # a body is kept in this very form
        whole = ",".join(f"{json.dumps(kind)}:{{{','.join(members)}}}" for kind, members in parts.items())
        return hashlib.sha256(f"{{{whole}}}".encode()).hexdigest()

    @staticmethod
    def _change(
        db: sqlite3.Connection, key: str, change: Callable[[Draft], Any], guarded: tuple[str, str] | None, version: int | None
    ) -> Any:
        if guarded is not None and version is not None:
            row = db.execute("SELECT version FROM documents WHERE kind = ? AND id = ?", guarded).fetchone()
            if row is None or row[0] != version:
                raise Changed(guarded[1])
        draft = Draft(db)
        result = change(draft)
        for kind, name, _, now in draft.changes():
            db.execute("UPDATE documents SET body = ?, version = version + 1 WHERE kind = ? AND id = ?", (_text(now), kind, name))
        db.execute("INSERT INTO applied VALUES (?, ?)", (key, json.dumps(result)))
        return result

    def _versioned(self, kind: str, name: str) -> tuple[Document, int] | None:
        with self._reading() as db:
            row = db.execute("SELECT body, version FROM documents WHERE kind = ? AND id = ?", (kind, name)).fetchone()
        return None if row is None else (json.loads(row[0]), row[1])

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=10)) as db:
            yield db


class Shops:
    """All tenants' shops in one folder. Each begins as a copy of the same data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def prepare(self, data: Mapping[str, Mapping[str, Document]]) -> None:
        """Makes what every shop begins as, from a store of the form `{"products", "users", "orders"}`, each by id."""
        path = self._folder / _TEMPLATE
        with closing(sqlite3.connect(path)) as db:
            db.executescript(_TABLES)
            with db:
                for kind in _KINDS:
                    rows = ((kind, name, _text(_whole(kind, document))) for name, document in data[kind].items())
                    db.executemany("INSERT INTO documents VALUES (?, ?, ?, 1)", rows)
                items = ((item, name) for name, product in data["products"].items() for item in product["variants"])
                db.executemany("INSERT INTO items VALUES (?, ?)", items)

    def open(self, tenant: str) -> Store:
        """A fresh shop for this tenant."""
        shutil.copyfile(self._folder / _TEMPLATE, self._path(tenant))
        return self.of(tenant)

    def of(self, tenant: str) -> Store:
        """The tenant's shop. KeyError where it has none."""
        path = self._path(tenant)
        if not path.exists():
            raise KeyError(tenant)
        return Store(path)

    def _path(self, tenant: str) -> Path:
        if not _TENANT.fullmatch(tenant):
            raise KeyError(tenant)
        return self._folder / f"shop-{tenant}.sqlite"


def _text(document: Document) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def _whole(kind: str, document: Document) -> Document:
    """As the shop's own software keeps it: every field of an order is there, money is never a whole number."""
    document = _money(document)
    return {**dict.fromkeys(LATER), **document} if kind == "orders" else document


def _money(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {each: _money(inner, each) for each, inner in value.items()}
    if isinstance(value, list):
        return [_money(inner) for inner in value]
    return float(value) if name in _MONEY and isinstance(value, int) else value
