"""HTTP servers inside a process that has signals and a lifetime of its own."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from fourgates.cli.settings import PREFIX, Address
from fourgates.cli.world import Base
from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.health import Health, HealthServer

_LINGER_SECONDS = 2
"""How long answers under way may take at the end."""


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its process and says when it listens."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(
            app, lifespan="off", ws="none", log_config=None, access_log=False, server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=_LINGER_SECONDS,
        ))  # fmt: skip
        self.listening = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


@asynccontextmanager
async def serving(app: ASGIApp, setting: str, address: str) -> AsyncIterator[str]:
    """Serves `app` at `address` and yields its URL. Its lifespan is the caller's. ConfigurationError names the setting."""
    where = Address.parse(setting, address)
    listening = bound(setting, where)
    server = _Server(app)
    running = asyncio.create_task(server.serve([listening]))
    try:
        await server.listening.wait()
        yield where.model_copy(update={"port": listening.getsockname()[1]}).url
    finally:
        server.should_exit = True
        await running


def bound(setting: str, where: Address) -> socket.socket:
    """A socket bound to the address. Raises ConfigurationError where that cannot be."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((where.host, where.port))
    except OSError as fault:
        listening.close()
        taken = fault.errno == errno.EADDRINUSE
        why = "another process listens there; choose another port" if taken else f"this machine cannot listen there ({fault})"
        raise ConfigurationError(f"{setting}: {where.host}:{where.port}: {why}") from None
    return listening


@asynccontextmanager
async def telling_health(base: Base, health: Health) -> AsyncIterator[None]:
    """Answers /healthz, /readyz and /metrics at FOURGATES_HEALTH meanwhile."""
    where = Address.parse(f"{PREFIX}HEALTH", base.settings.health)
    server = HealthServer(health, base.metrics, where.host, where.port)
    await server.start()
    try:
        yield
    finally:
        await server.close()
