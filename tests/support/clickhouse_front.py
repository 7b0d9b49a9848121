"""A stand-in for a ClickHouse server: the embedded engine behind ClickHouse's HTTP protocol, inserts included. For tests only."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import lz4.frame
import uvicorn
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from support.eventually import eventually

_INSERT = re.compile(rb"\s*INSERT INTO (\S+) \((.*?)\) FORMAT Native\n", re.DOTALL)
_DECODERS = {"lz4": lz4.frame.decompress, "gzip": lambda data: zlib.decompress(data, 31), "": lambda data: data}


class Front:
    """Runs what it is sent on one client of the engine. `away` answers as a server that is going down."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests: list[dict[str, str]] = []
        """The URL parameters of every request so far."""
        self.away = False
        self.app = Starlette(routes=[Route("/", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        params = dict(request.query_params)
        self.requests.append(params)
        if self.away:
            return PlainTextResponse("Code: 210. DB::NetException: going down. (NETWORK_ERROR)\n", status_code=503)
        body = _DECODERS[request.headers.get("content-encoding", "")](await request.body())
        try:
            return Response(await asyncio.to_thread(self._run, params, body))
        except ClickHouseError as fault:
            return PlainTextResponse(str(fault), status_code=500)

    def _run(self, params: dict[str, str], body: bytes) -> bytes:
        whole = params.get("query", "").encode() + body
        if found := _INSERT.match(whole):
            columns = [name.strip(" `") for name in found[2].decode().split(",")]
            self._client.raw_insert(found[1].decode(), columns, whole[found.end() :], fmt="Native")
            return b""
        bound = {name[6:]: value for name, value in params.items() if name.startswith("param_")}
        return bytes(self._client.raw_query(whole.decode(), parameters=bound))


@asynccontextmanager
async def serving(front: Front) -> AsyncIterator[str]:
    """The URL of the front while it is up."""
    server = uvicorn.Server(uvicorn.Config(front.app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    try:
        yield f"http://default@127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
