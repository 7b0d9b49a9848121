"""A connection to one MCP server, over stdio or streamable HTTP: opened when it is needed, opened again when it broke."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import anyio
import httpx2
import mcp_types
from mcp import Client, ClientSession, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from fourgates.contract.canonical import digest
from fourgates.contract.errors import ConfigurationError, Transient

CONNECT_SECONDS: Final = 20.0
CLOSE_SECONDS: Final = 10.0
"""The SDK closes stdin, waits, terminates and kills; all of it ends by then."""
_PAGES: Final = 100
_Opening = Callable[[], contextlib.AbstractAsyncContextManager[Any]]


class McpServer:
    """Build it by `stdio` or `http`. One object for all tools of a server; each event loop has a connection of its own."""

    def __init__(self, target: str, opening: _Opening) -> None:
        self.target, self._opening = target, opening
        self._held: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Connection] = weakref.WeakKeyDictionary()

    @classmethod
    def stdio(
        cls,
        argv: tuple[str, ...],
        *,
        environment: Mapping[str, str] | None = None,
        secrets: Callable[[], Mapping[str, str]] | None = None,
        folder: Path | None = None,
    ) -> McpServer:
        """A server that runs as a process of the executor's, with this environment, PATH and HOME, and nothing else of it.

        `secrets` are more of its environment, asked for at each start and no part of the tool's version. It is ended with the
        executor, also where that is killed. Commands of one's own are better held in: see CommandTool.
        """
        if not argv:
            raise ConfigurationError("an MCP server over stdio needs a command line")
        # The kernel ends it with its parent: after kill -9 nobody would close its stdin in order.
        bound = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        command, *args = [*bound, *argv]
        given = {"LOGNAME": "", "SHELL": "", "TERM": "", "USER": "", **(environment or {})}

        def opening() -> contextlib.AbstractAsyncContextManager[Any]:
            env = given if secrets is None else {**given, **secrets()}
            return _over_stdio(StdioServerParameters(command=command, args=args, env=env, cwd=folder))

        words = [list(argv), dict(environment or {}), str(folder or "")]
        return cls(f"stdio:{argv[0]}#{digest(words)[:32]}", opening)

    @classmethod
    def http(cls, url: str, *, authorization: Callable[[], str] | None = None) -> McpServer:
        """A server at a URL. `authorization` gives the header's value for each request."""
        if httpx2.URL(url).scheme not in ("http", "https"):
            raise ConfigurationError(f"MCP server {url!r}: write a URL such as https://tools.example/mcp")
        return cls(f"http:{url}", lambda: _over_http(url, authorization))

    async def definition(self, tool: str, recent: float = 0.0) -> dict[str, Any] | None:
        """What the server says of that tool now, or said `recent` seconds ago; None where it has no such tool.

        Raises Transient where it is away.
        """
        return (await (await self._connected()).definitions(recent)).get(tool)

    async def call(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> mcp_types.CallToolResult:
        """One tools/call; cancelled, the server is told so. Raises MCPError and what the SDK raises for an unreadable answer.

        Only on the connection on which `definition` was asked: raises Transient, with nothing sent, where it is gone.
        """
        connection = self._held.get(asyncio.get_running_loop())
        if connection is None or not connection.alive:
            raise Transient("the MCP server is away")
        try:
            return await connection.session.call_tool(tool, arguments, meta=cast(mcp_types.RequestParamsMeta, meta))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as fault:
            connection.lost()
            raise MCPError(mcp_types.CONNECTION_CLOSED, "the connection broke") from fault
        except MCPError as fault:
            if fault.code == mcp_types.CONNECTION_CLOSED:
                connection.lost()
            raise

    async def close(self) -> None:
        """Ends the connection of this loop, and the process where there is one."""
        connection = self._held.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection.close()

    async def _connected(self) -> _Connection:
        loop = asyncio.get_running_loop()
        connection = self._held.get(loop)
        if connection is None or not connection.alive:
            connection = self._held[loop] = _Connection(self._opening)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.shield(connection.opened)
        except TimeoutError as fault:
            await connection.close()
            raise Transient("the MCP server does not answer") from fault
        return connection


@dataclass(slots=True, eq=False)
class _Connection:
    """One task opens, holds and closes it: the SDK's scopes belong to one task."""

    opening: _Opening
    opened: asyncio.Future[None] = field(init=False)
    session: ClientSession = field(init=False)
    _closing: asyncio.Event = field(default_factory=asyncio.Event)
    _holding: asyncio.Task[None] = field(init=False)
    _said: dict[str, dict[str, Any]] = field(default_factory=dict)
    _said_at: float | None = None
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.opened = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._holding = asyncio.create_task(self._hold())

    @property
    def alive(self) -> bool:
        return not self._closing.is_set() and not self._holding.done()

    async def definitions(self, recent: float) -> dict[str, dict[str, Any]]:
        """Every tool as the server describes it, asked again when that is old or the server said that it changed."""
        since = time.monotonic() - recent
        async with self._asking:  # who waits here is served by what was asked for after he came
            if self._said_at is None or self._said_at < since:
                asked = time.monotonic()
                try:
                    self._said = await self._ask()
                except asyncio.CancelledError:
                    raise
                except Exception as fault:
                    self._closing.set()
                    raise Transient(f"the MCP server does not list its tools ({type(fault).__name__})") from fault
                self._said_at = asked
            return self._said

    async def close(self) -> None:
        self._closing.set()
        if not self.opened.done():  # it still waits for the server's first word
            self._holding.cancel()
        await asyncio.wait({self._holding}, timeout=CLOSE_SECONDS)

    def lost(self) -> None:
        """It broke; the next who needs it opens another one."""
        self._closing.set()

    async def _ask(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self.session.list_tools(params=mcp_types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                found[tool.name] = tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"meta"})
            if not (cursor := page.next_cursor):
                return found
        raise ValueError("too many pages")

    async def _hold(self) -> None:
        try:
            async with Client(self.opening(), message_handler=self._heard, cache=None) as client:
                self.session = client.session
                self.opened.set_result(None)
                await self._closing.wait()
        except asyncio.CancelledError:
            raise
        except BaseException as fault:  # a group of faults where several of the SDK's tasks broke
            if not self.opened.done():
                self.opened.set_exception(Transient(f"the MCP server cannot be reached ({type(fault).__name__})"))
        finally:
            self._closing.set()

    async def _heard(self, message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._said_at = None


@contextlib.asynccontextmanager
async def _over_stdio(parameters: StdioServerParameters) -> AsyncIterator[Any]:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: ASYNC230, PTH123  # what a server mutters is not for our log
        async with stdio_client(parameters, errlog=nowhere) as streams:
            yield streams


@contextlib.asynccontextmanager
async def _over_http(url: str, authorization: Callable[[], str] | None) -> AsyncIterator[Any]:
    auth = None if authorization is None else _Authorization(authorization)
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS)
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=timeout, auth=auth) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


class _Authorization(httpx2.Auth):
    def __init__(self, value: Callable[[], str]) -> None:
        self._value = value

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = self._value()
        yield request
