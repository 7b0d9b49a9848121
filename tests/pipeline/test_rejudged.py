"""A run judged again from the log: by the same rules nothing differs, by others exactly what they change; nothing executes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from fourgates.assembly import load_policies
from fourgates.audit.rejudging import Judgement, Recorded, Rejudge, gathered
from fourgates.catalog import Catalog, Rule
from fourgates.contract.codes import Code
from fourgates.contract.topology import APPROVALS, CALLS_CLEARED, CALLS_LEDGER, CALLS_REQUESTED, CALLS_VALIDATED
from fourgates.sdk import Run
from support.toolbox import POLICIES, make_catalog
from support.worlds import StoryWorld, fresh_order, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")
STRICTER = POLICIES.replace("context.args.cents <= 5000", "context.args.cents <= 100").replace(
    "context.args.cents > 5000", "context.args.cents > 100"
)


async def a_run(world: StoryWorld) -> tuple[list[Recorded], str]:
    """One run in which every gate says something; and the room that it was about."""
    room, run = fresh_order("R").lower(), world.run(intent="book a room and pay", allow=("book", "pay", "send"))
    world.bookings.put(room, free=6)
    calls = (
        ("book", {"room": room, "seats": 4, "mode": "ok"}, Code.OK),
        ("book", {"room": room, "seats": 9, "mode": "ok"}, Code.RULE_VIOLATED),
        ("pay", {"order": fresh_order(), "cents": 900, "mode": "ok"}, Code.OK),
        ("pay", {"order": fresh_order(), "cents": 9_000, "mode": "ok"}, Code.APPROVAL_PENDING),
        ("send", {"recipient": "mallory", "text": "hello"}, Code.APPROVAL_PENDING),
        ("look", {"itemm": "x"}, Code.INVALID_ARGUMENTS),
        ("lok", {"item": "x"}, Code.UNKNOWN_TOOL),
        ("look", {"item": "x"}, Code.OK),
    )
    for number, (tool, arguments, code) in enumerate(calls):
        ask = not_yet_final if code is Code.APPROVAL_PENDING else Run.call
        answer = await ask(run, tool, json.dumps(arguments), tool_call_id=str(number))
        assert answer.code is code, (tool, answer)
    topics = (CALLS_REQUESTED, CALLS_VALIDATED, APPROVALS, CALLS_CLEARED, CALLS_LEDGER)
    envelopes = [envelope for topic in topics for envelope in await world.records(topic)]
    recorded = gathered([*envelopes, *envelopes], run.id)
    assert len(recorded) == len(calls)
    return recorded, room


def judged(recorded: list[Recorded], catalog: Catalog, policies: str = POLICIES) -> list[Judgement]:
    again = Rejudge(catalog, load_policies(catalog, policies))
    return [judgement for call in recorded for judgement in again.call(call)]


async def test_by_the_same_rules_every_decision_is_the_same_and_nothing_runs(world: StoryWorld, tmp_path: Path) -> None:
    """L7: recomputed and compared, nothing executed: no tool is entered, no fact is looked up."""
    recorded, room = await a_run(world)
    before = world.downstream.entries(), world.bookings.state(room)
    found = judged(recorded, make_catalog(tmp_path))
    assert [one for one in found if one.differs] == []
    assert (world.downstream.entries(), world.bookings.state(room)) == before
    assert {one.gate for one in found} == {"format", "rules", "origins", "permission"}
    assert [one.note for one in found if one.note] == ["the facts of a refused call are not kept"]
    permitted = [one.then.partition(",")[0] for one in found if (one.tool, one.gate) == ("pay", "permission")]
    assert [words.split(" by ")[0] for words in permitted] == ["cleared", "held (policy) for 1 of finance"]


async def test_what_other_rules_would_change_is_named_gate_by_gate(world: StoryWorld, tmp_path: Path) -> None:
    """L7: where today's rules would differ."""
    recorded, _ = await a_run(world)
    changed = Catalog("changed")
    for tool in make_catalog(tmp_path):
        if tool.name == "book":
            tool = dataclasses.replace(
                tool, rules=(*tool.rules, Rule("few", "args.seats <= 3", "At most three seats.", "/seats"))
            )
        if tool.name == "send":
            tool = dataclasses.replace(tool, origins={})
        if tool.name != "look":
            changed.add(tool)
    differing = [(one.tool, one.gate, one.now) for one in judged(recorded, changed, STRICTER) if one.differs]
    assert ("book", "rules", "refused: rule_violated (few) at /seats") in differing
    assert ("send", "origins", "as allowed") in differing
    assert ("look", "format", "refused: unknown_tool (unknown_tool)") in differing
    [paid] = [now for tool, gate, now in differing if (tool, gate) == ("pay", "permission")]
    assert paid.startswith("held (policy) for 1 of finance")
    assert not any(tool == "book" and gate == "permission" for tool, gate, _ in differing), "it would not come that far"
