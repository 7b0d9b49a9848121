"""Rooms that are booked with an optimistic version, in one SQLite file: what facts are read from and written to."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from support.sqlite_file import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS notes (name TEXT, version INTEGER);
CREATE TABLE IF NOT EXISTS rooms
    (name TEXT PRIMARY KEY, free INTEGER, version INTEGER, owner TEXT, blocks INTEGER, state TEXT, mode TEXT, looks INTEGER);
"""
_COLUMNS = ("free", "version", "owner", "blocks", "state", "mode", "looks")


class Bookings(SqliteFile):
    """Every method is one transaction of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)

    def put(self, name: str, **state: Any) -> None:
        """The room as it is from now on; `mode` makes its provider `down`, `slow` or `odd`."""
        row = {"free": 10, "version": 1, "owner": "anna", "blocks": 1, "state": "open", "mode": "", "looks": 0} | state
        with closing(self._open()) as db:
            db.execute("INSERT OR REPLACE INTO rooms VALUES (?,?,?,?,?,?,?,?)", (name, *(row[column] for column in _COLUMNS)))

    def look(self, name: str) -> dict[str, Any]:
        """The room, and one look at it more; nobody's where there is none."""
        with closing(self._open()) as db:
            db.execute("UPDATE rooms SET looks = looks + 1 WHERE name = ?", (name,))
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        with closing(self._open()) as db:
            row = db.execute(f"SELECT {', '.join(_COLUMNS)} FROM rooms WHERE name = ?", (name,)).fetchone()
        return dict(zip(_COLUMNS, row or (10, 0, "", 1, "open", "", 0), strict=True))

    def note(self, name: str, version: int) -> None:
        """Somebody tried with this version."""
        with closing(self._open()) as db:
            db.execute("INSERT INTO notes VALUES (?, ?)", (name, version))

    def noted(self, name: str) -> list[int]:
        with closing(self._open()) as db:
            return [version for (version,) in db.execute("SELECT version FROM notes WHERE name = ?", (name,)).fetchall()]

    def book(self, name: str, seats: int, version: int, key: str = "") -> bool:
        """Takes the seats if nobody changed the room since that version; a key that took its seats has them."""
        with closing(self._open()) as db:
            db.execute("BEGIN IMMEDIATE")
            known = bool(key) and db.execute("SELECT 1 FROM keys WHERE key = ?", (key,)).fetchone() is not None
            taken = known or db.execute(
                "UPDATE rooms SET free = free - ?, version = version + 1 WHERE name = ? AND version = ?", (seats, name, version)
            ).rowcount == 1  # fmt: skip
            if taken and key:
                db.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,))
            db.execute("COMMIT")
        return taken
