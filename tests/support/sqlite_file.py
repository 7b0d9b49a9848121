"""A small database in one file that several processes share."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


class SqliteFile:
    """Each use opens it anew, so that a process that is killed holds nothing. It need not outlive the machine."""

    def __init__(self, path: Path, schema: str) -> None:
        self._path = path
        with closing(self._open()) as db:
            db.executescript(schema)

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=OFF")
        return db
