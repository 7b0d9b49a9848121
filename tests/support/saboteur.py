"""What can go wrong while calls are under way: processes, the network, the broker, the log itself, clocks."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from fourgates.contract.ports import Received
from fourgates.contract.topology import (
    APPROVALS,
    BY_NAME,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    EFFECTS,
)
from support.eventually import eventually
from support.fault_calls import BUDGET, Played, new_call, play
from support.fault_checker import Checker
from support.fault_tally import Tally
from support.faulting import FaultWorld
from support.tcp_proxy import Answers

EVENTS = (CALLS_REQUESTED, CALLS_VALIDATED, CALLS_CLEARED, CALLS_LEDGER, APPROVALS, EFFECTS, CALLS_COMPLETED)
READY_AMONG_FAULTS = 240.0
"""What comes next may meet a process while it starts again."""
_FAKETIME = "libfaketimeMT.so.1"
_LIBRARIES = (Path("/usr/lib"), Path("/usr/local/lib"))


def faketime() -> Path:
    """The library that makes a process's wall clock jump; skips where there is none, and fails where there must be."""
    found = next((path for folder in _LIBRARIES for path in folder.glob(f"*/faketime/{_FAKETIME}")), None)
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("libfaketime must be here: make system")
        pytest.skip("there is no libfaketime: make system")
    return found


class Saboteur:
    """Every deed returns once it is over; what follows from it may still be on its way."""

    def __init__(self, world: FaultWorld, tally: Tally, checker: Checker, rng: random.Random) -> None:
        self._world, self._tally, self._checker, self._rng = world, tally, checker, rng
        self.under_way: set[int] = set()
        self.calls: dict[int, Played] = {}

    def strike(self, kind: str, times: int = 1) -> None:
        """Counts a fault; whatever call is under way now is measured from here."""
        self._tally.faults[kind] += times
        now = asyncio.get_running_loop().time()
        for number in self.under_way:
            if (call := self.calls.get(number)) is not None and not call.struck:
                call.struck = now

    async def kill(self, process: str) -> None:
        self.strike(f"kill -9 under load: {process}")
        await self._world.kill(process, READY_AMONG_FAULTS)

    async def kill_at_commit(self) -> None:
        """Right before its offsets are committed, and right after: what was finished comes again, or does not."""
        for stage, point in (("executor", "executor.commit.before"), ("sanitizer", "sanitizer.commit.after")):
            watched, before = self._world.supervisor.watched[stage], self._world.supervisor.watched[stage].pid
            hit = self._world.points.arm(point, word="kill")
            await self._world.points.taken([hit], READY_AMONG_FAULTS)
            self.strike(f"kill -9 at {point}")
            await eventually(lambda w=watched, b=before: w.pid not in (None, b) and w.ready.is_set(), READY_AMONG_FAULTS)

    async def cut_connections(self) -> None:
        for _ in range(3):
            self.strike("connections cut")
            self._world.proxy.cut()
            await asyncio.sleep(0.5)

    async def tear_frames(self) -> None:
        self.strike("frames cut in the middle", 5)
        self._world.proxy.torn = 5
        await asyncio.sleep(1.5)
        self._world.proxy.torn = 0

    async def lose_answers(self) -> None:
        """The broker has done the work, its answers vanish; then they cut the connection."""
        for answers in (Answers.LOST, Answers.CUT):
            self.strike("broker's answers lost")
            self._world.proxy.answers = answers
            await asyncio.sleep(1.5)
            self._world.proxy.answers = Answers.PASS
            self._world.proxy.cut()

    async def slow_network(self) -> None:
        self.strike("slow network")
        self._world.proxy.delay = 0.2
        await asyncio.sleep(2.0)
        self._world.proxy.delay = 0.0

    async def frozen_network(self) -> None:
        self.strike("frozen network")
        self._world.proxy.stall()
        await asyncio.sleep(3.0)
        self._world.proxy.flow()

    async def freeze_broker(self) -> None:
        """Longer than the session timeout."""
        self.strike("frozen broker")
        self._world.broker.pause()
        await asyncio.sleep(8.0)
        self._world.broker.resume()

    async def kill_broker(self) -> None:
        self.strike("broker kill -9")
        await self._world.broker.kill()
        await self._world.broker.start()

    async def repeat_records(self) -> None:
        """Valid records again, in another order."""
        chosen = await self._chosen(40)
        self.strike("records repeated and reordered", len(chosen))
        for received in chosen:
            await self._world.append(received.position.topic, received.key, received.value, received.position.partition)

    async def copy_records(self) -> None:
        """Valid records on partitions where they do not belong."""
        chosen = await self._chosen(10)
        self.strike("sealed record on another partition", len(chosen))
        for received in chosen:
            where = received.position
            others = [number for number in range(BY_NAME[where.topic].partitions) if number != where.partition]
            await self._world.append(where.topic, received.key, received.value, self._rng.choice(others))

    async def rewind(self) -> None:
        for stage, topic in (("executor", CALLS_CLEARED), ("sanitizer", CALLS_LEDGER)):
            self.strike("offsets rewound to zero")
            self._checker.rewound[stage, topic] += await self._world.rewind(stage, topic, READY_AMONG_FAULTS)

    async def rebalance_storm(self) -> None:
        """Second processes come and go."""
        for stage in ("executor", "sanitizer"):
            self.strike("rebalance", 2)
            async with self._world.with_another(stage) as other:
                await other.ready(READY_AMONG_FAULTS)

    async def jump_clocks(self) -> None:
        """A second executor and a second waiter whose wall clocks jump an hour ahead, and an hour back."""
        clock = self._world.folder / "clock"
        clock.write_text("+0")
        env: Mapping[str, str] = {
            "LD_PRELOAD": str(faketime()), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip
        async with self._world.with_another("executor", env) as executor, self._world.with_another("waiter", env) as waiter:
            await executor.ready(READY_AMONG_FAULTS)
            await waiter.ready(READY_AMONG_FAULTS)
            for jump in ("+3600", "-3600", "+0"):
                self.strike("clock jump", 2)
                clock.write_text(jump)
                await asyncio.sleep(2.5)  # the library looks at its file every second

    async def race_cancels(self) -> None:
        """A cancel that comes when the call is anywhere."""

        async def race() -> None:
            call = await new_call(self._world, self._rng.choice(("key honoured", "plain", "held", "read")), "cancelled")
            asked = asyncio.create_task(
                call.run.call(call.tool, json.dumps(call.arguments), tool_call_id="1", wait=1, budget=BUDGET)
            )
            await asyncio.sleep(self._rng.random() * 0.3)
            if call.call_id in call.run._asked:
                await call.run.cancel(call.call_id, wait=0)
            await asked
            self._tally.calls.append(await play(self._world, call))

        self.strike("cancel racing claim", 10)
        await asyncio.gather(*(race() for _ in range(10)))

    def deeds(self, count: int | None = None) -> list[Callable[[], Awaitable[None]]]:
        """So many of them (None: all), in an order that the seed chooses."""
        deeds = [
            self.kill_at_commit, self.cut_connections, self.tear_frames, self.lose_answers, self.slow_network,
            self.frozen_network, self.freeze_broker, self.kill_broker, self.repeat_records, self.copy_records, self.rewind,
            self.rebalance_storm, self.jump_clocks, self.race_cancels,
        ]  # fmt: skip
        self._rng.shuffle(deeds)
        return deeds[:count]

    async def _chosen(self, count: int) -> list[Received]:
        lying = [received for topic in EVENTS for received in await self._world.bus.records(topic)]
        return self._rng.sample(lying, min(count, len(lying)))
