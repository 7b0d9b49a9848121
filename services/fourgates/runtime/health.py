"""What a process tells its surroundings over HTTP: /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.metrics import Metrics

_CLOSE_SECONDS = 2.0


@dataclass(slots=True)
class Health:
    """How a process is. Both texts are for operators; empty means well."""

    ill: str = ""
    """Why it should be ended and started anew."""
    not_ready: str = "starting"
    """Why it should get no work yet."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """The worker has the process's signals."""
        yield


class HealthServer:
    """Answers until it is closed. Start it before the work, so that an orchestrator sees a slow start as one."""

    def __init__(self, health: Health, metrics: Metrics, host: str, port: int) -> None:
        self._health, self._metrics, self._address = health, metrics, (host, port)
        self._serving: asyncio.Task[None] | None = None
        self.url = ""
        """Where it answers; the port is known once it has started."""

    async def start(self) -> None:
        """Raises ConfigurationError where the address is taken."""
        host, port = self._address
        try:
            listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as fault:
            raise ConfigurationError(f"The health endpoint cannot listen on {host}:{port}: {fault.strerror}.") from None
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
        routes = [Route("/healthz", self._healthz), Route("/readyz", self._readyz), Route("/metrics", self._shown)]
        config = uvicorn.Config(Starlette(routes=routes), lifespan="off", log_config=None, access_log=False, ws="none")
        self._server = _Server(config)
        self._serving = asyncio.create_task(self._server.serve([listener]))

    async def close(self) -> None:
        if self._serving is not None:
            self._server.should_exit = True
            await asyncio.wait((self._serving,), timeout=_CLOSE_SECONDS)
            self._serving.cancel()

    async def _healthz(self, request: Request) -> Response:
        return _told(self._health.ill)

    async def _readyz(self, request: Request) -> Response:
        return _told(self._health.ill or self._health.not_ready)

    async def _shown(self, request: Request) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")


def _told(trouble: str) -> Response:
    return PlainTextResponse(f"{trouble or 'ok'}\n", status_code=503 if trouble else 200)
