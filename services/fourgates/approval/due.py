"""Which holds the waiter has to look at now: those whose time is over, and those about which something was heard."""

from __future__ import annotations

import heapq

_LATEST_MS = (1 << 63) - 1


class Due:
    """Keeps a tick cheap with many holds waiting: only what is due is looked at."""

    def __init__(self, repeat_s: float) -> None:
        self._repeat_s = repeat_s
        self._by_expiry: list[bytes] = []
        """When, and which: bytes sort by time, and take half the room of a pair."""
        self._from: dict[str, float] = {}

    def at(self, expires_ms: int, hold_id: str) -> None:
        """This hold has to be looked at when it expires. To be said once of a hold."""
        heapq.heappush(self._by_expiry, min(max(expires_ms, 0), _LATEST_MS).to_bytes(8, "big") + hold_id.encode())

    def look(self, hold_id: str) -> None:
        """Something has to be said about this hold, at the next tick."""
        self._from.setdefault(hold_id, 0.0)

    def take(self, now_ms: int, monotonic: float) -> list[str]:
        """The holds to look at. Each then needs `said` or `done`, else it comes again at the next tick."""
        soon = (now_ms + 1).to_bytes(8, "big")
        while self._by_expiry and self._by_expiry[0] < soon:
            self.look(heapq.heappop(self._by_expiry)[8:].decode())
        return [hold_id for hold_id, since in self._from.items() if since <= monotonic]

    def said(self, hold_id: str, monotonic: float) -> None:
        """It was said; if it does not show in the log, it is said again, but not at every tick."""
        self._from[hold_id] = monotonic + self._repeat_s

    def done(self, hold_id: str) -> None:
        """There is nothing more to say, unless it expires or something is heard of its call."""
        self._from.pop(hold_id, None)
