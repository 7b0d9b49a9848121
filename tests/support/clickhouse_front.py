"""A stand-in for a ClickHouse server: the embedded engine behind ClickHouse's HTTP protocol, inserts included. For tests only."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import clickhouse_connect
import httpx
import lz4.frame
import uvicorn
from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fourgates.cli.local import free_ports
from fourgates.runtime.children import signal_group, spawn
from support.eventually import eventually

_INSERT = re.compile(rb"\s*INSERT INTO (\S+) \((.*?)\) FORMAT Native\n", re.DOTALL)
_TESTS = str(Path(__file__).resolve().parents[1])
_DECODERS = {"lz4": lz4.frame.decompress, "gzip": lambda data: zlib.decompress(data, 31), "": lambda data: data}


class Front:
    """Runs what it is sent on one client of the engine. `away` answers as a server that is going down."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests: list[dict[str, str]] = []
        """The URL parameters of every request so far."""
        self.away = False
        self.full = False
        """Answers inserts as a server whose disk is full."""
        self.app = Starlette(routes=[Route("/", self._answer, methods=["GET", "POST"])])

    async def _answer(self, request: Request) -> Response:
        params = dict(request.query_params)
        self.requests.append(params)
        if self.away:
            return PlainTextResponse("Code: 210. DB::NetException: going down. (NETWORK_ERROR)\n", status_code=503)
        if self.full and params.get("query", "").lstrip().upper().startswith("INSERT"):
            return PlainTextResponse("Code: 243. DB::Exception: Cannot reserve 1.00 MiB (NOT_ENOUGH_SPACE)\n", status_code=500)
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


def server(app: Starlette, port: int) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", lifespan="off"))


@asynccontextmanager
async def serving(front: Front) -> AsyncIterator[str]:
    """The URL of the front while it is up."""
    running = server(front.app, 0)
    task = asyncio.create_task(running.serve())
    await eventually(lambda: running.started)
    try:
        yield f"http://default@127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    finally:
        running.should_exit = True
        await task


class FrontProcess:
    """The front with an engine of its own in a process of its own, to be killed and started again on the same folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        (self.port,) = free_ports(1)

    async def start(self) -> None:
        """Returns once it answers."""
        argv = (sys.executable, "-m", "support.clickhouse_front", str(self._folder / "engine"), str(self.port))
        env = os.environ | {"PYTHONPATH": os.pathsep.join([_TESTS, *sys.path])}
        self._child = spawn(argv, self._folder / "front.log", env=env)
        await eventually(self._answers, 60)

    def kill(self) -> None:
        """As a machine that loses its power, but for the disk."""
        assert self._child is not None
        signal_group(self._child, signal.SIGKILL)
        self._child.wait()

    async def _answers(self) -> bool:
        async with httpx.AsyncClient(trust_env=False) as http:
            try:
                return (await http.get(f"http://127.0.0.1:{self.port}/", params={"query": "SELECT 1"})).is_success
            except httpx.HTTPError:
                return False


def main(folder: str, port: str) -> None:
    """Serves an engine in `folder` until it is killed."""
    client = clickhouse_connect.get_client(interface="chdb", path=folder)
    server(Front(client).app, int(port)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
