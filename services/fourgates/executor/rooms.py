"""Bulkheads: how many calls of one tool and tenant run side by side, how many may wait, and how often they may begin.

A tool that hangs fills its own places. Who waits for one has claimed nothing, stands in the order of coming, and holds none of
another tool's; where too many wait, or too long, the call is told to ask again later.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from fourgates.catalog import Tool
from fourgates.contract.codes import CODES, Code
from fourgates.contract.ports import Clock
from fourgates.executor.settings import ExecutorSettings
from fourgates.gates.limits import TokenBucket
from fourgates.gates.refusal import Refusal

_LONGEST_HINT_S = 60
_MANY_BUCKETS = 10_000
"""From so many on those are dropped that are full, as a new one is."""


class Rooms:
    """Of one executor process; limits are divided among the processes as the partitions are."""

    def __init__(self, clock: Clock, settings: ExecutorSettings) -> None:
        self._clock, self._settings, self._share = clock, settings, 1.0
        self._rooms: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._there: Counter[tuple[str, str]] = Counter()
        self._held: Counter[str] = Counter()

    def share(self, part: float) -> None:
        """We own so much of all partitions. Call it while nothing is under way."""
        if part != self._share:
            self._share = part
            self._buckets.clear()

    @asynccontextmanager
    async def room(self, tool: Tool, tenant: str) -> AsyncIterator[None]:
        """A place while the block runs, however long it takes to get one: for who already has a claim to settle."""
        with self._seats(tool, tenant) as seats:
            async with seats:
                yield

    @asynccontextmanager
    async def place(self, tool: Tool, tenant: str, ends: float) -> AsyncIterator[Refusal | None]:
        """A place while the block runs, once there is one and the rate allows it; or why there is none before `ends`."""
        if (no := self._too_often(tool, tenant)) is not None or self._held[tool.name] >= self._settings.per_tool:
            yield no or _busy(tool)
            return
        self._held[tool.name] += 1
        entered = False
        with self._seats(tool, tenant) as seats:
            try:
                entered = await self._entered(seats, ends)
                yield None if entered else _busy(tool)
            finally:
                self._held[tool.name] -= 1
                if entered:
                    seats.release()

    @contextmanager
    def _seats(self, tool: Tool, tenant: str) -> Iterator[asyncio.Semaphore]:
        """The places of one tool and tenant, given away in the order of asking; kept only while somebody is there."""
        key = (tool.name, tenant)
        if key not in self._rooms:
            self._rooms[key] = asyncio.Semaphore(max(1, math.floor(tool.at_once * self._share)))
        self._there[key] += 1
        try:
            yield self._rooms[key]
        finally:
            self._there[key] -= 1
            if not self._there[key]:
                del self._there[key], self._rooms[key]

    def _too_often(self, tool: Tool, tenant: str) -> Refusal | None:
        if tool.rate is None:
            return None
        key, now = (tool.name, tenant), self._clock.monotonic()
        if key not in self._buckets:
            if len(self._buckets) >= _MANY_BUCKETS:
                self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.full(now)}
            self._buckets[key] = TokenBucket(tool.rate, self._share, now)
        wait = self._buckets[key].take(now)
        return _limited("rate", wait) if wait else None

    async def _entered(self, room: asyncio.Semaphore, ends: float) -> bool:
        try:
            async with asyncio.timeout(min(self._settings.room_wait, max(0.0, ends - self._clock.monotonic()))):
                return await room.acquire()
        except TimeoutError:
            return False


def _busy(tool: Tool) -> Refusal:
    """Places come free when calls end, at the latest at their timeout."""
    return _limited("tool_busy", min(tool.timeout.total_seconds(), _LONGEST_HINT_S))


def _limited(reason: str, wait_s: float) -> Refusal:
    seconds = math.ceil(wait_s)
    sentence = f"{CODES[Code.RATE_LIMITED].message} Ask again in {seconds} s."
    return Refusal(Code.RATE_LIMITED, reason, sentence=sentence, detail={"retry_after_s": seconds})
