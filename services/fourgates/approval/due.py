"""Which holds the waiter has to look at now: those whose time is over, and those of whose call something was heard."""

from __future__ import annotations

import heapq

from fourgates.gates.approval import HoldState


class Due:
    """Keeps a tick cheap with many holds waiting: only what is due is looked at."""

    def __init__(self, repeat_s: float) -> None:
        self._repeat_s = repeat_s
        self._by_expiry: list[tuple[int, str]] = []
        self._timed: set[str] = set()
        self._from: dict[str, float] = {}

    def look(self, hold: HoldState) -> None:
        """Something may have to be said about this hold: at the next tick, and when it expires."""
        if not hold.open:
            self.done(hold.hold_id)
            return
        self._from.setdefault(hold.hold_id, 0.0)
        if hold.expires_ms is not None and hold.hold_id not in self._timed:
            self._timed.add(hold.hold_id)
            heapq.heappush(self._by_expiry, (hold.expires_ms, hold.hold_id))

    def take(self, now_ms: int, monotonic: float) -> list[str]:
        """The holds to look at. Each then needs `said`, `nothing` or `done`, else it comes again at the next tick."""
        while self._by_expiry and self._by_expiry[0][0] <= now_ms:
            hold_id = heapq.heappop(self._by_expiry)[1]
            if hold_id in self._timed:
                self._timed.discard(hold_id)
                self._from.setdefault(hold_id, 0.0)
        return [hold_id for hold_id, since in self._from.items() if since <= monotonic]

    def said(self, hold_id: str, monotonic: float) -> None:
        """It was said; if it does not show in the log, it is said again, but not at every tick."""
        self._from[hold_id] = monotonic + self._repeat_s

    def nothing(self, hold_id: str) -> None:
        """There was nothing to say; its expiry or its call's end will bring it up again."""
        self._from.pop(hold_id, None)

    def done(self, hold_id: str) -> None:
        """It is not open any more."""
        self._from.pop(hold_id, None)
        self._timed.discard(hold_id)
