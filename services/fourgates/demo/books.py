"""The payment provider's books: charges, refunds by idempotency key, and every request that came."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE IF NOT EXISTS charges (charge TEXT PRIMARY KEY, amount_cents INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS refunds (
  key TEXT PRIMARY KEY, refund_id TEXT NOT NULL UNIQUE, charge TEXT NOT NULL, amount_cents INTEGER NOT NULL,
  reason TEXT NOT NULL, remaining_cents INTEGER NOT NULL, at_ms INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY, key TEXT NOT NULL, outcome TEXT NOT NULL, at_ms INTEGER NOT NULL);
"""
_REFUND = "key, refund_id, charge, amount_cents, reason, remaining_cents"


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP status and a JSON body."""

    status: int
    body: dict[str, Any]


class Books:
    """One SQLite file, one connection, one lock: a refund and its key are one transaction."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + _TABLES)

    def close(self) -> None:
        self._db.close()

    def add_charges(self, charges: Iterable[tuple[str, int]]) -> None:
        """(charge, amount in cents). A charge that is known stays as it is."""
        with self._lock:
            self._db.executemany("INSERT OR IGNORE INTO charges VALUES (?, ?)", charges)

    def refund(self, key: str, body: dict[str, Any]) -> Answer:
        """Moves money once per key: the same key again gets the first answer; with another body, 409."""
        charge, amount, reason = body.get("charge"), body.get("amount_cents"), body.get("reason", "")
        if not key or not isinstance(charge, str) or not isinstance(reason, str) or type(amount) is not int or amount <= 0:
            return Answer(422, {"error": "malformed"})
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                answer = self._refunded(key, charge, amount, reason)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        return answer

    def _refunded(self, key: str, charge: str, amount: int, reason: str) -> Answer:
        if (known := self._first(key)) is not None:
            same = (known["charge"], known["amount_cents"], known["reason"]) == (charge, amount, reason)
            return Answer(200, known) if same else Answer(409, {"error": "key_reused"})
        remaining = self._remaining(charge)
        if remaining is None:
            return Answer(404, {"error": "no_such_charge"})
        if amount > remaining:
            return Answer(409, {"error": "exceeds_charge"})
        row = (key, f"re_{key[:12]}", charge, amount, reason, remaining - amount, time.time_ns() // 1_000_000)
        self._db.execute("INSERT INTO refunds VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        return Answer(201, self._first(key) or {})

    def refund_of(self, key: str) -> Answer:
        """What the key did, or 404: it did nothing yet."""
        with self._lock:
            known = self._first(key)
        return Answer(200, known) if known is not None else Answer(404, {"error": "no_such_refund"})

    def charge(self, charge: str) -> Answer:
        """What was charged and what of it may still be refunded."""
        with self._lock:
            row = self._db.execute("SELECT amount_cents FROM charges WHERE charge = ?", (charge,)).fetchone()
            remaining = self._remaining(charge)
        if row is None:
            return Answer(404, {"error": "no_such_charge"})
        return Answer(200, {"charge": charge, "amount_cents": row[0], "remaining_cents": remaining})

    def refunds(self) -> list[dict[str, Any]]:
        """Every refund that was committed, in order."""
        with self._lock:
            return [dict(row) for row in self._db.execute(f"SELECT {_REFUND} FROM refunds ORDER BY at_ms, refund_id")]  # noqa: S608 - fixed text

    def note(self, key: str, outcome: str) -> None:
        """A request came, and this became of it."""
        with self._lock:
            self._db.execute(
                "INSERT INTO requests (key, outcome, at_ms) VALUES (?, ?, ?)", (key, outcome, time.time_ns() // 1_000_000)
            )

    def requests(self) -> list[dict[str, Any]]:
        """Every refund that was asked for, in order of its answer."""
        with self._lock:
            return [dict(row) for row in self._db.execute("SELECT key, outcome FROM requests ORDER BY id")]

    def _first(self, key: str) -> dict[str, Any] | None:
        row = self._db.execute(f"SELECT {_REFUND} FROM refunds WHERE key = ?", (key,)).fetchone()  # noqa: S608 - fixed text
        return dict(row) if row is not None else None

    def _remaining(self, charge: str) -> int | None:
        row = self._db.execute(
            "SELECT amount_cents - (SELECT coalesce(sum(amount_cents), 0) FROM refunds WHERE charge = c.charge) "
            "FROM charges c WHERE charge = ?",
            (charge,),
        ).fetchone()
        return None if row is None else int(row[0])
