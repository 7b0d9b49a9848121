"""Quotas, rates and concurrency: what one agent, run or tool may take, and that it takes nothing from others."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter

import pytest

from fourgates.contract.codes import Code
from support.eventually import eventually
from support.toolbox import RUN_CALLS, USER_CENTS
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
