"""Approvals before another's judge: `agentack` reads our traces, and its bad scenarios are tried on the live pipeline."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from agentack.demo import SCENARIOS, demo_events
from agentack.engine import evaluate_events

from fourgates.contract.codes import Code
from support.acknowledged import Attacks, checked, traced
from support.eventually import eventually
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")
BAD = [name for name in SCENARIOS if name != "secure"]


@pytest.mark.parametrize("scenario", BAD)
async def test_a_bad_scenario_is_refused_and_the_trace_shows_nothing_wrong(
    world: StoryWorld, scenario: str, tmp_path: Path
) -> None:
    """A3, A4, A5, A6: what the oracle calls a failure in its own demo does not come through here."""
    assert evaluate_events(demo_events(scenario)).status == "FAIL"
    attacks = Attacks(world)
    assert await attacks.all()[scenario]()
    for run_id in attacks.runs:
        report = checked(await traced(world, run_id), tmp_path)
        assert (report.status, report.findings) == ("PASS", ())


async def test_an_edited_tool_name_does_not_escape_its_own_policy(world: StoryWorld, tmp_path: Path) -> None:
    """A3: "edited tool name escapes its own policy": a yes is about one tool; another name is another call, by its own gates."""
    attacks = Attacks(world)
    assert await attacks.tool_swap()
    run, order = world.run(), fresh_order()
    text = json.dumps({"order": order, "cents": 9_000})
    for number, name in enumerate(("Pay", "pay ", "p\u0430y", "pay\u200b", "../pay")):
        edited = await not_yet_final(run, name, text, tool_call_id=f"name-{number}")
        assert edited.code is Code.UNKNOWN_TOOL, name
    wipe = await not_yet_final(run, "wipe", '{"target":"attic"}', tool_call_id="fresh")
    [hold] = await eventually(lambda: holds_of(world, wipe.call_id))
    assert (wipe.code, hold["tool"], hold["risk"]) == (Code.APPROVAL_PENDING, "wipe", "destructive")
    await decide(world, hold["hold_id"], "deny")
    assert (await run.wait(wipe.call_id)).code is Code.APPROVAL_DENIED
    assert attacks.paid(order) == 0
    for run_id in (*attacks.runs, run.id):
        assert checked(await traced(world, run_id), tmp_path).findings == ()


async def test_a_run_of_all_kinds_of_calls_passes_and_a_doctored_trace_of_it_does_not(world: StoryWorld, tmp_path: Path) -> None:
    """A3: reads, waived, approved, denied, cancelled and refused calls; each lie that is planted is found."""
    run = world.run(intent="pay what is due")
    await not_yet_final(run, "look", '{"item": "x"}', tool_call_id="read")
    await not_yet_final(run, "pay", json.dumps({"order": fresh_order(), "cents": 100}), tool_call_id="small")
    await not_yet_final(run, "pay", json.dumps({"order": "X-1", "cents": 9_000}), tool_call_id="refused")
    for name, verdict in (("yes", "approve"), ("no", "deny")):
        text = json.dumps({"order": fresh_order(), "cents": 9_000})
        pending = await not_yet_final(run, "pay", text, tool_call_id=name)
        [hold] = await eventually(lambda pending=pending: holds_of(world, pending.call_id))
        await decide(world, hold["hold_id"], verdict)
        await run.wait(pending.call_id)
    text = json.dumps({"order": fresh_order(), "cents": 9_000})
    pending = await not_yet_final(run, "pay", text, tool_call_id="cancelled")
    await eventually(lambda: holds_of(world, pending.call_id))
    assert (await run.cancel(pending.call_id)).code is Code.CANCELLED

    async def whole() -> bool:
        return (await traced(world, run.id)).unended == 0

    await eventually(whole)
    trace = await traced(world, run.id)
    assert checked(trace, tmp_path).status == "PASS"
    kinds = [event["type"] for event in trace.events]
    assert kinds.count("action_executed") == 3 and kinds.count("approval_requested") == 3 and kinds[-1] == "session_end"

    def without(kind: str) -> list[dict[str, object]]:
        return [event for event in trace.events if event["type"] != kind]

    swapped = json.loads(json.dumps(trace.events))
    for event in swapped:
        if event["type"] == "action_executed" and event.get("approval_id"):
            event["action"]["parameters"]["cents"] = 1
    for events, rule in ((without("approval_decision"), "ACK009"), (swapped, "ACK003")):
        assert rule in checked(dataclasses.replace(trace, events=events), tmp_path).rule_counts


async def test_calls_that_have_not_ended_are_counted_and_not_judged(world: StoryWorld, tmp_path: Path) -> None:
    """A6"""
    run = world.run()
    pending = await not_yet_final(run, "pay", json.dumps({"order": fresh_order(), "cents": 9_000}), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    trace = await traced(world, run.id)
    assert (trace.events, trace.unended) == ([], 1)
    await decide(world, hold["hold_id"], "deny")
    assert (await run.wait(pending.call_id)).code is Code.APPROVAL_DENIED
    assert (await traced(world, run.id)).unended == 0
