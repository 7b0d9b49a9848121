"""Policies that change while calls are under way: what counts is what they say now."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.topology import CALLS_CLEARED, CALLS_LEDGER
from support.eventually import eventually
from support.toolbox import POLICIES
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")


@asynccontextmanager
async def policies(world: StoryWorld, text: str) -> AsyncIterator[None]:
    """These policies, and afterwards the stories' own."""
    await world.set_policies(text)
    try:
        yield
    finally:
        await world.set_policies(POLICIES)


def payment(order: str, cents: int = 100) -> str:
    return json.dumps({"order": order, "cents": cents})


async def detail_of(world: StoryWorld, call_id: str) -> dict[str, Any]:
    [entry] = [e.record for e in await world.records(CALLS_LEDGER) if e.record.call_id == call_id and e.record.kind == "Refused"]
    return {"code": entry.code, "reason": entry.reason, **json.loads(entry.detail)}


async def test_a_right_that_is_taken_away_is_gone_without_a_restart(world: StoryWorld) -> None:
    """P2, P5: denied from then on; the digest in the log says by which set."""
    run = world.run()
    async with policies(world, POLICIES + '@id("no-ships") forbid (principal, action == Fourgates::Action::"ship", resource);'):
        denied = await run.call("ship", json.dumps({"order": fresh_order()}), tool_call_id="1")
        assert (denied.code, denied.reason) == (Code.PERMISSION_DENIED, "no-ships")
    passed = await run.call("ship", json.dumps({"order": fresh_order()}), tool_call_id="2")
    assert passed.code is Code.OK
    [cleared] = [e.record for e in await world.records(CALLS_CLEARED) if e.record.call.call_id == passed.call_id]
    said = await detail_of(world, denied.call_id)
    assert said["policies_digest"] != json.loads(cleared.verdicts[1].reasons)["digest"]


async def test_a_set_that_could_not_decide_changes_nothing(world: StoryWorld) -> None:
    """P2: the earlier one counts on."""
    await world.set_policies("permit (principal, action, resource);", "refused")
    try:
        obs = await world.run().call("ship", json.dumps({"order": fresh_order()}), tool_call_id="1")
        assert obs.code is Code.OK
    finally:
        await world.set_policies(POLICIES)


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (lambda text: text + '@id("frozen") forbid (principal, action == Fourgates::Action::"pay", resource);',
         Code.PERMISSION_DENIED, "frozen"),
        (lambda text: text.replace("finance:1", "finance:2"), Code.APPROVAL_EFFECT_CHANGED, "approval_changed"),
        (lambda text: text.replace("finance:1", "board:1"), Code.APPROVAL_EFFECT_CHANGED, "approval_changed"),
        (lambda text: text + '@id("also") permit (principal, action == Fourgates::Action::"pay", resource);',
         Code.APPROVAL_EFFECT_CHANGED, "policies_changed"),
    ],
)  # fmt: skip
async def test_a_yes_counts_for_what_the_policies_said_when_it_was_given(
    world: StoryWorld, change: Any, code: Code, reason: str
) -> None:
    """A3: right before dispatch others have to be asked, or nobody may any more: the tool is not entered."""
    run, order = world.run(), fresh_order()
    pending = await not_yet_final(run, "pay", payment(order, 9_000), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    async with policies(world, change(POLICIES)):
        await decide(world, hold["hold_id"], "approve")
        ended = await run.wait(pending.call_id)
    assert (ended.code, ended.reason, ended.final) == (code, reason, True)
    assert all(key != pending.call_id for _, key, _ in world.downstream.entries())


async def test_a_yes_counts_where_the_change_is_about_something_else(world: StoryWorld) -> None:
    """A3: other policies may change freely."""
    run, order = world.run(), fresh_order()
    pending = await not_yet_final(run, "pay", payment(order, 9_000), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    async with policies(world, POLICIES + '@id("no-ships") forbid (principal, action == Fourgates::Action::"ship", resource);'):
        await decide(world, hold["hold_id"], "approve")
        assert (await run.wait(pending.call_id)).code is Code.OK
