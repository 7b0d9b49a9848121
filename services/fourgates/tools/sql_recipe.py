"""A downstream of one's own in SQL that cannot act twice: the key, the effect and its result are one transaction.

Whoever sends a key again gets the first result; a lower fence than was seen is refused; who asks for a key that never came makes
that so for good. Works on any PEP 249 connection that begins transactions by itself and knows `ON CONFLICT`, `RETURNING` and
savepoints (SQLite from 3.35, PostgreSQL).
"""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Protocol

from fourgates.catalog import Committed, NotExecuted, Probed, ProbeVerdict, ToolContext
from fourgates.contract.errors import ConfigurationError


class Connection(Protocol):
    """What is used of a PEP 249 connection."""

    def cursor(self) -> Any: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


Effect = Callable[[Any], Committed | NotExecuted]
"""`effect(connection)`: does what is to be done in the open transaction, and neither commits nor rolls back."""

OPEN, DONE, BARRED = "open", "done", "barred"
_CREATE = (
    "CREATE TABLE IF NOT EXISTS ONCE (key TEXT PRIMARY KEY, fence BIGINT NOT NULL, "
    "state TEXT NOT NULL CHECK (state IN ('open', 'done', 'barred')), result TEXT, at_ms BIGINT NOT NULL)"
)
_TAKE = (
    "INSERT INTO ONCE (key, fence, state, at_ms) VALUES (?, ?, 'open', ?) ON CONFLICT (key) DO UPDATE "
    "SET fence = CASE WHEN excluded.fence > ONCE.fence THEN excluded.fence ELSE ONCE.fence END RETURNING state, fence, result"
)
_FINISH = "UPDATE ONCE SET state = 'done', result = ? WHERE key = ?"
_BAR = "UPDATE ONCE SET state = 'barred' WHERE key = ?"
_FORGET = "DELETE FROM ONCE WHERE at_ms < ?"
"""ONCE stands for the table, ? for the driver's placeholder."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Once:
    """The recipe over `connect`, which makes a fresh connection for each call; `placeholder` is the driver's (`?`, `%s`).

    As a tool: `run` is `once.run(ctx, effect)`, `probe` is `once.probe(ctx)`, and the contract may say `honours_key=True`. Rows
    must be kept as long as calls can come again: see `forget`.
    """

    def __init__(self, connect: Callable[[], Connection], *, table: str = "fourgates_once", placeholder: str = "?") -> None:
        if not _NAME.fullmatch(table):
            raise ConfigurationError(f"table {table!r}: write lower-case letters, digits and _")
        self._connect, self._table, self._mark = connect, table, placeholder

    def create(self) -> None:
        """Makes the table where it is missing."""
        with self._transaction(None) as db:
            self._execute(db.cursor(), _CREATE)
            db.commit()

    def run(self, ctx: ToolContext, effect: Effect) -> Committed | NotExecuted:
        """The effect with its key in one transaction, or the first result again. Whatever it raises leaves nothing behind.

        An error while committing is raised too: then only `probe` knows.
        """
        with self._transaction(ctx) as db:
            state, fence, result = self._taken(db, ctx)
            if state == DONE:
                return _told(result)
            if state == BARRED:
                return NotExecuted("barred", "This call was given up before it ran.")
            if fence > ctx.fence:
                return NotExecuted("fenced", "A newer attempt of this call took over.")
            cursor = db.cursor()
            cursor.execute("SAVEPOINT fourgates_effect")
            answer = effect(db)
            if getattr(db, "in_transaction", True) is False:
                raise RuntimeError("the effect ended the transaction, so it and its key were not one")
            if isinstance(answer, Committed):
                text = json.dumps({"content": answer.content, "change": dict(answer.state_change)}, allow_nan=False)
                self._execute(cursor, _FINISH, text, ctx.key)
            elif isinstance(answer, NotExecuted):
                cursor.execute("ROLLBACK TO SAVEPOINT fourgates_effect")  # the fence stays: an older attempt is refused
            else:
                raise TypeError(f"the effect gave {type(answer).__name__}; it says Committed or NotExecuted")
            db.commit()
            return answer

    def probe(self, ctx: ToolContext) -> Probed:
        """Committed with the result; or never, and from then on the key is refused. Unknown while a newer attempt has it."""
        with self._transaction(ctx) as db:
            state, fence, result = self._taken(db, ctx)
            if state == DONE:
                told = _told(result)
                return Probed(ProbeVerdict.COMMITTED, told.content, told.state_change)
            if state == OPEN and fence > ctx.fence:
                return Probed(ProbeVerdict.UNKNOWN)
            self._execute(db.cursor(), _BAR, ctx.key)
            db.commit()
            return Probed(ProbeVerdict.NEVER)

    def forget(self, older_than_days: int) -> int:
        """Removes rows that no call can ask for any more: older than horizon and longest wait together. How many."""
        with self._transaction(None) as db:
            cursor = db.cursor()
            before = int((time.time() - older_than_days * 86_400) * 1000)
            self._execute(cursor, _FORGET, before)
            db.commit()
            return int(cursor.rowcount)

    def _taken(self, db: Connection, ctx: ToolContext) -> tuple[str, int, str | None]:
        """(state, highest fence, result) of the key, locked until the transaction ends: its first statement is a write."""
        cursor, now = db.cursor(), int(time.time() * 1000)
        self._execute(cursor, _TAKE, ctx.key, ctx.fence, now)
        state, fence, result = cursor.fetchone()
        return str(state), int(fence), result

    def _execute(self, cursor: Any, sql: str, *values: Any) -> None:
        cursor.execute(sql.replace("ONCE", self._table).replace("?", self._mark), values)

    @contextlib.contextmanager
    def _transaction(self, ctx: ToolContext | None) -> Iterator[Connection]:
        """A connection whose transaction is rolled back unless the body commits; interrupted when the attempt should stop."""
        with closing(self._connect()) as db:
            own = db.isolation_level is None if isinstance(db, sqlite3.Connection) else getattr(db, "autocommit", False) is True
            if own:
                raise ConfigurationError("the connection commits each statement by itself: key and effect would not be one")
            end = getattr(db, "interrupt", None) or getattr(db, "cancel", None)
            with ctx.stopping.calling(end) if ctx is not None and end is not None else contextlib.nullcontext():
                try:
                    yield db
                finally:
                    db.rollback()  # after a commit there is nothing left to roll back


def _told(result: str | None) -> Committed:
    found: Mapping[str, Any] = json.loads(result or "{}")
    return Committed(found.get("content"), found.get("change", {}))
