"""Reading clients: each query is checked, then run by a client that is read-only by the engine, in a thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fourgates.audit.settings import ReadLimits
from fourgates.audit.statement import Gatekeeper, StatementRefused
from fourgates.audit.store import Client, Connect, reading_client

_NORMALISE = "SELECT formatQuerySingleLine({statement:String})"
_TABLE_FUNCTIONS = "SELECT name FROM system.table_functions"
_FORMAT = re.compile(r"[A-Za-z0-9]{1,40}")


class TooManyQueries(Exception):
    """All readers are busy and as many queries wait as may."""


class Reader:
    """One reading client with its gatekeeper."""

    def __init__(self, client: Client, limits: ReadLimits) -> None:
        self._client, self._limits = client, limits
        names = client.query(_TABLE_FUNCTIONS).result_columns
        self._gatekeeper = Gatekeeper(self._normalise, frozenset(names[0]))

    def run(self, sql: str, output_format: str, parameters: Mapping[str, Any]) -> bytes:
        """The result in the statement's own format, else in `output_format`. Raises StatementRefused or the engine's error."""
        if len(sql.encode()) > self._limits.query_bytes:
            raise StatementRefused(f"the statement is longer than {self._limits.query_bytes} bytes")
        if not _FORMAT.fullmatch(output_format):
            raise StatementRefused("the format's name is not one")
        statement = self._gatekeeper.check(sql)
        fmt = None if statement.formatted else output_format
        result: bytes = self._client.raw_query(statement.sql, parameters=dict(parameters), fmt=fmt)
        return result

    def close(self) -> None:
        self._client.close()

    def _normalise(self, sql: str) -> str:
        return str(self._client.query(_NORMALISE, parameters={"statement": sql}).result_rows[0][0])


class Readers:
    """A fixed number of readers; a bounded number of queries may wait for one."""

    def __init__(self, readers: Sequence[Reader], waiting: int) -> None:
        self._all = tuple(readers)
        self._free: asyncio.LifoQueue[Reader] = asyncio.LifoQueue()
        for reader in readers:
            self._free.put_nowait(reader)
        self._may_wait = waiting

    @classmethod
    def open(cls, connect: Connect, count: int, waiting: int, limits: ReadLimits) -> Readers:
        return cls([Reader(reading_client(connect, limits), limits) for _ in range(count)], waiting)

    async def run(self, sql: str, output_format: str, parameters: Mapping[str, Any]) -> bytes:
        """As `Reader.run`, on the next free reader. Raises TooManyQueries where the line is full."""
        if self._free.empty():
            if self._may_wait <= 0:
                raise TooManyQueries
            self._may_wait -= 1
            try:
                reader = await self._free.get()
            finally:
                self._may_wait += 1
        else:
            reader = self._free.get_nowait()
        work = asyncio.ensure_future(asyncio.to_thread(reader.run, sql, output_format, parameters))
        work.add_done_callback(lambda done: self._give_back(reader, done))  # also after the asker has gone away
        return await asyncio.shield(work)

    def _give_back(self, reader: Reader, done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            done.exception()  # seen: who asked may be gone
        self._free.put_nowait(reader)

    async def close(self) -> None:
        """Waits for queries under way, which their own time limit ends."""
        for _ in self._all:
            reader = await self._free.get()
            await asyncio.to_thread(reader.close)
