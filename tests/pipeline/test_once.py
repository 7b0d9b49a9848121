"""Once: lost answers, near duplicates, conflicts, cancels, crashes. The downstream outside the pipeline counts."""

from __future__ import annotations

import asyncio
import json

import pytest

from fourgates.contract.codes import Code
from support.eventually import eventually
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")


def effects(world: StoryWorld, tool: str, what: str) -> int:
    return sum(1 for _, _, found in world.downstream.effects(tool) if found == what)


def entries(world: StoryWorld, call_id: str) -> int:
    return sum(1 for _, key, _ in world.downstream.entries() if key == call_id)


async def test_a_lost_answer_is_found_by_sending_again_with_the_same_key(world: StoryWorld) -> None:
    """E3, E9: charged once, told the truth; the second send carries the same key."""
    order = fresh_order()
    obs = await world.run().call("pay", json.dumps({"order": order, "cents": 100, "mode": "lose"}), tool_call_id="1")
    assert obs.code is Code.OK
    assert json.loads(obs.content or "")["receipt"] == order
    assert effects(world, "pay", order) == 1
    assert entries(world, obs.call_id) == 2


async def test_an_answer_that_is_lost_every_time_is_found_by_the_probe(world: StoryWorld) -> None:
    """E3, E6: the probe says committed."""
    order = fresh_order()
    obs = await world.run().call("pay", json.dumps({"order": order, "cents": 100, "mode": "lose_always"}), tool_call_id="1")
    assert obs.code is Code.OK
    assert effects(world, "pay", order) == 1


async def test_a_probe_that_fences_the_key_turns_doubt_into_failed(world: StoryWorld) -> None:
    """E6: the downstream now refuses the key, so `failed` is true of every attempt."""
    order = fresh_order()
    obs = await world.run().call("ship", json.dumps({"order": order, "mode": "vanish"}), tool_call_id="1")
    assert (obs.code, obs.reason) == (Code.TOOL_FAILED, "never_applied")
    assert effects(world, "ship", order) == 0


async def test_without_key_and_probe_people_find_out(world: StoryWorld) -> None:
    """E6, A6: in doubt is said; a person of the resolving group says what happened; asked again, the final result comes."""
    text, run = fresh_order(), world.run()
    obs = await not_yet_final(run, "post", json.dumps({"text": text, "mode": "lose"}), tool_call_id="1")
    assert (obs.code, obs.final) == (Code.IN_DOUBT, False)
    [hold] = await eventually(lambda: holds_of(world, obs.call_id))
    answer = await decide(world, hold["hold_id"], "committed")
    assert answer.status_code == 200, answer.text
    final = await run.wait(obs.call_id)
    assert (final.code, final.final) == (Code.OK, True)
    assert effects(world, "post", text) == 1
    assert entries(world, obs.call_id) == 1


async def test_a_resolution_as_not_applied_ends_the_call(world: StoryWorld) -> None:
    """E6: trying again is a new call; the effect's key is free for it."""
    text, run = fresh_order(), world.run()
    obs = await not_yet_final(run, "post", json.dumps({"text": text, "mode": "lose"}), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, obs.call_id))

    async def settled() -> bool:
        return (await decide(world, hold["hold_id"], "not_applied")).status_code == 200

    await eventually(settled)
    final = await run.wait(obs.call_id)
    assert (final.code, final.reason, final.final) == (Code.TOOL_FAILED, "not_applied", True)
    assert (await run.call("post", json.dumps({"text": text}), tool_call_id="2")).code is Code.OK


async def test_the_same_effect_under_a_new_tool_call_id_is_held(world: StoryWorld) -> None:
    """E4: a model that tries again with a new id does not pay twice; denied, nothing ran."""
    order, run = fresh_order(), world.run()
    body = json.dumps({"order": order, "cents": 100})
    assert (await run.call("pay", body, tool_call_id="1")).code is Code.OK
    again = await not_yet_final(run, "pay", body, tool_call_id="2")
    assert again.code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, again.call_id))
    assert hold["reason"] == "near_duplicate"
    await decide(world, hold["hold_id"], "deny")
    assert (await run.wait(again.call_id)).code is Code.APPROVAL_DENIED
    assert effects(world, "pay", order) == 1
    assert entries(world, again.call_id) == 0


async def test_an_approved_near_duplicate_runs_beside_the_first(world: StoryWorld) -> None:
    """E4: a person's yes names the claim that it sets aside."""
    order, run = fresh_order(), world.run()
    body = json.dumps({"order": order, "cents": 100})
    first = await run.call("pay", body, tool_call_id="1")
    again = await not_yet_final(run, "pay", body, tool_call_id="2")
    [hold] = await eventually(lambda: holds_of(world, again.call_id))
    await decide(world, hold["hold_id"], "approve")
    second = await run.wait(again.call_id)
    assert (first.code, second.code) == (Code.OK, Code.OK)
    assert effects(world, "pay", order) == 2


async def test_a_duplicate_is_refused_or_answered_where_the_contract_says_so(world: StoryWorld) -> None:
    """E4: `refuse` ends the call; `replay` answers with the first result, marked as replayed."""
    order, text, run = fresh_order(), fresh_order(), world.run()
    assert (await run.call("ship", json.dumps({"order": order}), tool_call_id="s1")).code is Code.OK
    refused = await run.call("ship", json.dumps({"order": order}), tool_call_id="s2")
    assert refused.code is Code.DUPLICATE_EFFECT
    first = await run.call("post", json.dumps({"text": text}), tool_call_id="p1")
    replayed = await run.call("post", json.dumps({"text": text}), tool_call_id="p2")
    assert (replayed.code, replayed.replayed, replayed.content) == (Code.OK, True, first.content)
    assert effects(world, "ship", order) == effects(world, "post", text) == 1


async def test_the_same_key_with_other_arguments_is_a_conflict(world: StoryWorld) -> None:
    """E2: the first call keeps its answer."""
    order, run = fresh_order(), world.run()
    first = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="1")
    other = await run.call("pay", json.dumps({"order": order, "cents": 200}), tool_call_id="1")
    assert (first.code, other.code) == (Code.OK, Code.IDEMPOTENCY_CONFLICT)
    again = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="1")
    assert again.to_json() == first.to_json()
    assert effects(world, "pay", order) == 1


async def test_an_asserted_failure_frees_the_effect(world: StoryWorld) -> None:
    """E6: `failed` only where the tool asserts it; then a new call may try."""
    order, run = fresh_order(), world.run()
    failed = await run.call("pay", json.dumps({"order": order, "cents": 100, "mode": "reject"}), tool_call_id="1")
    assert (failed.code, failed.reason) == (Code.TOOL_FAILED, "card_declined")

    async def paid() -> bool:
        return (await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id=fresh_order())).code is Code.OK

    await eventually(paid)
    assert effects(world, "pay", order) == 1


async def test_what_may_be_asked_again_keeps_its_key(world: StoryWorld) -> None:
    """E9: a tool that says `later` releases the claim; asked again with the same key it runs, in the end once."""
    order, run = fresh_order(), world.run()
    busy = await run.call("pay", json.dumps({"order": order, "cents": 100, "mode": "busy"}), tool_call_id="1")
    assert (busy.code, busy.final, busy.reason) == (Code.UNAVAILABLE, False, "busy")
    assert effects(world, "pay", order) == 0


async def test_a_read_is_tried_again_and_then_answers(world: StoryWorld) -> None:
    """E9: a declared transient error of a read is retried within the budget."""
    obs = await world.run().call("look", json.dumps({"item": "x", "mode": "flaky"}), tool_call_id="1")
    assert json.loads(obs.content or "") == {"item": "x", "attempt": 3}


async def test_cancelled_before_it_ran_it_never_runs(world: StoryWorld) -> None:
    """E7, A10: the hold is withdrawn, a yes that comes later is void."""
    order, run = fresh_order(), world.run()
    pending = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": 9_000}), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    cancelled = await run.cancel(pending.call_id)
    assert (cancelled.code, cancelled.final) == (Code.CANCELLED, True)

    async def gone() -> bool:
        return not await holds_of(world, pending.call_id)

    await eventually(gone)
    late = await decide(world, hold["hold_id"], "approve")
    assert late.status_code in (404, 409, 410)
    assert entries(world, pending.call_id) == 0


@pytest.mark.parametrize("stage", ["validator", "authorizer", "waiter", "executor", "sanitizer"])
async def test_a_stage_that_is_killed_loses_nothing_and_repeats_nothing(world: StoryWorld, stage: str) -> None:
    """E5, S1: calls that are under way while a stage dies end, each with one effect and one answer."""
    run = world.run()
    orders = [fresh_order() for _ in range(6)]
    bodies = [json.dumps({"order": order, "cents": 100}) for order in orders]
    calls = [asyncio.create_task(run.call("pay", body, tool_call_id=str(n), wait=60)) for n, body in enumerate(bodies)]
    await asyncio.sleep(0)
    await world.kill(stage)
    answers = await asyncio.gather(*calls)
    assert {answer.code for answer in answers} == {Code.OK}
    assert [effects(world, "pay", order) for order in orders] == [1] * len(orders)
    again = await asyncio.gather(*(run.call("pay", body, tool_call_id=str(n)) for n, body in enumerate(bodies)))
    assert [a.to_json() for a in again] == [a.to_json() for a in answers]
