"""The two clocks: the machine's, and one that a test moves by hand."""

from __future__ import annotations

import asyncio
import heapq
import time


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """Stands still until `advance` moves it; sleepers wake in the order of their times."""

    def __init__(self, start_ms: int = 1_800_000_000_000) -> None:
        self._start_ms, self._elapsed = start_ms, 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def now_ms(self) -> int:
        return self._start_ms + round(self._elapsed * 1000)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._count += 1
        waking: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, self._count, waking))
        await waking

    async def advance(self, seconds: float) -> None:
        """Moves time on, waking each sleeper at its own time and letting it run before the next."""
        until = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            at, _, waking = heapq.heappop(self._sleepers)
            self._elapsed = max(self._elapsed, at)
            if not waking.done():
                waking.set_result(None)
            await asyncio.sleep(0)
        self._elapsed = until
        await asyncio.sleep(0)
