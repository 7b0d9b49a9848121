"""Removes stored results once nobody may page through them any more."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from fourgates.contract.errors import Transient
from fourgates.contract.ports import BlobStore, Clock
from fourgates.contract.topology import HORIZON, LONGEST_WAIT

_EVERY_S = 3_600.0
_RAW_KEPT = HORIZON + LONGEST_WAIT
"""A raw result is removed with its answer; one that nobody answered any more goes once its call's log has gone."""


class Upkeep:
    """Looks once an hour, beside everything else. A store that is away is looked at again the next hour."""

    def __init__(self, raw: BlobStore, results: BlobStore, clock: Clock, keep: timedelta) -> None:
        self._raw, self._results, self._clock, self._keep = raw, results, clock, keep
        self._next = clock.monotonic() + _EVERY_S
        self._under_way: asyncio.Task[None] | None = None
        self.removed = 0
        """Blobs so far."""
        self.put_off = 0
        """Hours in which a store was away."""

    def tick(self) -> None:
        """Begins where an hour is over."""
        busy = self._under_way is not None and not self._under_way.done()
        if not busy and self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + _EVERY_S
            self._under_way = asyncio.create_task(self._expire())

    async def close(self) -> None:
        """Ends what is under way; what was not removed is removed by the next process."""
        if self._under_way is not None:
            self._under_way.cancel()
            await asyncio.wait((self._under_way,))

    async def _expire(self) -> None:
        now = self._clock.now_ms()
        try:
            self.removed += await self._results.expire(now - _ms(self._keep))
            self.removed += await self._raw.expire(now - _ms(_RAW_KEPT))
        except Transient:
            self.put_off += 1


def _ms(time: timedelta) -> int:
    return int(time / timedelta(milliseconds=1))
