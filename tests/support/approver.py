"""The approver service on the in-process bus, with people who hold real tokens."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from fourgates.approval.service.app import ServicePorts, build_app
from fourgates.approval.service.openid import Provider
from fourgates.approval.service.settings import DevelopmentUser, ServiceSettings
from fourgates.contract.ports import Publisher
from fourgates.gates.identity import APPROVALS_AUDIENCE, TokenVerifier
from support.approvals import GROUP
from support.samples import PRINCIPAL
from support.waiting import Waiting, keyring

BASE = "http://127.0.0.1:8080"


def token(world: Waiting, name: str, **other: Any) -> str:
    """Somebody's bearer token for the approver."""
    claims: dict[str, Any] = {"tenant": PRINCIPAL.tenant, "groups": [GROUP], "audience": APPROVALS_AUDIENCE} | other
    return keyring().issuer.token(name, now_ms=world.clock.now_ms(), **claims)


def ports_of(
    world: Waiting, publisher: Publisher | None = None, provider: Provider | None = None, tokens: TokenVerifier | None = None
) -> ServicePorts:
    tokens = tokens or TokenVerifier(keyring().issuer.trust(APPROVALS_AUDIENCE))
    return ServicePorts(
        log=world.bus, publisher=publisher or world.publisher("approver"), tokens=tokens, seals=keyring().verifier(),
        clock=world.clock, producer="approver@test:1", provider=provider,
    )  # fmt: skip


@asynccontextmanager
async def approver(
    world: Waiting, publisher: Publisher | None = None, settings: ServiceSettings | None = None, provider: Provider | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    """A running service, as a browser without cookies sees it."""
    users = (DevelopmentUser(name="ben", label="finance"),)
    app = build_app(
        ports_of(world, publisher, provider),
        settings or ServiceSettings(development_users=users),
        lambda name: token(world, name),
    )
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        yield client


async def sign_in(client: httpx.AsyncClient, **form: str) -> httpx.Response:
    """Fills in the sign-in form; the client keeps the session."""
    page = await client.get("/signin")
    return await client.post("/signin", data={"key": hidden(page, "key"), **form})


def hidden(page: httpx.Response, name: str) -> str:
    """A hidden field of a form."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page.text)
    assert found is not None, page.text
    return found.group(1)


class Browser:
    """One person's program: speaks to the API with their token."""

    def __init__(self, client: httpx.AsyncClient, bearer: str) -> None:
        self._client, self._headers = client, {"Authorization": f"Bearer {bearer}"}

    async def get(self, path: str) -> httpx.Response:
        return await self._client.get(path, headers=self._headers)

    async def decide(self, hold_id: str, verdict: str, **body: Any) -> httpx.Response:
        """A decision on what this person sees."""
        if "shown_digest" not in body:
            body["shown_digest"] = (await self.get(f"/api/holds/{hold_id}")).json().get("shown_digest", "0" * 64)
        return await self.post(hold_id, {"verdict": verdict, **body})

    async def post(self, hold_id: str, body: Any) -> httpx.Response:
        kind = {"content": body} if isinstance(body, (str, bytes)) else {"json": body}
        return await self._client.post(f"/api/holds/{hold_id}/decision", headers=self._headers, **kind)
