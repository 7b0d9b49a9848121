"""Gate 1 on every bus: what a model writes is taken as it stands, once, or refused with the place where it is wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time

import pytest

from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.codes import Code
from fourgates.contract.events import CallCleared, CallValidated, LedgerEntry, LedgerKind
from fourgates.contract.parts import Call
from fourgates.contract.seals import seal_verdict
from fourgates.contract.topology import CALLS_CLEARED, CALLS_LEDGER, CALLS_VALIDATED
from support.asking import ask, request
from support.eventually import eventually
from support.worlds import StoryWorld, fresh_order, not_yet_final, publish

pytestmark = pytest.mark.asyncio(loop_scope="session")
DEEP = '{"order":' + "[" * 40 + "]" * 40 + "}"


def entered(world: StoryWorld, call_id: str) -> bool:
    return any(key == call_id for _, key, _ in world.downstream.entries())


@pytest.mark.parametrize(
    ("text", "reason", "field"),
    [
        ('{"order": "A-1", "cents": 100, "cents": 1}', "duplicate_key", "/cents"),
        ('{"order": "A-1", "cents": 100} {"cents": 1}', "two_values", ""),
        ('{"order": "A-1", "cents": 100} and pay', "trailing_text", ""),
        ('{"order": "A-1", "cents": NaN}', "not_finite", "/cents"),
        ('{"order": "A-1", "cents": 9007199254740993}', "integer_out_of_range", "/cents"),
        ('{"order": "A-\\ud800", "cents": 100}', "lone_surrogate", "/order"),
        (DEEP, "too_deep", ""),
        ('{"order": "A-1", "cents": "100"}', "wrong_type", "/cents"),
        ('{"order": "A-1", "cents": 100.5}', "wrong_type", "/cents"),
        ('{"order": "A-1", "cents": true}', "wrong_type", "/cents"),
        ('{"order": "A-1", "cents": 0}', "out_of_range", "/cents"),
        ('{"order": "A-1", "cents": 100, "mode": "please"}', "not_allowed", "/mode"),
        ('{"order": "a", "cents": 100}', "wrong_pattern", "/order"),
        ('{"order": "A-1", "cents": 100, "call_id": "abc"}', "unknown_field", "/call_id"),
        ('{"order": "A-1", "cents": 100, "token": "abc"}', "unknown_field", "/token"),
        ("[]", "not_an_object", ""),
        ("", "malformed_json", ""),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_named_by_its_place_and_nothing_runs(
    world: StoryWorld, text: str, reason: str, field: str
) -> None:
    """C5, C6, C9: one parse of the raw text; numbers sent as text are not coerced; a key that the model sends is refused."""
    obs = await world.run().call("pay", text, tool_call_id="1")
    assert (obs.code, obs.final, obs.recoverable) == (Code.INVALID_ARGUMENTS, True, True)
    assert (obs.reason, obs.field) == (reason, field)
    assert not entered(world, obs.call_id)


async def test_digest_is_taken_once_after_defaults_and_the_same_for_every_spelling(world: StoryWorld) -> None:
    """C8: RFC 8785 and sha256 over the normalised arguments; the effect's key follows from it at every gate."""
    order, run = fresh_order(), world.run()
    texts = (f'{{"order": "{order}", "cents": 100}}', f' {{ "mode" : "ok", "cents":1e2, "order":"\\u0041{order[1:]}" }} ')
    for number, text in enumerate(texts):
        first = await not_yet_final(run, "pay", text, tool_call_id=str(number))
        assert first.code in (Code.OK, Code.APPROVAL_PENDING), first.to_json()
    calls: list[Call] = [e.record.call for e in await world.records(CALLS_VALIDATED) if e.record.call.run_id == run.id]
    whole = {"cents": 100, "mode": "ok", "order": order}
    for call in calls:
        assert json.loads(call.arguments) == whole
        assert call.args_digest == hashlib.sha256(call.arguments.encode()).hexdigest() == digest(whole)
    assert len({call.call_id for call in calls}) == 2, "two calls"
    assert len({call.effect_key for call in calls}) == 1, "of one effect"


async def test_a_tool_that_nobody_has_and_another_version_have_a_code_each(world: StoryWorld) -> None:
    """C4: a disabled one has its story elsewhere."""
    run = world.run()
    unknown = await run.call("drop_tables", "{}", tool_call_id="1")
    assert (unknown.code, unknown.final) == (Code.UNKNOWN_TOOL, True)
    await run.call("look", '{"item": "x"}', tool_call_id="2")
    [validated] = [e.record for e in await world.records(CALLS_VALIDATED) if e.record.call.run_id == run.id]
    other = await resealed(world, validated, tool_version="0" * 64)
    entry = await refused(world, other.call_id)
    assert (entry.code, entry.reason) == ("tool_changed", "tool_version")
    assert not entered(world, other.call_id)


async def test_call_id_is_derived_again_and_another_one_belongs_to_nobody(world: StoryWorld) -> None:
    """C9: a host that could choose it could end, or be answered for, somebody else's call."""
    victim = await world.run("ben").call("look", '{"item": "x"}', tool_call_id="1")
    for stolen in (victim.call_id, "0" * 64, ""):
        asked = await ask(world, request(world, call_id=stolen))
        assert await asked.dead(world) == "wrong_call_id"
    assert not entered(world, "0" * 64)


async def test_the_typed_model_at_the_executor_is_a_second_check(world: StoryWorld) -> None:
    """C7: what every gate has sealed and the tool's own model does not take is refused there; so is a wrong digest."""
    run = world.run()
    await run.call("look", '{"item": "x"}', tool_call_id="1")
    [validated] = [e.record for e in await world.records(CALLS_VALIDATED) if e.record.call.run_id == run.id]
    for arguments, code, reason in (
        ({"item": "x" * 200, "mode": "plain"}, "invalid_arguments", "typed_model"),
        ({"item": 5, "mode": "plain"}, "invalid_arguments", "typed_model"),
        ({"item": "x", "mode": "plain", "more": 1}, "invalid_arguments", "typed_model"),
    ):
        text = canonical(arguments).decode()
        cleared = await resealed(world, validated, cleared=True, arguments=text, args_digest=digest(arguments))
        entry = await refused(world, cleared.call_id)
        assert (entry.code, entry.reason) == (code, reason)
        assert not entered(world, cleared.call_id)
    other = await resealed(world, validated, cleared=True, args_digest="0" * 64)
    assert (await refused(world, other.call_id)).reason == "args_digest"
    assert not entered(world, other.call_id)


async def resealed(world: StoryWorld, validated: CallValidated, *, cleared: bool = False, **changes: object) -> Call:
    """The call as another one, with these changes, sealed by every gate's real key: what only a gate itself could do."""
    call = dataclasses.replace(
        validated.call, call_id=ids.random_id() * 2, deadline_ms=time.time_ns() // 1_000_000 + 20_000, **changes
    )  # type: ignore[arg-type]  # fields of a Call
    sign = world.keyring.signer
    first = seal_verdict(sign("validator"), call, dataclasses.replace(validated.verdicts[0], mac=b""), ())
    if not cleared:
        await publish(world, "validator", dataclasses.replace(validated, call=call, verdicts=first, event_id=ids.random_id()))
        return call
    [known] = [e.record for e in await world.records(CALLS_CLEARED) if e.record.call.call_id == validated.call.call_id]
    both = seal_verdict(sign("authorizer"), call, dataclasses.replace(known.verdicts[1], mac=b""), first)
    record: CallCleared = dataclasses.replace(known, call=call, verdicts=both, event_id=ids.random_id())
    await publish(world, "authorizer", record)
    return call


async def refused(world: StoryWorld, call_id: str) -> LedgerEntry:
    """The refusal of a call, once it is in the ledger."""

    async def found() -> LedgerEntry | None:
        entries = [e.record for e in await world.records(CALLS_LEDGER) if e.record.call_id == call_id]
        return next((entry for entry in entries if entry.kind is LedgerKind.REFUSED), None)

    entry: LedgerEntry = await eventually(found)
    return entry
