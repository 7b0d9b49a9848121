"""Gate 2 on every bus: rules over fresh facts, at the gate and again right before the tool; what came from where."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fourgates.catalog import Rule
from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_LEDGER, TOPOLOGY
from support.eventually import eventually
from support.toolbox import SECRET
from support.worlds import MemoryWorld, StoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")


def fresh_room(world: StoryWorld, **state: Any) -> str:
    """A room that no other story uses."""
    name = fresh_order("R").lower()
    world.bookings.put(name, **state)
    return name


def seats(room: str, number: int = 1, mode: str = "ok") -> str:
    return json.dumps({"room": room, "seats": number, "mode": mode})


def entered(world: StoryWorld, call_id: str) -> bool:
    return any(key == call_id for _, key, _ in world.downstream.entries())


async def refusal_of(world: StoryWorld, call_id: str) -> Envelope:
    """The call's Refused, as it lies in the ledger."""

    async def found() -> Envelope | None:
        ended = [e for e in await world.records(CALLS_LEDGER) if e.record.call_id == call_id]
        return next((e for e in ended if e.record.kind is LedgerKind.REFUSED), None)

    envelope: Envelope = await eventually(found)
    return envelope


async def test_each_rule_refuses_with_its_own_sentence_and_what_it_looked_at_goes_to_the_audit(world: StoryWorld) -> None:
    """B1, R5: the model reads a sentence that the tool's owner wrote; the values are for who asks why."""
    room = fresh_room(world, free=3)
    obs = await world.run().call("book", seats(room, 4), tool_call_id="1")
    assert (obs.code, obs.reason, obs.field, obs.final) == (Code.RULE_VIOLATED, "enough", "/seats", True)
    assert "There is not so much room." in obs.message
    entry: LedgerEntry = (await refusal_of(world, obs.call_id)).record
    assert json.loads(entry.detail)["values"] == {"args.seats": 4, "facts.free": 3}
    told = [e.record for e in await world.records(CALLS_COMPLETED) if e.record.call_id == obs.call_id]
    assert all("facts" not in record.observation and "values" not in record.observation for record in told)
    assert not entered(world, obs.call_id)


async def test_a_secret_among_the_facts_reaches_neither_log_nor_model(world: StoryWorld) -> None:
    """B1, R3: the rule looked at it, so the audit learns that there was one, and not which."""
    room = fresh_room(world, state=f"moved to {SECRET}")
    obs = await world.run().call("book", seats(room), tool_call_id="1")
    assert (obs.code, obs.reason) == (Code.RULE_VIOLATED, "open")
    entry: LedgerEntry = (await refusal_of(world, obs.call_id)).record
    assert "[redacted:" in json.loads(entry.detail)["values"]["facts.state"]
    for topic in TOPOLOGY:
        assert all(b"hunter2" not in e.raw for e in await world.records(topic.name))


@pytest.mark.parametrize("mode", ["down", "slow", "odd"])
async def test_a_provider_that_fails_is_never_a_pass_and_the_same_key_may_ask_again(world: StoryWorld, mode: str) -> None:
    """B2: away, too slow, or of another type than declared; once it answers, the very same call goes through."""
    room, run = fresh_room(world, mode=mode), world.run()
    obs = await run.call("book", seats(room), tool_call_id="1")
    assert (obs.code, obs.final, obs.retryable) == (Code.UNAVAILABLE, False, True)
    assert obs.reason in {"facts_unavailable", "facts_invalid"}
    assert not entered(world, obs.call_id)
    world.bookings.put(room)
    assert (await run.call("book", seats(room), tool_call_id="1")).code is Code.OK


async def test_a_rule_that_errs_refuses(world: StoryWorld) -> None:
    """B3: a division by zero is no yes; what it was is for the audit."""
    room = fresh_room(world, blocks=0)
    obs = await world.run().call("book", seats(room), tool_call_id="1")
    assert (obs.code, obs.reason) == (Code.RULE_VIOLATED, "blocks")
    detail = json.loads((await refusal_of(world, obs.call_id)).record.detail)
    assert detail["yielded"].startswith("error:")
    assert not entered(world, obs.call_id)


async def test_an_action_that_the_request_did_not_announce_goes_to_a_person(world: StoryWorld) -> None:
    """B4: the run said what its request can cause; a write that is not among it is held, one that is passes."""
    room, order = fresh_room(world), fresh_order()
    run = world.run(intent="book a room", allow=["book"])
    assert (await run.call("book", seats(room), tool_call_id="1")).code is Code.OK
    held = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": 100}), tool_call_id="2")
    assert held.code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, held.call_id))
    assert hold["reason"] == "origin_breach"
    await decide(world, hold["hold_id"], "deny")
    assert (await run.wait(held.call_id)).code is Code.APPROVAL_DENIED


async def test_what_the_user_said_may_decide_a_guarded_argument(world: StoryWorld) -> None:
    """B4: the same recipient in the user's own words needs nobody's yes for its origin; the host's mark alone is not believed."""
    said = world.run(intent="write to Ben", user_turns=["Write to ben@shop.example that it is done."])
    recipient = json.dumps({"recipient": "ben@shop.example", "text": "done"})
    pending = await not_yet_final(said, "send", recipient, tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    assert hold["reason"] == "risk", "held because it is a write, not for where the recipient came from"
    await decide(world, hold["hold_id"], "approve")
    assert (await said.wait(pending.call_id)).code is Code.OK


async def test_rules_are_checked_again_on_fresh_facts_right_before_the_tool(world: StoryWorld) -> None:
    """B5: what was approved on Monday's facts is judged by Friday's; the executor says no, and the tool is not entered."""
    room, run = fresh_room(world, free=10), world.run()
    pending = await not_yet_final(run, "book", seats(room, 6), tool_call_id="1")
    assert pending.code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    world.bookings.put(room, free=5)
    await decide(world, hold["hold_id"], "approve")
    ended = await run.wait(pending.call_id)
    assert (ended.code, ended.reason, ended.final) == (Code.RULE_VIOLATED, "enough", True)
    envelope = await refusal_of(world, pending.call_id)
    assert envelope.writer == "executor"
    assert json.loads(envelope.record.detail)["values"] == {"args.seats": 6, "facts.free": 5}
    assert not entered(world, pending.call_id)
    assert world.bookings.state(room)["free"] == 5


async def test_the_facts_that_were_judged_reach_the_tool_as_its_precondition(world: StoryWorld) -> None:
    """B5, E12: an optimistic version: the tool writes only if nobody changed the room since."""
    room, run = fresh_room(world, version=7), world.run()
    booked = await run.call("book", seats(room, 2), tool_call_id="1")
    assert json.loads(booked.content or "") == {"booked": 2, "version": 7}
    raced = await run.call("book", seats(room, 2, "race"), tool_call_id="2")
    assert (raced.code, raced.reason) == (Code.TOOL_FAILED, "changed")
    assert world.bookings.state(room)["free"] == 10, "the other writer's, not ours"


@pytest.mark.parametrize(("free", "again"), [(10, True), (1, False)])
async def test_a_doubt_is_sent_again_only_by_the_rules_and_on_fresh_facts(world: StoryWorld, free: int, again: bool) -> None:
    """B5, E6: whoever sends again for a claim in doubt judges fresh facts and hands them on, or asks people."""
    room, run = fresh_room(world, free=free), world.run()
    obs = await not_yet_final(run, "book", seats(room, 1, "lose"), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, obs.call_id))
    assert hold["reason"] == "in_doubt"
    entries = [e.record for e in await world.records(CALLS_LEDGER) if e.record.call_id == obs.call_id]
    sent = [entry.by for entry in entries if entry.kind is LedgerKind.ATTEMPTED]
    assert ("recoverer" in sent) is again
    assert len(world.bookings.noted(room)) == len(sent), "each of them had the facts as its precondition"
    assert set(world.bookings.noted(room)[:1]) == {1}
    assert (max(world.bookings.noted(room)) > 1) is again
    await decide(world, hold["hold_id"], "committed")
    assert (await run.wait(obs.call_id)).code is Code.OK


async def test_facts_are_read_once_at_each_gate(world: StoryWorld) -> None:
    """B2, B5: one look at the validator, a fresh one at the executor, and none of them is kept for the next call."""
    room, run = fresh_room(world), world.run()
    for number in (1, 2):
        assert (await run.call("book", seats(room), tool_call_id=str(number))).code is Code.OK
        assert world.bookings.state(room)["looks"] == 2 * number


async def test_a_changed_rule_is_another_tool(memory_world: MemoryWorld) -> None:
    """B6: what was validated by one rule is not run by an executor that has another."""
    world, room = memory_world, fresh_room(memory_world)
    run = world.run()
    pending = await not_yet_final(run, "book", seats(room, 6), tool_call_id="1")
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    other = dataclasses.replace(world.pipeline.world, catalog=world.catalog_with("book", _stricter))
    assert other.catalog.get("book").version != world.pipeline.catalog.get("book").version  # type: ignore[union-attr]
    await world.pipeline.crash_stage("executor")
    world.pipeline.world = other
    await world.pipeline.start_stage("executor")
    await decide(world, hold["hold_id"], "approve")
    ended = await run.wait(pending.call_id, timeout=3)
    assert (ended.code, ended.reason) == (Code.TOOL_CHANGED, "tool_version")
    assert not entered(world, pending.call_id)


def _stricter(tool: Any) -> Any:
    return dataclasses.replace(tool, rules=(*tool.rules, Rule("few", "args.seats < 100", "Not so many.")))
