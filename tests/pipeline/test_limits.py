"""Quotas, rates and concurrency: what one agent, run or tool may take, and that it takes nothing from others."""

from __future__ import annotations

import asyncio
import itertools
import json
import statistics
import time
from collections import Counter

import pytest

from fourgates.contract.codes import Code
from support.eventually import eventually
from support.toolbox import HANG_AT_ONCE, RATE_CALLS, RUN_CALLS, USER_CENTS
from support.worlds import StoryWorld

pytestmark = pytest.mark.asyncio(loop_scope="session")
_people = itertools.count(1)


def somebody() -> str:
    """A person whom no other story knows."""
    return f"spender-{next(_people)}"


def spent(world: StoryWorld, subject: str) -> int:
    return sum(1 for _, _, what in world.downstream.effects("spend") if what == subject)


async def test_calls_side_by_side_never_exceed_a_quota(world: StoryWorld) -> None:
    """B7: of ten at once in a run so many run as it allows; the others are told, finally, and have no effect."""
    subject = somebody()
    run = world.run(subject)
    answers = await asyncio.gather(*(run.call("spend", '{"cents": 1}', tool_call_id=str(n)) for n in range(10)))
    told = Counter(answer.code for answer in answers)
    assert told == {Code.OK: RUN_CALLS, Code.QUOTA_EXCEEDED: 10 - RUN_CALLS}
    refused = next(answer for answer in answers if answer.code is Code.QUOTA_EXCEEDED)
    assert (refused.reason, refused.final) == ("quota_run_calls", True)
    assert spent(world, subject) == RUN_CALLS
    assert (await world.run(subject).call("spend", '{"cents": 1}', tool_call_id="x")).code is Code.OK


async def test_amounts_of_one_person_are_summed_up_over_runs_and_accounts(world: StoryWorld) -> None:
    """B7: a person with two accounts has one quota; what does not fit is refused, what still fits is not."""
    person = somebody()

    async def spend(subject: str, cents: int) -> Code:
        run = world.run(subject, person=person)
        return (await run.call("spend", json.dumps({"cents": cents}), tool_call_id="1")).code

    assert await spend(person, USER_CENTS - 10) is Code.OK
    assert await spend(f"{person}-b", 11) is Code.QUOTA_EXCEEDED
    assert await spend(f"{person}-b", 10) is Code.OK
    assert await spend(person, 1) is Code.QUOTA_EXCEEDED


async def test_an_asserted_failure_gives_back_what_it_took(world: StoryWorld) -> None:
    """B7: a declined payment leaves the quota as it was, also where its executor is gone."""
    subject = somebody()
    run = world.run(subject)
    body = json.dumps({"cents": USER_CENTS, "mode": "reject"})
    assert (await run.call("spend", body, tool_call_id="1")).code is Code.TOOL_FAILED

    async def fits() -> bool:
        return (await world.run(subject).call("spend", json.dumps({"cents": USER_CENTS}), tool_call_id="2")).code is Code.OK

    await eventually(fits)
    assert spent(world, subject) == 1


async def test_a_quota_outlives_the_executor(world: StoryWorld) -> None:
    """B7, E5: who takes over knows what was used."""
    subject = somebody()
    run = world.run(subject)
    assert (await run.call("spend", json.dumps({"cents": USER_CENTS}), tool_call_id="1")).code is Code.OK
    await world.kill("executor")
    assert (await run.call("spend", '{"cents": 1}', tool_call_id="2", wait=60)).code is Code.QUOTA_EXCEEDED


async def test_a_rate_is_told_with_when_to_ask_again(world: StoryWorld) -> None:
    """E11: not final; the call is as good as new when its time has come."""
    run = world.run(somebody())
    answers = [await run.call("count", json.dumps({"to": n}), tool_call_id=str(n)) for n in range(RATE_CALLS + 1)]
    assert [answer.code for answer in answers[:RATE_CALLS]].count(Code.OK) >= RATE_CALLS - 1  # another story may have asked
    last = answers[-1]
    assert (last.code, last.reason, last.final, last.retryable) == (Code.RATE_LIMITED, "rate", False, True)
    assert "Ask again in" in last.message


async def _p50(world: StoryWorld, calls: int = 40) -> float:
    """Milliseconds of a quick call, one after the other."""
    run, took = world.run(somebody()), []
    for n in range(calls):
        begun = time.perf_counter()
        answer = await run.call("look", json.dumps({"item": f"x{n}"}), tool_call_id=str(n))
        took.append((time.perf_counter() - begun) * 1000)
        assert answer.code is Code.OK, answer
    return statistics.median(took)


async def test_two_hundred_calls_of_a_tool_that_hangs_leave_the_others_quick(world: StoryWorld) -> None:
    """E11: four hang, the others wait or are told; meanwhile a quick tool answers as before."""
    await _p50(world, 10)
    before = await _p50(world)
    run = world.run(somebody())
    hanging = [asyncio.create_task(run.call("hang", json.dumps({"to": n}), tool_call_id=str(n), wait=30)) for n in range(200)]
    await eventually(lambda: len(world.downstream.entries("hang")) >= HANG_AT_ONCE)
    during = min([await _p50(world, 20) for _ in range(3)])  # the first may still meet the two hundred on their way
    entered = len(world.downstream.entries("hang"))
    answers = await asyncio.gather(*hanging)
    after = await _p50(world)
    # Other work on the machine shows before, during or after; a call that waited behind those that hang takes seconds.
    assert during <= 1.5 * max(before, after) + 5.0, (before, during, after)
    assert entered < 200
    assert {answer.code for answer in answers} <= {Code.TIMEOUT, Code.RATE_LIMITED, Code.UNAVAILABLE}
