"""The SQL recipe: key and effect are one transaction, whoever crashes, races or comes late."""

from __future__ import annotations

import dataclasses
import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fourgates.catalog import Committed, NotExecuted, Probed, ProbeVerdict, Stopping, ToolContext, invoke
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.sql_recipe import Once
from support.samples import PRINCIPAL


class Books:
    """An account in SQLite, debited through the recipe."""

    def __init__(self, path: Path, factory: Any = sqlite3.Connection) -> None:
        self.path = path
        self.once = Once(lambda: sqlite3.connect(path, timeout=30, factory=factory))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE IF NOT EXISTS debits (cents INTEGER)")

    def debit(self, ctx: ToolContext, cents: int = 5) -> Committed | NotExecuted:
        def effect(db: sqlite3.Connection) -> Committed | NotExecuted:
            db.execute("INSERT INTO debits VALUES (?)", (cents,))
            count = db.execute("SELECT count(*) FROM debits").fetchone()[0]
            return NotExecuted("too_much", "Too much.") if cents > 100 else Committed({"number": count}, {"debits": count})

        return self.once.run(ctx, effect)

    def count(self) -> int:
        with closing(sqlite3.connect(self.path, timeout=30)) as db:
            return int(db.execute("SELECT count(*) FROM debits").fetchone()[0])


def context(key: str = "k", fence: int = 1) -> ToolContext:
    return ToolContext(key, fence, 0, PRINCIPAL, stopping=Stopping())


@pytest.fixture
def books(tmp_path: Path) -> Books:
    made = Books(tmp_path / "books.sqlite")
    made.once.create()
    made.once.create()
    return made


def test_the_same_key_has_one_effect_and_its_first_result(books: Books) -> None:
    """E12, E1"""
    first = books.debit(context())
    assert first == Committed({"number": 1}, {"debits": 1})
    assert books.debit(context(), cents=7) == first
    assert books.debit(context(fence=9)) == first
    assert books.debit(context(fence=0)) == first
    assert books.count() == 1
    assert books.debit(context("other")) == Committed({"number": 2}, {"debits": 2})


def test_a_lower_fence_than_was_seen_is_refused(books: Books) -> None:
    """E12, E5: a zombie wakes up after the next owner found that nothing could be done."""
    assert books.debit(context(fence=7), cents=500) == NotExecuted("too_much", "Too much.")
    late = books.debit(context(fence=6))
    assert isinstance(late, NotExecuted) and late.reason == "fenced"
    assert books.count() == 0
    assert isinstance(books.debit(context(fence=7)), Committed)


def test_what_the_effect_refuses_or_breaks_leaves_nothing(books: Books) -> None:
    """E12, E6"""

    def breaks(db: sqlite3.Connection) -> Committed:
        db.execute("INSERT INTO debits VALUES (1)")
        raise OSError("gone")

    def says_nothing(db: sqlite3.Connection) -> Any:
        db.execute("INSERT INTO debits VALUES (1)")

    for effect, fault in ((breaks, OSError), (says_nothing, TypeError)):
        with pytest.raises(fault):
            books.once.run(context(), effect)
        assert books.count() == 0
    assert isinstance(books.debit(context()), Committed)


def test_an_effect_that_commits_by_itself_is_found_out(books: Books) -> None:
    """E12"""

    def hasty(db: sqlite3.Connection) -> Committed:
        db.execute("INSERT INTO debits VALUES (1)")
        db.commit()
        return Committed()

    with pytest.raises(RuntimeError, match="ended the transaction"):
        books.once.run(context(), hasty)


def test_a_probe_knows_and_what_never_came_can_never_come(books: Books) -> None:
    """E12, E6: committed with the result; never, and the key is refused from then on."""
    books.debit(context("done"))
    assert books.once.probe(context("done")) == Probed(ProbeVerdict.COMMITTED, {"number": 1}, {"debits": 1})
    assert books.once.probe(context("never")).verdict is ProbeVerdict.NEVER
    assert books.once.probe(context("never")).verdict is ProbeVerdict.NEVER
    late = books.debit(context("never", fence=99))
    assert isinstance(late, NotExecuted) and late.reason == "barred"
    assert books.count() == 1


def test_a_probe_of_an_old_claim_does_not_bar_the_new_one(books: Books) -> None:
    """E5"""
    books.debit(context(fence=7), cents=500)
    assert books.once.probe(context(fence=6)).verdict is ProbeVerdict.UNKNOWN
    assert isinstance(books.debit(context(fence=7)), Committed)


def test_a_connection_that_commits_by_itself_is_refused(tmp_path: Path) -> None:
    """E12"""
    with pytest.raises(ConfigurationError, match="by itself"):
        Once(lambda: sqlite3.connect(tmp_path / "x", isolation_level=None)).create()
    with pytest.raises(ConfigurationError, match="table"):
        Once(lambda: sqlite3.connect(tmp_path / "x"), table="a; DROP TABLE b")


class Other:
    """A connection of another driver: `%s` for values, an isolation level that is None by default, begins by itself."""

    def __init__(self, path: Path, *, autocommit: bool = False) -> None:
        self._db = sqlite3.connect(path, timeout=30)
        self.isolation_level, self.autocommit, self.cancelled = None, autocommit, False

    def cursor(self) -> Any:
        own = self._db.cursor()

        class Cursor:
            rowcount = property(lambda self: own.rowcount)
            fetchone = own.fetchone

            def execute(self, sql: str, values: tuple[Any, ...] = ()) -> None:
                assert "?" not in sql
                own.execute(sql.replace("%s", "?"), values)

        return Cursor()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def test_another_drivers_placeholders_and_defaults_fit(tmp_path: Path) -> None:
    """E12"""
    once = Once(lambda: Other(tmp_path / "x"), placeholder="%s")
    once.create()
    assert once.run(context(), lambda db: Committed(1)) == Committed(1)
    assert once.run(context(), lambda db: Committed(2)) == Committed(1)
    assert once.probe(context("never")).verdict is ProbeVerdict.NEVER
    with pytest.raises(ConfigurationError, match="by itself"):
        Once(lambda: Other(tmp_path / "x", autocommit=True)).create()


def test_rows_are_forgotten_when_no_call_can_ask_for_them(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    books.debit(context())
    assert books.once.forget(37) == 0
    now = time.time()
    monkeypatch.setattr("fourgates.tools.sql_recipe.time.time", lambda: now + 40 * 86_400)
    assert books.once.forget(37) == 1


STEPS = 12
"""More than there are statements and ends of transactions in a run or a probe."""


def dying(step: int) -> type[sqlite3.Connection]:
    """A connection whose process is killed right before its step with that number: a statement, a commit, or what follows."""
    left = [step]

    def next_step() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    class Cursor(sqlite3.Cursor):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            next_step()
            return super().execute(*args)

    class Dying(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, *args: Any) -> sqlite3.Cursor:
            next_step()
            return super().execute(*args)

        def commit(self) -> None:
            next_step()
            super().commit()
            next_step()

    return Dying


def killed(act: Callable[[], object]) -> bool:
    """Runs it in a process of its own; True where it was killed."""
    if (pid := os.fork()) == 0:
        try:
            act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("after", ["run", "probe"])
@pytest.mark.parametrize("first", ["run", "probe"])
def test_killed_between_any_two_statements_there_is_one_effect_or_none(books: Books, first: str, after: str) -> None:
    """E12, E5: and what comes next always knows which."""
    died = 0
    for step in range(STEPS):
        key, before = f"k{step}", books.count()
        other = Books(books.path, dying(step))
        died += killed(
            lambda other=other, key=key: other.debit(context(key)) if first == "run" else other.once.probe(context(key))
        )
        happened = books.count() - before
        if after == "run":
            answer = books.debit(context(key, fence=2))
            assert isinstance(answer, Committed) or (first == "probe" and answer.reason == "barred")
            assert books.count() - before == isinstance(answer, Committed)
        else:
            verdict = books.once.probe(context(key, fence=2)).verdict
            assert verdict is (ProbeVerdict.COMMITTED if happened else ProbeVerdict.NEVER)
            again = books.debit(context(key, fence=3))
            assert isinstance(again, Committed) is bool(happened)
            assert books.count() - before == happened
    assert 3 <= died < STEPS, "steps of the recipe were met, and its end too"


def test_many_senders_at_once_have_one_effect_a_key(books: Books) -> None:
    """E12, E1: threads and processes, with probes among them."""
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    keys = [f"k{number % 8}" for number in range(64)]
    rng.shuffle(keys)
    children = []
    for share in (keys[:16], keys[16:32]):
        if (pid := os.fork()) == 0:
            try:
                for key in share:
                    books.debit(context(key))
            finally:
                os._exit(0)
        children.append(pid)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda key: (key, books.debit(context(key))), keys[32:]))
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
    told: dict[str, set[str]] = {}
    for key, answer in answers:
        told.setdefault(key, set()).add(repr(answer))
    assert books.count() == 8
    assert all(len(said) == 1 and "Committed" in next(iter(said)) for said in told.values())

    def either(number: int) -> tuple[str, bool]:
        key = f"race{number // 2}"
        if number % 2:
            return key, books.once.probe(context(key)).verdict is ProbeVerdict.COMMITTED
        return key, isinstance(books.debit(context(key)), Committed)

    with ThreadPoolExecutor(8) as pool:
        outcomes = dict.fromkeys(list(pool.map(either, range(40))))
    assert books.count() - 8 == len({key for key, happened in outcomes if happened})


async def test_a_statement_that_takes_too_long_is_interrupted_and_rolled_back(books: Books) -> None:
    """E7"""
    began = threading.Event()

    def endless(db: sqlite3.Connection) -> Committed:
        db.execute("INSERT INTO debits VALUES (1)")
        began.set()
        db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n").fetchall()
        return Committed()

    def tool(args: object, ctx: ToolContext) -> Committed | NotExecuted:
        return books.once.run(ctx, endless)

    with pytest.raises(TimeoutError):
        await invoke(tool, {}, context(), timeout=0.3)
    assert began.is_set() and books.count() == 0
    assert books.once.probe(dataclasses.replace(context(), stopping=Stopping())).verdict is ProbeVerdict.NEVER
