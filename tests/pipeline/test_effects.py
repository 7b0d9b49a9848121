"""Effect keys: who gives them back, and what a call that lost against one has come to."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import pytest

from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import EffectEntry, EffectKind, LedgerEntry, LedgerKind
from fourgates.contract.parts import Call, ref_of
from fourgates.contract.topology import CALLS_LEDGER, EFFECTS
from support.eventually import eventually
from support.worlds import MemoryWorld, StoryWorld, decide, fresh_order, holds_of, not_yet_final, publish

pytestmark = pytest.mark.asyncio(loop_scope="session")
LONG_MS = 600_000


async def claimed_call(world: StoryWorld, order: str) -> Call:
    """Some call as the gates let it through, with an effect of its own."""
    sample = await world.run().call("pay", json.dumps({"order": fresh_order(), "cents": 100}), tool_call_id="sample")
    claims = [e.record.call for e in await world.records(CALLS_LEDGER) if e.record.kind is LedgerKind.CLAIMED]
    [call] = [call for call in claims if call.call_id == sample.call_id]
    return dataclasses.replace(
        call, call_id=hashlib.sha256(order.encode()).hexdigest(), effect_key=ids.effect_key("acme", "pay", order)
    )


class Gone:
    """An executor that is not there any more: what it had appended stands."""

    def __init__(self, world: StoryWorld, call: Call) -> None:
        self._world, self._call, self._claim = world, call, ids.random_id()
        self.fence = -1

    async def claims(self, lease_ms: int = LONG_MS) -> None:
        claimed = await self._say(LedgerKind.CLAIMED, call=self._call, verdicts=(), lease_ms=lease_ms)
        self.fence = claimed.offset
        await self.claims_effect()

    async def claims_effect(self, key: str = "") -> None:
        await publish(self._world, "executor", EffectEntry(
            event_id=ids.random_id(), producer="gone", kind=EffectKind.CLAIMED, effect_key=key or self._call.effect_key,
            call_id=self._call.call_id, fence=self.fence, claim_id=self._claim, window_ms=LONG_MS, subject="anna",
        ))  # fmt: skip

    async def reserves(self, key: str) -> None:
        await publish(self._world, "executor", EffectEntry(
            event_id=ids.random_id(), producer="gone", kind=EffectKind.RESERVED, effect_key=key, call_id=self._call.call_id,
            fence=self.fence, claim_id=self._claim, window_ms=LONG_MS, amount=1, limit=1,
        ))  # fmt: skip

    async def refuses(self) -> None:
        await self._say(LedgerKind.REFUSED, code="rule_violated", vouches=0)

    async def _say(self, kind: LedgerKind, **fields: Any) -> Any:
        return await publish(self._world, "executor", LedgerEntry(
            event_id=ids.random_id(), producer="gone", kind=kind, call_id=self._call.call_id, about=ref_of(self._call),
            claim_id=self._claim, **fields,
        ))  # fmt: skip


async def given_back(world: StoryWorld, call_id: str, kind: EffectKind) -> list[int]:
    return [e.record.fence for e in await world.records(EFFECTS) if e.record.call_id == call_id and e.record.kind is kind]


async def test_the_owner_gives_back_what_a_gone_executor_held(world: StoryWorld) -> None:
    """E4, E5, B7: it claimed, reserved, ended the call without effect, and died before it released: the partition's owner does.

    Its late effect claim, which comes after the end, is given back as well.
    """
    order = fresh_order()
    call = await claimed_call(world, order)
    gone, quota = Gone(world, call), ids.effect_key("acme", "quota:test", order)
    await gone.claims()
    await gone.reserves(quota)
    pay = json.dumps({"order": order, "cents": 100})
    held = await not_yet_final(world.run(), "pay", pay, tool_call_id="1")
    assert held.code is Code.APPROVAL_PENDING  # while the claim stands, nobody else may have the effect
    await gone.refuses()
    assert await eventually(lambda: given_back(world, call.call_id, EffectKind.RELEASED)) == [gone.fence]
    assert await eventually(lambda: given_back(world, call.call_id, EffectKind.RETURNED)) == [gone.fence]
    assert (await world.run().call("pay", pay, tool_call_id="2")).code is Code.OK
    late = ids.effect_key("acme", "pay", fresh_order())
    await gone.claims_effect(late)

    async def both() -> bool:
        return len(await given_back(world, call.call_id, EffectKind.RELEASED)) == 2

    await eventually(both)


async def test_who_takes_over_gives_back_what_was_left(memory_world: MemoryWorld) -> None:
    """E4, E5: the call ends while no executor is there; the next owner finds it at its start."""
    world, order = memory_world, fresh_order()
    call = await claimed_call(world, order)
    gone = Gone(world, call)
    await world.pipeline.crash_stage("executor")
    await gone.claims()
    await gone.refuses()
    await world.pipeline.start_stage("executor")
    assert await eventually(lambda: given_back(world, call.call_id, EffectKind.RELEASED)) == [gone.fence]


async def test_a_call_that_got_anothers_answer_never_runs_itself(world: StoryWorld) -> None:
    """E1, E4: it has ended in the ledger, so that it stays ended when the window of the effect is over."""
    text, run = fresh_order(), world.run()
    first = await run.call("post", json.dumps({"text": text}), tool_call_id="1")
    second = await run.call("post", json.dumps({"text": text}), tool_call_id="2")
    assert (first.code, second.code, second.replayed) == (Code.OK, Code.OK, True)
    [end] = [
        e.record for e in await world.records(CALLS_LEDGER)
        if e.record.call_id == second.call_id and e.record.kind is LedgerKind.REFUSED
    ]  # fmt: skip
    assert (end.code, json.loads(end.detail)["answers"]) == ("duplicate_effect", first.call_id)
    again = await run.call("post", json.dumps({"text": text}), tool_call_id="2")
    assert again.to_json() == second.to_json()


async def test_a_duplicate_of_a_call_in_doubt_is_told_that_the_effect_is_taken(world: StoryWorld) -> None:
    """E4, E6: nobody's answer is waited for longer than some seconds; once people have settled the first, it has its own."""
    text, run = fresh_order(), world.run()
    first = await not_yet_final(run, "post", json.dumps({"text": text, "mode": "lose"}), tool_call_id="1")
    assert first.code is Code.IN_DOUBT
    second = await run.call("post", json.dumps({"text": text}), tool_call_id="2", wait=60)
    assert (second.code, second.final) == (Code.DUPLICATE_EFFECT, True)
    [hold] = await eventually(lambda: holds_of(world, first.call_id))
    await decide(world, hold["hold_id"], "committed")
    assert (await run.wait(first.call_id)).code is Code.OK


async def test_nobody_else_gets_anothers_answer(world: StoryWorld) -> None:
    """E4, P6: a result is replayed to the subject that asked; another one is told that the effect is taken."""
    text = fresh_order()
    assert (await world.run("anna").call("post", json.dumps({"text": text}), tool_call_id="1")).code is Code.OK
    other = await world.run("ben").call("post", json.dumps({"text": text}), tool_call_id="1")
    assert (other.code, other.content) == (Code.DUPLICATE_EFFECT, None)


async def test_a_doubt_outlives_its_executor(world: StoryWorld) -> None:
    """E5, E6: who takes over fetches the open claim, goes on finding out, takes people's word; asked later, it is told."""
    order, text, run = fresh_order(), fresh_order(), world.run()
    doubt = await run.call("post", json.dumps({"text": text, "mode": "lose"}), tool_call_id="1", wait=5)
    assert doubt.code is Code.IN_DOUBT
    await world.kill("executor")
    # What goes on needs the call itself: its probe, which bars the key, by the version it ran with.
    shipped = await run.call("ship", json.dumps({"order": order, "mode": "vanish"}), tool_call_id="2", wait=60)
    assert shipped.code is Code.TOOL_FAILED
    [hold] = await eventually(lambda: holds_of(world, doubt.call_id))
    await decide(world, hold["hold_id"], "committed")
    final = await run.wait(doubt.call_id)
    assert (final.code, final.final) == (Code.OK, True)
    again = await run.call("post", json.dumps({"text": text, "mode": "lose"}), tool_call_id="1")
    assert again.to_json() == final.to_json()
    assert sum(1 for _, _, what in world.downstream.effects("post") if what == text) == 1


async def test_an_open_claim_of_a_gone_executor_is_found_out_about(memory_world: MemoryWorld) -> None:
    """E5, E6: its lease begins anew with who takes over, from an entry that was first read only as far as the fold looks."""
    world, order = memory_world, fresh_order()
    call = await claimed_call(world, order)
    gone = Gone(world, call)
    await world.pipeline.crash_stage("executor")
    await gone.claims(lease_ms=200)
    await world.pipeline.start_stage("executor")

    async def settled() -> list[LedgerEntry]:
        mine = [e.record for e in await world.records(CALLS_LEDGER) if e.record.call_id == call.call_id]
        return [entry for entry in mine if entry.kind in (LedgerKind.FINISHED, LedgerKind.RESOLVED)]

    [last] = await eventually(settled)  # nothing had been sent: the key is honoured, so it is sent now
    assert last.outcome == "committed"
    assert [key for _, key, what in world.downstream.effects("pay") if key == call.call_id] == [call.call_id]
