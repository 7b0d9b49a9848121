"""The store's schema over its life: made at start, left alone afterwards, refused where it is newer or other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fourgates.audit.build import open_store
from fourgates.audit.settings import StoreSettings
from fourgates.audit.store import connector
from fourgates.contract.errors import ConfigurationError
from support.auditing import DDL, engine_in, row_maker
from support.stories import Tape, good_stories

pytestmark = pytest.mark.engine


def test_the_schema_is_made_once_and_the_rows_stay(tmp_path: Path) -> None:
    """L2."""
    tape = Tape()
    good_stories(tape)
    with engine_in(tmp_path) as engine:
        engine.take(tape.received)
        applied = engine.ask("SELECT version, name FROM fourgates.schema_migrations ORDER BY version")
        assert [row["name"] for row in applied] == sorted(path.name for path in DDL.glob("*.sql"))
    with engine_in(tmp_path) as engine:
        assert engine.one("SELECT count() FROM fourgates.records") == len(tape.received)
        assert engine.one("SELECT count() FROM fourgates.schema_migrations") == len(applied)


def test_a_database_that_is_newer_or_other_than_the_code_is_refused(tmp_path: Path) -> None:
    """L1: an older sink must not write into a schema that it does not know."""
    folder, ddl = tmp_path / "data", tmp_path / "ddl"
    shutil.copytree(DDL, ddl)
    with engine_in(folder) as engine:
        engine.store.command("INSERT INTO fourgates.schema_migrations (version, name, digest) VALUES (99, '099_later.sql', 'x')")
    with pytest.raises(ConfigurationError, match="schema version 99"):
        open_store(StoreSettings(folder=folder), ddl)
    other = tmp_path / "other"
    with engine_in(other):
        pass
    first = next(iter(sorted(ddl.glob("001_*.sql"))))
    first.write_text(first.read_text() + "\n-- changed afterwards\n")
    with pytest.raises(ConfigurationError, match="only go forward"):
        open_store(StoreSettings(folder=other), ddl)


def test_a_migration_that_was_interrupted_is_taken_up_again(tmp_path: Path) -> None:
    """L2: every statement can be repeated."""
    ddl = tmp_path / "ddl"
    shutil.copytree(DDL, ddl)
    number = len(list(ddl.glob("*.sql"))) + 1
    half = ddl / f"{number:03}_half.sql"
    half.write_text(
        "CREATE TABLE IF NOT EXISTS fourgates.half (a Int32) ENGINE = MergeTree ORDER BY a;\nSELECT no_such_column;\n"
    )
    with pytest.raises(Exception, match="no_such_column"):
        open_store(StoreSettings(folder=tmp_path / "data"), ddl)
    half.write_text("CREATE TABLE IF NOT EXISTS fourgates.half (a Int32) ENGINE = MergeTree ORDER BY a;\n")
    store, _ = open_store(StoreSettings(folder=tmp_path / "data"), ddl)
    try:
        assert store.query("SELECT max(version) AS newest FROM fourgates.schema_migrations") == [{"newest": number}]
    finally:
        store.close()


def test_a_store_that_was_filled_before_it_is_rolled_up_when_it_is_made(tmp_path: Path) -> None:
    """L2, L4."""
    before, folder = tmp_path / "before", tmp_path / "data"
    before.mkdir()
    for file in sorted(DDL.glob("*.sql"))[:4]:
        shutil.copy(file, before)
    tape, maker = Tape(), row_maker()
    good_stories(tape)
    store, _ = open_store(StoreSettings(folder=folder), before)
    store.insert([maker.row(one) for one in tape.received])
    store.close()
    store, _ = open_store(StoreSettings(folder=folder), DDL)
    try:
        assert store.query("SELECT count() AS n FROM fourgates.records") == [{"n": len(tape.received)}]
        assert store.query("SELECT count() AS n, sum(claims) AS claims FROM fourgates.call_facts") == [{"n": 6, "claims": 3}]
    finally:
        store.close()


@pytest.mark.parametrize("settings", [StoreSettings(), StoreSettings(url="http://localhost:8123", folder=Path("x"))])
def test_a_store_is_a_server_or_a_folder_and_not_both(settings: StoreSettings) -> None:
    """L1."""
    with pytest.raises(ConfigurationError, match="either the URL"):
        connector(settings)
