"""The shop's side of the payment provider, and the story's hands on its faults."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import httpx


class Payments:
    """HTTP client of the provider. Raises httpx.HTTPError where there was no usable answer: what happened is then unknown."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    async def refund(self, key: str, charge: str, amount_cents: int, reason: str) -> httpx.Response:
        """One attempt under an idempotency key; 503 is the provider's word that nothing was committed."""
        body = {"charge": charge, "amount_cents": amount_cents, "reason": reason}
        return await self._client().post("/refunds", json=body, headers={"Idempotency-Key": key})

    async def refund_of(self, key: str) -> dict[str, Any] | None:
        """What the key did; None where the provider does not know it (yet)."""
        answer = await self._client().get(f"/refunds/{key}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return dict(answer.raise_for_status().json())

    async def remaining(self, charge: str) -> int:
        """Cents of the charge that may still be refunded."""
        return int((await self._client().get(f"/charges/{charge}")).raise_for_status().json()["remaining_cents"])

    async def refunds(self) -> list[dict[str, Any]]:
        """Every committed refund, by the provider's own books."""
        return list((await self._client().get("/refunds")).raise_for_status().json()["refunds"])

    async def requests(self) -> list[dict[str, Any]]:
        """Every refund that was asked for, with what became of the request."""
        return list((await self._client().get("/requests")).raise_for_status().json()["requests"])

    async def ready(self) -> bool:
        """Whether the provider answers."""
        try:
            return (await self._client().get("/ready")).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    async def lose_next(self, count: int = 1) -> None:
        """The next refunds are committed and their answers lost."""
        await self._control("lose-next", count=count)

    async def fail_next(self, count: int = 1) -> None:
        """The next refunds are answered 503 before anything is committed."""
        await self._control("fail-next", count=count)

    async def delay_next(self, seconds: float, count: int = 1) -> None:
        """The next refunds are committed and answered late."""
        await self._control("delay-next", count=count, seconds=seconds)

    async def close(self) -> None:
        """Closes this loop's connections."""
        if (client := self._clients.pop(asyncio.get_running_loop(), None)) is not None:
            await client.aclose()

    async def _control(self, which: str, **body: float) -> None:
        (await self._client().post(f"/control/{which}", json=body)).raise_for_status()

    def _client(self) -> httpx.AsyncClient:
        # A client belongs to its event loop. No proxy of the environment: the provider is on loopback.
        loop = asyncio.get_running_loop()
        if (client := self._clients.get(loop)) is None:
            client = self._clients[loop] = httpx.AsyncClient(base_url=self._url, trust_env=False, timeout=10)
        return client
