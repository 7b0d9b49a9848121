"""The least that must be tested: eight stories, on every bus from this one body."""

from __future__ import annotations

import asyncio
import json

import pytest

from fourgates.contract.codes import Code
from support.eventually import eventually
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_missing_required_field_is_named(world: StoryWorld) -> None:
    """C5, C6: the code, the reason and the field tell the model what to mend; nothing runs."""
    order = fresh_order()
    obs = await world.run().call("pay", json.dumps({"order": order}), tool_call_id="1")
    assert (obs.code, obs.reason, obs.field) == (Code.INVALID_ARGUMENTS, "missing_field", "/cents")
    assert obs.final and obs.recoverable
    assert not world.downstream.effects("pay") or all(what != order for _, _, what in world.downstream.effects("pay"))


async def test_an_unknown_field_is_refused(world: StoryWorld) -> None:
    """C5: misspelt fields are told by their path; the corrected call passes."""
    order, run = fresh_order(), world.run()
    wrong = await run.call("pay", json.dumps({"order": order, "cents": 100, "amuont": 1}), tool_call_id="1")
    assert (wrong.code, wrong.reason, wrong.field) == (Code.INVALID_ARGUMENTS, "unknown_field", "/amuont")
    right = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="2")
    assert right.code is Code.OK


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "x\u0000y"])
async def test_a_path_out_of_the_workspace_is_refused_before_execution(world: StoryWorld, path: str) -> None:
    """E10: the tool's function is never entered."""
    run = world.run()
    obs = await run.call("read_file", json.dumps({"path": path}), tool_call_id="1")
    assert obs.code is Code.INVALID_ARGUMENTS
    assert obs.field == "/path"
    assert all(key != obs.call_id for _, key, _ in world.downstream.entries("read_file"))


async def test_past_the_deadline_a_read_is_a_timeout_and_may_be_asked_again(world: StoryWorld) -> None:
    """E7: a read that does not answer in time changes nothing."""
    obs = await world.run().call("look", json.dumps({"item": "x", "mode": "slow"}), tool_call_id="1")
    assert (obs.code, obs.final, obs.retryable) == (Code.TIMEOUT, False, True)


async def test_past_the_deadline_a_write_is_in_doubt_until_it_is_found_out(world: StoryWorld) -> None:
    """E3, E6, E7: the effect happened, the answer never came; the probe finds the true result and nothing is sent twice."""
    order = fresh_order()
    run = world.run()
    obs = await run.call("ship", json.dumps({"order": order, "mode": "slow"}), tool_call_id="1")
    assert obs.code is Code.OK
    assert [what for _, _, what in world.downstream.effects("ship") if what == order] == [order]
    assert len([key for _, key, _ in world.downstream.entries("ship") if key == obs.call_id]) == 1


async def test_a_denied_call_never_enters_its_function(world: StoryWorld) -> None:
    """A4: a person says no."""
    run = world.run(intent="pay for it")
    order = fresh_order()
    pending = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": 9_000}), tool_call_id="1")
    call_id = pending.call_id
    [hold] = await eventually(lambda: holds_of(world, call_id))
    answer = await decide(world, hold["hold_id"], "deny", reason="too much")
    assert answer.status_code == 200, answer.text
    obs = await run.wait(call_id)
    assert (obs.code, obs.final) == (Code.APPROVAL_DENIED, True)
    assert "too much" not in obs.message
    assert all(key != call_id for _, key, _ in world.downstream.entries("pay"))


async def test_the_same_key_twice_has_one_effect_and_one_answer(world: StoryWorld) -> None:
    """E1: asked again, at once and later, the first answer comes back byte for byte."""
    order, run = fresh_order(), world.run()
    body = json.dumps({"order": order, "cents": 100})
    first, second = await asyncio.gather(run.call("pay", body, tool_call_id="1"), run.call("pay", body, tool_call_id="1"))
    third = await run.call("pay", body, tool_call_id="1")
    assert first.to_json() == second.to_json() == third.to_json()
    assert first.code is Code.OK
    assert [what for _, _, what in world.downstream.effects("pay") if what == order] == [order]


async def test_a_result_that_is_too_long_is_cut_and_says_so(world: StoryWorld) -> None:
    """R1, R4: head and tail are kept, a mark says how much is missing, the whole lies behind a reference."""
    obs = await world.run().call("look", json.dumps({"item": "x", "mode": "long"}), tool_call_id="1")
    assert obs.code is Code.OK and obs.truncated and obs.content is not None
    assert len(obs.content.encode()) <= 16_384
    assert obs.content.startswith("line 0 of x")
    assert obs.content.rstrip().endswith("line 19999 of x")
    assert obs.content_ref is not None and obs.content_ref.size > 16_384


async def test_without_the_audit_store_effects_fail_closed_and_reads_go_on(world: StoryWorld) -> None:
    """L3: no effect without its trace; nothing is lost when the store returns."""
    order, run = fresh_order(), world.run()
    body = json.dumps({"order": order, "cents": 100})
    await world.set_audit_away(True)
    try:

        async def refused() -> bool:
            obs = await run.call("pay", json.dumps({"order": fresh_order(), "cents": 100}), tool_call_id=fresh_order())
            return obs.code is Code.AUDIT_UNAVAILABLE

        await eventually(refused)
        obs = await run.call("pay", body, tool_call_id="w")
        assert (obs.code, obs.final) == (Code.AUDIT_UNAVAILABLE, False)
        assert (await run.call("look", json.dumps({"item": "x"}), tool_call_id="r")).code is Code.OK
        assert all(what != order for _, _, what in world.downstream.effects("pay"))
    finally:
        await world.set_audit_away(False)

    async def paid() -> bool:
        return (await run.call("pay", body, tool_call_id="w")).code is Code.OK

    await eventually(paid)
    assert [what for _, _, what in world.downstream.effects("pay") if what == order] == [order]
