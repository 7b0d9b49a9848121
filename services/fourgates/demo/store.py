"""The shop's own database: customers, products, orders, payments, and what has been applied under which key."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

TABLES = """
CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, phone TEXT NOT NULL,
  address TEXT NOT NULL, clerk TEXT NOT NULL);
CREATE TABLE products (id TEXT PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL);
CREATE TABLE orders (id TEXT PRIMARY KEY, customer TEXT NOT NULL REFERENCES customers, status TEXT NOT NULL,
  placed_on TEXT NOT NULL, address TEXT NOT NULL, note TEXT NOT NULL, version INTEGER NOT NULL DEFAULT 1);
CREATE TABLE order_lines (order_id TEXT NOT NULL REFERENCES orders, product TEXT NOT NULL REFERENCES products,
  quantity INTEGER NOT NULL, price_cents INTEGER NOT NULL);
CREATE TABLE payments (order_id TEXT PRIMARY KEY REFERENCES orders, charge TEXT NOT NULL UNIQUE, amount_cents INTEGER NOT NULL);
CREATE TABLE outbox (id INTEGER PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE applied (key TEXT PRIMARY KEY, tool TEXT NOT NULL, result TEXT NOT NULL);
CREATE INDEX orders_by_customer ON orders (customer);
"""
_ORDER = """
SELECT o.id, o.status, o.placed_on, o.address, o.note, o.version, c.id AS customer_id, c.name AS customer, p.charge,
  p.amount_cents AS paid_cents
FROM orders o JOIN customers c ON c.id = o.customer JOIN payments p ON p.order_id = o.id
"""
Change = Callable[[sqlite3.Connection], dict[str, Any]]


class Changed(Exception):
    """The row is no longer what the rules were checked on; nothing was written."""


class Store:
    """One SQLite file; a connection a question, so that threads and processes may ask at once."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=5)) as db:
            db.row_factory = sqlite3.Row
            yield db

    def order(self, order_id: str, clerk: str) -> dict[str, Any] | None:
        """An order of a customer whom this clerk looks after. None for anybody else's as for one that does not exist."""
        with self._reading() as db:
            row = db.execute(f"{_ORDER} WHERE o.id = ? AND c.clerk = ?", (order_id, clerk)).fetchone()
            if row is None:
                return None
            lines = db.execute(
                "SELECT p.name AS product, quantity, l.price_cents FROM order_lines l JOIN products p ON p.id = l.product "
                "WHERE order_id = ? ORDER BY p.name",
                (order_id,),
            ).fetchall()
        return {**dict(row), "lines": [dict(line) for line in lines]}

    def search(self, clerk: str, customer: str, status: str | None, limit: int) -> list[dict[str, Any]]:
        """Orders of this clerk's customers whose name holds the text, the newest first."""
        pattern = "%" + customer.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
        with self._reading() as db:
            rows = db.execute(
                f"{_ORDER} WHERE c.clerk = ? AND c.name LIKE ? ESCAPE '\\' AND (? IS NULL OR o.status = ?) "
                "ORDER BY o.placed_on DESC, o.id LIMIT ?",
                (clerk, pattern, status, status, limit),
            ).fetchall()
        shown = ("id", "customer", "status", "placed_on", "paid_cents")
        return [{name: row[name] for name in shown} for row in rows]

    def customers(self, clerk: str) -> list[dict[str, Any]]:
        """This clerk's customers."""
        with self._reading() as db:
            rows = db.execute("SELECT id, name, email, phone, address FROM customers WHERE clerk = ? ORDER BY id", (clerk,))
            return [dict(row) for row in rows]

    def setting(self, name: str) -> str:
        """One of the shop's own settings."""
        with self._reading() as db:
            return str(db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()[0])

    def outbox(self) -> list[dict[str, Any]]:
        """Messages that were sent."""
        with self._reading() as db:
            return [dict(row) for row in db.execute("SELECT recipient, subject, text FROM outbox ORDER BY id")]

    def applied(self, key: str) -> dict[str, Any] | None:
        """What the change under this key gave, or None where it has not happened."""
        with self._reading() as db:
            row = db.execute("SELECT result FROM applied WHERE key = ?", (key,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def apply_once(self, key: str, tool: str, change: Change) -> dict[str, Any]:
        """The change and its key in one transaction: the same key again gets the first result and changes nothing.

        Raises Changed where the change finds another state than it expects.
        """
        with closing(sqlite3.connect(self._path, timeout=5, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                known = db.execute("SELECT result FROM applied WHERE key = ?", (key,)).fetchone()
                if known is not None:
                    result = dict(json.loads(known[0]))
                else:
                    result = change(db)
                    db.execute("INSERT INTO applied VALUES (?, ?, ?)", (key, tool, json.dumps(result)))
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise
        return result


def update_order(db: sqlite3.Connection, order_id: str, version: int | None, **new: str) -> None:
    """Sets columns of an order if it still is at `version` (None: whatever it is at). Raises Changed where it is not."""
    columns = ", ".join(f"{name} = ?" for name in new)
    found = db.execute(
        f"UPDATE orders SET {columns}, version = version + 1 WHERE id = ? AND version = coalesce(?, version)",  # noqa: S608 - our own names
        (*new.values(), order_id, version),
    )
    if found.rowcount != 1:
        raise Changed(order_id)
