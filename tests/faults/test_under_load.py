"""Five hundred calls and more while every process is killed once, and everything else goes wrong that can on one machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import random

import pytest

from support.fault_calls import Played, new_call, play
from support.fault_checker import Checker
from support.fault_rounds import settled
from support.fault_tally import WHOLE, Tally
from support.faulting import FaultWorld
from support.kafka_world import PROCESSES
from support.saboteur import Saboteur, faketime

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.kafka, pytest.mark.timeout(1_800)]

CALLS = int(os.environ.get("FOURGATES_TEST_CALLS", "500"))
AT_ONCE, TO_THE_END = (64, 64) if WHOLE else (24, 8)
"""Hosts, and how many of them go on with further calls until nothing is done to the pipeline any more."""
DEEDS = 6
"""Besides the kills, so many kinds of sabotage in a short run; the evidence run does all."""
KILL_EVERY = 4.0
SORTS = {
    "read": 50, "key honoured": 20, "key honoured, answer lost": 10, "probe": 5, "probe, answer lost": 4, "plain": 5,
    "plain, answer lost": 1, "held": 5,
}  # fmt: skip
"""What is asked for, and how often."""


async def test_no_call_is_lost_and_no_effect_happens_twice(faulty: FaultWorld, tally: Tally, checker: Checker) -> None:
    """E1, E3, E5, P6, L2, S1: final answers byte-equal, none missing, the downstream's effects equal what was committed."""
    faketime()
    world, rng = faulty, tally.rng("load")
    saboteur = Saboteur(world, tally, checker, rng)
    numbers, over = itertools.count(), asyncio.Event()

    async def host(n: int, chance: random.Random) -> list[Played]:
        played = []
        while (number := next(numbers)) < CALLS or (n < TO_THE_END and not over.is_set()):
            [sort] = chance.choices(list(SORTS), list(SORTS.values()))
            call = saboteur.calls[number] = await new_call(world, sort, "under load")
            saboteur.under_way.add(number)
            played.append(await play(world, call))
            saboteur.under_way.discard(number)
        return played

    async def kill_each() -> None:
        killing = []
        for process in rng.sample(PROCESSES, len(PROCESSES)):
            killing.append(asyncio.create_task(saboteur.kill(process)))
            await asyncio.sleep(KILL_EVERY)
        await asyncio.gather(*killing)

    async def sabotage() -> None:
        killing = asyncio.create_task(kill_each())
        try:
            for deed in saboteur.deeds(None if WHOLE else DEEDS):
                begun = asyncio.get_running_loop().time()
                await deed()
                print(f"{deed.__name__}: {asyncio.get_running_loop().time() - begun:.1f} s")
            await killing
        finally:
            killing.cancel()
            over.set()

    hosts = [asyncio.create_task(host(n, tally.rng(f"host {n}"))) for n in range(AT_ONCE)]
    try:
        await sabotage()
        played = [call for calls in await asyncio.gather(*hosts) for call in calls]
    finally:
        for one in hosts:
            one.cancel()
    tally.calls += played
    assert len(played) >= CALLS
    slowest = sorted(played, key=lambda call: call.recovery or 0)[-40:]
    await settled(world, tally, checker, slowest, stored=True)
