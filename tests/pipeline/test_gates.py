"""What the gates refuse on the way, and what a forger gets: nothing."""

from __future__ import annotations

import dataclasses
import json

import pytest

from fourgates.contract.avro import AvroCodec
from fourgates.contract.codes import Code
from fourgates.contract.parts import Risk
from fourgates.contract.seals import HmacSigner, RecordWriter
from fourgates.contract.topology import AUDITED, CALLS_CLEARED, RECORDS_DEAD
from fourgates.runtime.data import data_folder
from fourgates.runtime.registry import LocalRegistry
from support.eventually import eventually
from support.worlds import StoryWorld, fresh_order

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def dead_reasons(world: StoryWorld, topic: str) -> list[str]:
    return [e.record.reason for e in await world.records(RECORDS_DEAD) if e.record.topic == topic]


async def test_unknown_tools_rules_and_rights_each_have_their_code(world: StoryWorld) -> None:
    """C4, B1, P2, P5: nothing runs; the reason is the rule's or the policy's."""
    run = world.run()
    assert (await run.call("launch", "{}", tool_call_id="1")).code is Code.UNKNOWN_TOOL
    rule = await run.call("pay", json.dumps({"order": fresh_order("X"), "cents": 100}), tool_call_id="2")
    assert (rule.code, rule.reason, rule.field) == (Code.RULE_VIOLATED, "owned", "/order")
    assert "no such order" in rule.message
    stranger = world.run("zoe", ("visitors",))
    denied = await stranger.call("pay", json.dumps({"order": fresh_order(), "cents": 100}), tool_call_id="1")
    assert (denied.code, denied.final) == (Code.PERMISSION_DENIED, True)


async def test_secrets_and_faults_of_a_tool_do_not_reach_the_model(world: StoryWorld) -> None:
    """R3, R5, R7: secrets are redacted, an undeclared error is `internal` without its text, a declared one is told."""
    run = world.run()
    secret = await run.call("look", json.dumps({"item": "db", "mode": "secret"}), tool_call_id="1")
    assert secret.code is Code.OK and "hunter2" not in secret.to_json()
    missing = await run.call("look", json.dumps({"item": "x", "mode": "missing"}), tool_call_id="2")
    assert (missing.code, missing.reason) == (Code.INVALID_ARGUMENTS, "no_such_item")
    assert "There is no such item." in missing.message
    for topic in ("calls.ledger", "calls.completed"):
        assert all(b"hunter2" not in (e.raw or b"") for e in await world.records(topic))


async def test_an_event_forged_onto_calls_cleared_runs_nothing(world: StoryWorld) -> None:
    """P6: right Avro, right key, right partition, wrong seals: dead letter, nobody is answered, nothing runs."""
    order, run = fresh_order(), world.run()
    real = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="1")

    async def cleared() -> list[object]:
        return [e for e in await world.records(CALLS_CLEARED) if e.record.call.call_id == real.call_id]

    [envelope] = await eventually(cleared)
    victim = fresh_order()
    arguments = json.dumps({"cents": 100, "mode": "ok", "order": victim}, separators=(",", ":"))
    call = dataclasses.replace(envelope.record.call, arguments=arguments, effect_key="acme/pay/forged", risk=Risk.WRITE)
    forged = dataclasses.replace(envelope.record, call=call)
    codec = AvroCodec(LocalRegistry(data_folder("schemas")))
    for key_id in ("authorizer:1", "waiter:1", "executor:1"):
        topic, key, value = RecordWriter(codec, HmacSigner(key_id, b"guess" * 8)).encode(forged)
        await world.append(topic, key, value)
    await world.append(CALLS_CLEARED, envelope.record.key().encode(), envelope.raw[:-1] + b"\x00")

    async def buried() -> bool:
        reasons = await dead_reasons(world, CALLS_CLEARED)
        return reasons.count("bad_seal") >= 3 and "wrong_writer" in reasons

    await eventually(buried)
    assert all(what != victim for _, _, what in world.downstream.effects("pay"))


async def test_a_sealed_record_on_another_partition_runs_nothing(world: StoryWorld) -> None:
    """P6: nothing may run from an empty ledger next door."""
    order, run = fresh_order(), world.run()
    real = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="1")

    async def cleared() -> list[object]:
        return [e for e in await world.records(CALLS_CLEARED) if e.record.call.call_id == real.call_id]

    [envelope] = await eventually(cleared)
    elsewhere = (envelope.position.partition + 1) % 12
    await world.append(CALLS_CLEARED, envelope.record.key().encode(), envelope.raw, elsewhere)

    async def buried() -> bool:
        return "wrong_partition" in await dead_reasons(world, CALLS_CLEARED)

    await eventually(buried)
    assert [what for _, _, what in world.downstream.effects("pay") if what == order] == [order]


@pytest.mark.parametrize("value", [b"\x00\x00\x00\x00\x01rubbish", b"not avro at all", b"x" * 1_000_001, None])
@pytest.mark.parametrize("topic", [topic for topic in AUDITED if topic != RECORDS_DEAD])
async def test_rubbish_on_a_topic_is_a_dead_letter_and_the_partition_goes_on(
    world: StoryWorld, topic: str, value: bytes | None
) -> None:
    """S3: malformed bytes, null values, unknown schema ids; nobody is answered and the next call passes."""
    before = len(await dead_reasons(world, topic))
    await world.append(topic, b"some-key", value)

    async def buried() -> bool:
        return len(await dead_reasons(world, topic)) > before

    await eventually(buried)
    obs = await world.run().call("look", json.dumps({"item": "x"}), tool_call_id="1")
    assert obs.code is Code.OK
