"""Puts the approver service together: view, API, pages, and what every answer carries for the browser's protection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.body_limit import RequestBodyLimitMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fourgates.contract.ports import Clock, Log, Publisher, Verifier
from fourgates.gates.approval import proven_by

from .api import BODY_LIMITS, Api
from .deciding import Deciding
from .openid import CodeFlow, Provider
from .pages import Pages
from .rendering import HERE, environment
from .settings import ServiceSettings
from .signin import Doorkeeper, Tokens
from .signin_pages import SigninPages
from .view import ApprovalView

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class ServicePorts:
    """What the service needs of the world."""

    log: Log
    publisher: Publisher
    """Seals with the approver's Ed25519 key."""
    tokens: Tokens
    """Verifies tokens of the audience `fourgates-approvals`."""
    seals: Verifier
    clock: Clock
    producer: str
    provider: Provider | None = None
    """The OpenID provider that people sign in at."""


class BrowserGuard:
    """Protective headers on every answer; a changing request from another origin is refused before anything looks at it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        if scope["method"] not in _SAFE_METHODS and _from_elsewhere(headers):
            await PlainTextResponse("This request came from another site.", 403)(scope, receive, with_headers)
            return
        await self._app(scope, receive, with_headers)


def _from_elsewhere(headers: Headers) -> bool:
    """Browsers name the origin of every changing request; programs do not."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "none")
    return site not in ("none", "same-origin") or (origin is not None and urlsplit(origin).netloc != headers.get("host"))


def build_app(ports: ServicePorts, settings: ServiceSettings, issue: Callable[[str], str] | None = None) -> Starlette:
    """The service as an ASGI app; it reads the log while it runs (lifespan).

    `issue` makes a token for a development user's name; outside development there is none.
    """
    view = ApprovalView(ports.log, proven_by(ports.seals))
    door = Doorkeeper(ports.tokens, ports.clock, settings.session_s, settings.recent_s, issue)
    flow = CodeFlow(ports.provider, ports.clock, settings.recent_s) if ports.provider is not None else None
    env = environment()
    signin = SigninPages(door, flow, settings, env)
    deciding = Deciding(view, ports.publisher, ports.clock, ports.producer, settings.confirm_s)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await view.start()
        yield
        await view.close()

    async def health(request: Request) -> Response:
        return JSONResponse({"ready": view.ready}, 200 if view.ready else 503)

    return Starlette(
        routes=[
            *Api(view, deciding, door, settings).routes(),
            *signin.routes(),
            *Pages(view, deciding, door, signin, settings, env).routes(),
            Route("/health", health),
            Mount("/static", StaticFiles(directory=HERE / "static")),
        ],
        middleware=[
            Middleware(BrowserGuard),
            Middleware(TrustedHostMiddleware, allowed_hosts=settings.hosts, www_redirect=False),
            Middleware(RequestBodyLimitMiddleware, max_body_size=BODY_LIMITS.bytes),
        ],
        lifespan=lifespan,
    )
