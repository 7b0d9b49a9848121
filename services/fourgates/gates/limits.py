"""How often a call may begin: a bucket of tokens that fills up evenly. Pure; the caller brings monotonic seconds."""

from __future__ import annotations

from fourgates.catalog import Rate


class TokenBucket:
    """Full at first. `share`: which part of the rate is this process's, where several divide the partitions among them."""

    def __init__(self, rate: Rate, share: float, now: float) -> None:
        self._size = max(1.0, rate.calls * share)
        self._per_second = rate.calls * share / rate.per.total_seconds()
        self._tokens, self._at = self._size, now

    def take(self, now: float) -> float:
        """Takes a token and returns 0; where there is none, takes nothing and returns the seconds until there is one."""
        self._tokens = min(self._size, self._tokens + max(0.0, now - self._at) * self._per_second)
        self._at = max(self._at, now)
        if self._tokens < 1.0:
            return (1.0 - self._tokens) / self._per_second
        self._tokens -= 1.0
        return 0.0

    def full(self, now: float) -> bool:
        """Whether it is as good as new."""
        return self._tokens + max(0.0, now - self._at) * self._per_second >= self._size
