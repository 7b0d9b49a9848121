"""One receiver's line: what it is to be told, sent until it says that it has it or nobody needs to know any more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import httpx
import structlog

from fourgates.contract.ports import Clock

from .settings import Hook, NoticeSettings
from .signing import HEADER, ID_HEADER, signature
from .wording import Notice, body

_AT_ONCE = 4
_log = structlog.get_logger("fourgates.notices")


class Line:
    """A receiver that is slow or away holds up nobody but itself."""

    def __init__(
        self, hook: Hook, settings: NoticeSettings, http: httpx.AsyncClient, clock: Clock,
        wanted: Callable[[Hook, Notice], bool], done: Callable[[Hook, Notice, bool], None],
    ) -> None:  # fmt: skip
        """`wanted`: whether a notice is still worth sending; `done` is told once its receiver has it, or it is given up."""
        self.hook = hook
        self._settings, self._http, self._clock, self._wanted, self._done = settings, http, clock, wanted, done
        self._waiting: asyncio.Queue[Notice] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._work()) for _ in range(_AT_ONCE)]

    def put(self, notice: Notice) -> None:
        self._waiting.put_nowait(notice)

    async def close(self) -> None:
        """What has not arrived is told by who comes next."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            notice = await self._waiting.get()
            attempt, arrived = 0, False
            while not arrived and self._wanted(self.hook, notice):
                pause = await self._sent(notice, attempt)
                arrived, attempt = pause is None, attempt + 1
                if pause is not None:
                    await self._clock.sleep(pause)
            self._done(self.hook, notice, arrived)

    async def _sent(self, notice: Notice, attempt: int) -> float | None:
        """None where it arrived, else how long to wait before the next attempt."""
        settings, data = self._settings, body(notice, self.hook)
        stamp = self._clock.now_ms() // 1000
        headers = {
            "Content-Type": "application/json", ID_HEADER: notice.id,
            HEADER: signature(self.hook.secret.get_secret_value(), stamp, data),
        }  # fmt: skip
        asked_for = 0.0
        try:
            answer = await self._http.post(
                self.hook.url, content=data, headers=headers, timeout=settings.timeout_s, follow_redirects=False
            )
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            why = type(fault).__name__
        else:
            if answer.is_success:
                return None
            why = f"status {answer.status_code}"
            after = answer.headers.get("Retry-After", "")
            asked_for = float(after) if after.isascii() and after.isdigit() else 0.0
        _log.warning("a notice did not arrive", notice=notice.id, tenant=self.hook.tenant, why=why, attempt=attempt + 1)
        most = min(settings.retry_cap_s, settings.retry_base_s * 2 ** min(attempt, 30))
        wait = random.uniform(most / 2, most)  # noqa: S311 - spreads load, guards nothing
        return max(wait, min(asked_for, settings.retry_cap_s))
