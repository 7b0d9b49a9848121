"""Sign-in of a person at this terminal: through the browser to the OpenID provider, back to a port of this machine (RFC 8252)."""

from __future__ import annotations

import asyncio
import os
import secrets
import webbrowser
from collections.abc import Callable
from pathlib import Path

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fourgates.approval.service.openid import BEGUN_MS, Arrived, CodeFlow
from fourgates.cli.approver_process import provider_of
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.people import issue_approver
from fourgates.cli.serving import serving
from fourgates.cli.settings import PREFIX, Settings, has_display
from fourgates.cli.world import Base
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.gates.refusal import Refusal
from fourgates.runtime.clock import SystemClock

_DONE = "You are signed in. Go back to the terminal; this page may be closed."
_NOT_DONE = "That did not sign you in. The terminal says why."


def kept_token(settings: Settings) -> Path:
    """Where a sign-in is kept, readable by its owner alone."""
    return settings.home / "approver-token"


def bearer_of(settings: Settings, user: str | None, file: Path | None) -> str:
    """What this person decides with: `--as`, a token file, FOURGATES_TOKEN, else the sign-in that was kept.

    Raises ConfigurationError, saying how to say who it is.
    """
    if user is not None:
        return issue_approver(settings, Base(settings).keyring, user)
    if file is not None:
        return file.read_text(encoding="utf-8").strip()
    if settings.token is not None:
        return settings.token.get_secret_value()
    try:
        return kept_token(settings).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(
            f"Say who it is: `fourgates approvals login`, --as USER in development, else --token-file or {PREFIX}TOKEN."
        ) from None


def keep(settings: Settings, token: str) -> None:
    """Never readable by others, not for a moment."""
    path = kept_token(settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(token)


async def sign_in(settings: Settings, say: Callable[[str], None]) -> str:
    """An access token of the approvers' audience. Raises ConfigurationError, Fault."""
    openid = settings.service.openid
    if openid is None or not openid.cli_client_id:
        raise ConfigurationError(f"{PREFIX}SERVICE__OPENID: sign-in at a terminal needs ISSUER, CLIENT_ID and CLI_CLIENT_ID, the "
                                 "public client of this command line")  # fmt: skip
    async with httpx.AsyncClient(timeout=10.0, trust_env=False) as http:
        flow = CodeFlow(provider_of(openid, http, openid.cli_client_id), SystemClock(), settings.service.recent_s)
        try:
            arrived = await _through_the_browser(flow, say)
        except Transient as fault:
            raise Fault(f"{fault}; try again in a moment.", BROKEN) from fault
    if isinstance(arrived, Refusal):
        raise Fault(f"This did not sign anybody in ({arrived.reason}).", BROKEN)
    if not arrived.tokens.access_token:
        raise Fault("The provider gave no access token; its client for this command line is not set up for one.", BROKEN)
    return arrived.tokens.access_token


async def _through_the_browser(flow: CodeFlow, say: Callable[[str], None]) -> Arrived | Refusal:
    answered: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def back(request: Request) -> Response:
        if answered.done():
            return PlainTextResponse(_NOT_DONE, 409)
        answered.set_result(dict(request.query_params))
        good = await asyncio.shield(told)
        return PlainTextResponse(_DONE if good else _NOT_DONE)

    binding = secrets.token_urlsafe(32)
    async with serving(Starlette(routes=[Route("/", back)]), "the sign-in's port", "127.0.0.1:0") as here:
        try:
            address = await flow.begin(binding, f"{here}/", "/")
            say(f"Sign in here: {address}")
            # Beside us: a browser in this terminal comes back only after our answer.
            shown = asyncio.create_task(asyncio.to_thread(webbrowser.open, address)) if has_display() else None
            async with asyncio.timeout(BEGUN_MS / 1_000):
                answer = await answered
            arrived = await flow.end(binding, answer)
            told.set_result(isinstance(arrived, Arrived))
            if shown is not None:
                await shown
        except TimeoutError:
            raise Fault("Nobody has signed in within ten minutes.", BROKEN) from None
        finally:
            if not told.done():
                told.set_result(False)
    return arrived
