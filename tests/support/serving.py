"""An ASGI app on a loopback port, in this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app's address. Its lifespan is the caller's, and ends first: streams have no end of their own."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = _Server(config)
    serving = asyncio.create_task(server.serve())
    up = asyncio.create_task(server.up.wait())
    await asyncio.wait({serving, up}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        up.cancel()
        await serving
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
