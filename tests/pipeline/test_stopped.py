"""What is switched off does not run: a run after an internal error, and what an operator disables."""

from __future__ import annotations

import json
import random
import string

import pytest

from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import Control, ControlKind
from fourgates.contract.topology import CALLS_LEDGER, CONTROLS
from fourgates.sdk import RunStopped
from support.eventually import eventually
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final, publish

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def say(world: StoryWorld, kind: ControlKind, subject: str) -> None:
    """An operator's word, said after all that were said before."""
    said_ms = 1 + max((e.record.said_ms for e in await world.records(CONTROLS)), default=0)
    control = Control(
        event_id=ids.random_id(), producer="test", kind=kind, subject=subject, reason="a story", by="olga", said_ms=said_ms
    )
    await publish(world, "operator", control)


def entered(world: StoryWorld, call_id: str) -> bool:
    return any(key == call_id for _, key, _ in world.downstream.entries())


async def test_an_internal_error_ends_the_run_for_every_host(world: StoryWorld) -> None:
    """S6: the SDK raises, and a host that goes on with the same run under another client gets run_stopped; others go on."""
    run = world.run()
    with pytest.raises(RunStopped) as first:
        await run.call("look", json.dumps({"item": "x", "mode": "boom"}), tool_call_id="1")
    assert first.value.answer.code is Code.INTERNAL
    with pytest.raises(RunStopped):
        await run.call("look", json.dumps({"item": "x"}), tool_call_id="2")

    async def stopped() -> bool:
        elsewhere = world.run(run_id=run.id)
        try:
            await elsewhere.call("look", json.dumps({"item": "x"}), tool_call_id=fresh_order())
        except RunStopped as fault:
            return fault.answer.code is Code.RUN_STOPPED
        return False

    await eventually(stopped)
    order = fresh_order()
    with pytest.raises(RunStopped):
        await world.run(run_id=run.id).call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="3")
    assert all(what != order for _, _, what in world.downstream.effects("pay"))
    assert (await world.run().call("look", json.dumps({"item": "x"}), tool_call_id="1")).code is Code.OK


async def test_a_call_that_waits_for_people_does_not_outlive_its_run(world: StoryWorld) -> None:
    """S6: approved after the run was stopped, it is refused right before dispatch; the tool is not entered."""
    run = world.run()
    pending = await not_yet_final(run, "pay", json.dumps({"order": fresh_order(), "cents": 9_000}), tool_call_id="1")
    assert pending.code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    await say(world, ControlKind.STOP, f"run:acme/{run.id}")
    await decide(world, hold["hold_id"], "approve")
    with pytest.raises(RunStopped) as fault:
        await run.wait(pending.call_id)
    assert fault.value.answer.code is Code.RUN_STOPPED
    assert not entered(world, pending.call_id)


async def test_a_disabled_tool_is_refused_at_the_gate_and_again_at_dispatch(world: StoryWorld) -> None:
    """C4, S8: nothing runs while it is off, also of what was approved meanwhile; enabled, new calls pass."""
    run, target = world.run(), "".join(random.choices(string.ascii_lowercase, k=16))
    pending = await not_yet_final(run, "wipe", json.dumps({"target": target}), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    await say(world, ControlKind.DISABLE, "tool:wipe")
    try:
        await decide(world, hold["hold_id"], "approve")
        late = await run.wait(pending.call_id)
        assert (late.code, late.final, late.retryable) == (Code.TOOL_DISABLED, True, False)
        early = await run.call("wipe", json.dumps({"target": target}), tool_call_id="2")
        assert (early.code, early.reason) == (Code.TOOL_DISABLED, "tool_disabled")
        assert not entered(world, pending.call_id)
        assert not entered(world, early.call_id)
        assert (await run.call("look", json.dumps({"item": "x"}), tool_call_id="3")).code is Code.OK
        writers = {e.record.call_id: e.writer for e in await world.records(CALLS_LEDGER) if e.record.code == "tool_disabled"}
        assert writers[early.call_id] == "validator"
        assert writers[pending.call_id] in ("waiter", "executor")  # whoever looks first after the switch
    finally:
        await say(world, ControlKind.ENABLE, "tool:wipe")

    async def held_again() -> bool:
        return (await not_yet_final(run, "wipe", json.dumps({"target": target}), tool_call_id=fresh_order())).code in (
            Code.APPROVAL_PENDING, Code.OK,
        )  # fmt: skip

    await eventually(held_again)


async def test_a_control_that_the_operator_did_not_seal_switches_nothing(world: StoryWorld) -> None:
    """P6: the sanitizer may stop runs and cannot disable; a stage's key cannot even that; an old word says nothing new."""
    await say(world, ControlKind.DISABLE, "tool:ship")
    await say(world, ControlKind.ENABLE, "tool:ship")
    [off] = [e for e in await world.records(CONTROLS) if e.record.subject == "tool:ship" and e.record.kind is ControlKind.DISABLE]
    await world.append(CONTROLS, off.record.key().encode(), off.raw, 0)
    for writer in ("sanitizer", "executor", "validator"):
        forged = Control(
            event_id=ids.random_id(), producer="test", kind=ControlKind.DISABLE, subject="tool:ship", reason="", by="",
            said_ms=off.record.said_ms + 1_000_000,
        )  # fmt: skip
        await publish(world, writer, forged)
    # Whoever reads this later control has read the forged ones before it.
    marker = f"tool:{fresh_order()}"
    await say(world, ControlKind.DISABLE, marker)
    order = fresh_order()

    async def shipped() -> bool:
        return (await world.run().call("ship", json.dumps({"order": order}), tool_call_id="1")).code is not Code.TOOL_DISABLED

    assert await shipped()
