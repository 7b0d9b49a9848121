"""A downstream outside the pipeline, in one SQLite file: it counts entries and effects, whichever process caused them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from support.sqlite_file import SqliteFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (tool TEXT, key TEXT, attempt INTEGER);
CREATE TABLE IF NOT EXISTS effects (tool TEXT, key TEXT, what TEXT);
CREATE TABLE IF NOT EXISTS barred (key TEXT PRIMARY KEY);
"""


class Barred(Exception):
    """The key was fenced: it can never have an effect again."""


class Downstream(SqliteFile):
    """What the world really did. Every method is one transaction of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)

    def entered(self, tool: str, key: str, attempt: int) -> None:
        """The tool's function was entered."""
        with closing(self._open()) as db:
            db.execute("INSERT INTO entries VALUES (?, ?, ?)", (tool, key, attempt))

    def commit(self, tool: str, key: str, what: str, *, honours_key: bool) -> None:
        """One effect; a downstream that honours the key has it only once for each."""
        with closing(self._open()) as db:
            db.execute("BEGIN IMMEDIATE")
            if db.execute("SELECT 1 FROM barred WHERE key = ?", (key,)).fetchone():
                db.execute("ROLLBACK")
                raise Barred(key)
            if not (honours_key and db.execute("SELECT 1 FROM effects WHERE key = ?", (key,)).fetchone()):
                db.execute("INSERT INTO effects VALUES (?, ?, ?)", (tool, key, what))
            db.execute("COMMIT")

    def bar(self, key: str) -> bool:
        """Fences the key unless it had an effect. True where it had none and can have none any more."""
        with closing(self._open()) as db:
            db.execute("BEGIN IMMEDIATE")
            happened = db.execute("SELECT 1 FROM effects WHERE key = ?", (key,)).fetchone() is not None
            if not happened:
                db.execute("INSERT OR IGNORE INTO barred VALUES (?)", (key,))
            db.execute("COMMIT")
        return not happened

    def happened(self, key: str) -> bool:
        return any(found == key for _, found, _ in self.effects())

    def entries(self, tool: str = "") -> list[tuple[str, str, int]]:
        """(tool, key, attempt) of every entry."""
        with closing(self._open()) as db:
            rows = db.execute("SELECT tool, key, attempt FROM entries").fetchall()
        return [row for row in rows if not tool or row[0] == tool]

    def effects(self, tool: str = "") -> list[tuple[str, str, str]]:
        """(tool, key, what) of every effect."""
        with closing(self._open()) as db:
            rows = db.execute("SELECT tool, key, what FROM effects").fetchall()
        return [row for row in rows if not tool or row[0] == tool]
