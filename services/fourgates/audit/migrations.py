"""Numbered, forward-only changes of the store's schema, applied at start."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from fourgates.audit.store import Store
from fourgates.contract.errors import ConfigurationError

_NAME = re.compile(r"(\d{3})_\w+\.sql")
_TABLE = """
CREATE TABLE IF NOT EXISTS fourgates.schema_migrations
(version UInt32, name String, digest String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
ENGINE = ReplacingMergeTree ORDER BY version
"""
_APPLIED = """
INSERT INTO fourgates.schema_migrations (version, name, digest) SELECT {version:UInt32}, {name:String}, {digest:String}
"""


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    name: str
    sql: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def statements(self) -> list[str]:
        """The file's statements: each ends with a semicolon at the end of a line."""
        parts = [part.strip() for part in re.split(r";\s*\n", self.sql + "\n")]
        return [part for part in parts if re.sub(r"--[^\n]*", "", part).strip()]


def migrations_in(folder: Path) -> list[Migration]:
    """The folder's migrations in order. Raises ConfigurationError where a number is missing or given twice."""
    found = [
        Migration(int(match[1]), path.name, path.read_text(encoding="utf-8"))
        for path in sorted(folder.glob("*.sql"))
        if (match := _NAME.fullmatch(path.name))
    ]
    if not found or [m.version for m in found] != list(range(1, len(found) + 1)):
        raise ConfigurationError(f"{folder}: migrations must be NNN_name.sql, numbered from 001 without a gap")
    return found


def migrate(store: Store, migrations: list[Migration]) -> None:
    """Applies what is missing. Two sinks may do so at once: every statement can be repeated.

    Raises ConfigurationError where the database is newer than this code, or was made by another text of the same number.
    """
    store.command("CREATE DATABASE IF NOT EXISTS fourgates")
    store.command(_TABLE)
    applied = {
        row["version"]: row["digest"] for row in store.query("SELECT version, digest FROM fourgates.schema_migrations FINAL")
    }
    newest = max(applied, default=0)
    if newest > len(migrations):
        raise ConfigurationError(
            f"the audit store has schema version {newest}, this fourgates knows {len(migrations)}: start a newer fourgates"
        )
    for migration in migrations:
        known = applied.get(migration.version)
        if known is None:
            _apply(store, migration)
        elif known != migration.digest:
            raise ConfigurationError(
                f"{migration.name} differs from what made this audit store; migrations only go forward: add a new number"
            )


def _apply(store: Store, migration: Migration) -> None:
    for statement in migration.statements:
        store.command(statement)
    store.command(_APPLIED, {"version": migration.version, "name": migration.name, "digest": migration.digest})
