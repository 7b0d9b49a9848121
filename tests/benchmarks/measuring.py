"""What all figures have in common: so many in flight for so long, latencies and rate of what ended."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

IN_FLIGHT = (1, 16, 128, 512)
SECONDS = 8.0
WARM_UP = 2.0


async def measure(
    one: Callable[[int], Awaitable[bool | None]], in_flight: int, seconds: float = SECONDS, pids: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Runs `one(n)` with so many at a time; counts what ends after the warm-up. Milliseconds and per second.

    Where `one` says False, the call was refused for now: it is counted apart, as `refused`.

    With `pids` also `cpu_ms`: {process: milliseconds of processor time that each call cost it}, over the same seconds.
    """
    watching = asyncio.create_task(_spent_between(pids or {}, WARM_UP, seconds))
    latencies: list[float] = []
    begun = time.perf_counter()
    start, end, n, refused = begun + WARM_UP, begun + WARM_UP + seconds, 0, 0

    async def keep() -> None:
        nonlocal n, refused
        while (at := time.perf_counter()) < end:
            n += 1
            if await one(n) is False:
                refused += 1
                continue
            now = time.perf_counter()
            if at >= start and now <= end:
                latencies.append((now - at) * 1000)

    await asyncio.gather(*(keep() for _ in range(in_flight)))
    figures: dict[str, Any] = summary(latencies, seconds)
    if refused:
        figures["refused"] = refused
    if pids and latencies:
        figures["cpu_ms"] = {process: round(ms / len(latencies), 3) for process, ms in (await watching).items()}
    return figures


async def _spent_between(pids: Mapping[str, int], start: float, seconds: float) -> dict[str, float]:
    await asyncio.sleep(start)
    before = {process: cpu_ms(pid) for process, pid in pids.items()}
    await asyncio.sleep(seconds)
    return {process: cpu_ms(pid) - before[process] for process, pid in pids.items()}


def cpu_ms(pid: int) -> float:
    """Processor time that a process has used so far, in user and kernel, in milliseconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


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
