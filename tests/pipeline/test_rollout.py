"""A rollout: calls that were judged by the earlier version of a tool run by it, beside new ones that run by the new one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fourgates.assembly import STAGES
from fourgates.catalog import Catalog, Rule
from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerKind
from fourgates.contract.topology import CALLS_LEDGER
from support.eventually import eventually
from support.worlds import MemoryWorld, decide, fresh_order, holds_of, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def deploy(world: MemoryWorld, catalog: Catalog) -> None:
    """Every stage's process is replaced by one of another build."""
    world.pipeline.world = dataclasses.replace(world.pipeline.world, catalog=catalog)
    for stage in STAGES:
        await world.pipeline.stop_stage(stage)
        await world.pipeline.start_stage(stage)


async def versions_that_ran(world: MemoryWorld) -> dict[str, str]:
    """Call -> version by which it was claimed."""
    claims = [e.record for e in await world.records(CALLS_LEDGER) if e.record.kind is LedgerKind.CLAIMED]
    return {claim.call_id: claim.call.tool_version for claim in claims}


async def held_payment(world: MemoryWorld, run: Any, number: str) -> Any:
    return await not_yet_final(run, "pay", json.dumps({"order": fresh_order(), "cents": 9_000}), tool_call_id=number)


def _stricter(tool: Any) -> Any:
    return dataclasses.replace(tool, rules=(*tool.rules, Rule("few", "args.cents < 50000", "Not so much.")))


async def test_two_versions_are_served_side_by_side(memory_world: MemoryWorld) -> None:
    """S8: what people were asked about under the earlier version runs by it after the rollout; a new call runs by the new one."""
    world, run = memory_world, memory_world.run()
    before, after = world.pipeline.catalog, world.catalog_with("pay", _stricter)
    old = await held_payment(world, run, "1")
    [hold] = await eventually(lambda: holds_of(world, old.call_id))
    after.keep(before)
    await deploy(world, after)
    new = await held_payment(world, run, "2")
    [newer] = await eventually(lambda: holds_of(world, new.call_id))
    for each in (hold, newer):
        assert (await decide(world, each["hold_id"], "approve")).status_code == 200
    assert (await run.wait(old.call_id)).code is Code.OK
    assert (await run.wait(new.call_id)).code is Code.OK
    pay_before, pay_after = before.get("pay"), after.get("pay")
    assert pay_before is not None and pay_after is not None
    ran = await versions_that_ran(world)
    assert (ran[old.call_id], ran[new.call_id]) == (pay_before.version, pay_after.version)
    refused = await run.call("pay", json.dumps({"order": fresh_order(), "cents": 60_000}), tool_call_id="3")
    assert (refused.code, refused.reason) == (Code.RULE_VIOLATED, "few")


async def test_a_version_that_is_not_kept_is_withdrawn(memory_world: MemoryWorld) -> None:
    """S8: what waits for it ends as tool_changed, nothing runs; the same key asked again is judged by the new version."""
    world, run = memory_world, memory_world.run()
    old = await held_payment(world, run, "1")
    await eventually(lambda: holds_of(world, old.call_id))
    await deploy(world, world.catalog_with("pay", _stricter))
    told = await run.wait(old.call_id, timeout=10)
    assert (told.code, told.final) == (Code.TOOL_CHANGED, False)
    assert all(key != old.call_id for _, key, _ in world.downstream.entries())
