"""Crashes and zombies at every place between a call's request and its answer, for every kind of tool."""

from __future__ import annotations

import asyncio

import pytest

from support.eventually import eventually
from support.fault_checker import Checker
from support.fault_rounds import (
    AFTER_A_LOST_ANSWER,
    ALONG_THE_WAY,
    BEFORE_IT_IS_CLEARED,
    FACTS_TURN,
    UNFORESEEN,
    WITH_A_CANCEL,
    Round,
    facts_turn,
    settled,
)
from support.fault_tally import Tally, played
from support.faulting import FaultWorld
from support.kafka_world import READY_SECONDS

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.kafka, pytest.mark.timeout(600)]

STAGES = ("validator", "authorizer", "waiter", "executor", "sanitizer")
LEASE_SECONDS = 9.0
"""A little more than any claim's lease in this world."""


async def test_crashes_at_every_place(faulty: FaultWorld, tally: Tally, checker: Checker) -> None:
    """E5, E1, E3, E7, B2: every stage killed at once, with calls at every place, answers lost, cancelled, on facts that turn."""
    world, crash = faulty, Round(faulty, tally)
    await crash.hold("kill -9", (*ALONG_THE_WAY, *BEFORE_IT_IS_CLEARED))
    await crash.hold("kill -9, answer lost", AFTER_A_LOST_ANSWER)
    cancelled = await crash.hold("kill -9, cancelled", WITH_A_CANCEL)
    turning = await crash.hold("kill -9, facts turn", FACTS_TURN)
    await crash.hold("unforeseen exception", UNFORESEEN, "raise")
    await crash.come()
    await asyncio.gather(*(call.run.cancel(call.call_id, wait=0) for call in cancelled))
    crash.strike()
    before = {stage: world.supervisor.watched[stage].pid for stage in STAGES}
    killing = asyncio.gather(*(world.kill(stage) for stage in STAGES))
    facts_turn(world, turning)
    await killing
    assert all(world.supervisor.watched[stage].pid != before[stage] for stage in STAGES)
    crash.release()
    await crash.end()
    await settled(world, tally, checker, crash.calls)


@pytest.mark.parametrize("wakes", played("zombies", ["early", "late"]))
async def test_zombies_at_every_place(faulty: FaultWorld, tally: Tally, checker: Checker, wakes: str) -> None:
    """E5, E1: stopped past the session timeout, awake again beside the new owner of the same calls: one effect, one answer.

    Early: the new owner has just taken over, there are two claims with the same cause. Late: the leases are over.
    """
    world, zombie = faulty, Round(faulty, tally)
    await zombie.hold(f"zombie, {wakes}", ALONG_THE_WAY)
    await zombie.hold(f"zombie, {wakes}, answer lost", AFTER_A_LOST_ANSWER)
    await zombie.come()
    world.freeze("executor", "sanitizer")
    zombie.strike()
    async with world.with_another("executor") as executor, world.with_another("sanitizer") as sanitizer:
        await executor.ready(READY_SECONDS)
        await sanitizer.ready(READY_SECONDS)
        if wakes == "late":
            await asyncio.sleep(LEASE_SECONDS)  # leases are counted by the clock of whoever sees them
        zombie.release()
        world.thaw("executor", "sanitizer")
        await zombie.end()
    await eventually(lambda: all(world.supervisor.watched[name].pid for name in ("executor", "sanitizer")))
    await settled(world, tally, checker, zombie.calls)
