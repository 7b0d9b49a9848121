"""What all figures have in common: so many in flight for so long, latencies and rate of what ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

IN_FLIGHT = (1, 16, 128, 512)
SECONDS = 8.0
WARM_UP = 2.0


async def measure(one: Callable[[int], Awaitable[None]], in_flight: int, seconds: float = SECONDS) -> dict[str, float]:
    """Runs `one(n)` with so many at a time; counts what ends after the warm-up. Milliseconds and per second."""
    latencies: list[float] = []
    begun = time.perf_counter()
    start, end, n = begun + WARM_UP, begun + WARM_UP + seconds, 0

    async def keep() -> None:
        nonlocal n
        while (at := time.perf_counter()) < end:
            n += 1
            await one(n)
            now = time.perf_counter()
            if at >= start and now <= end:
                latencies.append((now - at) * 1000)

    await asyncio.gather(*(keep() for _ in range(in_flight)))
    return summary(latencies, seconds)


def summary(latencies: list[float], seconds: float) -> dict[str, float]:
    """per_s, p50_ms, p95_ms, p99_ms; zeros where nothing ended."""
    ordered = sorted(latencies)
    if not ordered:
        return {"per_s": 0.0, "p50_ms": 0.0, "p95_ms": 0.0, "p99_ms": 0.0}

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2)

    return {"per_s": round(len(ordered) / seconds, 1), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99)}


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0
