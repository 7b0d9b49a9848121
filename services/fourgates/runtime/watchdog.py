"""Notices that records wait and nothing happens, which no exception tells: a client that fetches no more, work that hangs."""

from __future__ import annotations

import asyncio
import time

import structlog

from fourgates.contract.errors import Transient
from fourgates.runtime.assignment import Assignment
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.metrics import Metrics

_LOOK_SECONDS = 5.0
_log = structlog.get_logger("fourgates.watchdog")


async def watch(bus: KafkaBus, topic: str, assignment: Assignment, metrics: Metrics, stall: float) -> FatalError:
    """Measures the lag; returns once there was some for `stall` seconds without a step of work.

    Between two assignments it counts as lag as well: a rebalance that never ends is a stall.
    """
    steps, since = -1, time.monotonic()
    while True:
        await asyncio.sleep(min(_LOOK_SECONDS, stall / 4))
        try:
            lag = await _lag(bus, topic, assignment, metrics)
        except Transient as fault:  # without a broker there is nothing to be behind of
            _log.info("the lag cannot be measured", fault=str(fault))
            lag = 0
        if not lag or steps != assignment.steps:
            steps, since = assignment.steps, time.monotonic()
        elif time.monotonic() - since > stall:
            return FatalError(f"{lag} records of {topic} wait, and nothing happened for {stall:.0f} s")


async def _lag(bus: KafkaBus, topic: str, assignment: Assignment, metrics: Metrics) -> int:
    ends = await bus.ends(topic)
    total = 0
    for number, end in ends.items():
        position = assignment.position(number)
        if position is not None:
            total += end - position
            metrics.lag.labels(topic, str(number)).set(end - position)
    return total if assignment.is_open else max(total, 1)
