"""Seals on a log that anybody can write to: the same attacks on every bus, with the keys of the wrong gates among them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from fourgates.contract.avro import AvroCodec
from fourgates.contract.codes import Code
from fourgates.contract.events import ApprovalEvent, ApprovalKind, CallCleared, Decided, LedgerEntry, LedgerKind
from fourgates.contract.parts import Principal, ref_of
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import APPROVALS, CALL_KEYED, CALLS_CLEARED, CALLS_COMPLETED, CALLS_LEDGER, RECORDS_DEAD
from fourgates.runtime.data import data_folder
from fourgates.runtime.registry import LocalRegistry
from support.eventually import eventually
from support.forging import alterations
from support.worlds import StoryWorld, decide, fresh_order, holds_of, not_yet_final, publish

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def of_call(world: StoryWorld, topic: str, call_id: str) -> list[Envelope]:
    """The call's records on a topic, oldest first; a decision and an answer belong to it as well."""
    found = [envelope for envelope in await world.records(topic) if getattr(envelope.record, "call_id", "") == call_id]
    return found or [e for e in await world.records(topic) if getattr(getattr(e.record, "call", None), "call_id", "") == call_id]


async def buried(world: StoryWorld, places: list[Position]) -> list[str]:
    """The reasons of the dead letters of these records, once each of them has one."""

    async def all_of_them() -> list[str]:
        letters = {
            (e.record.topic, e.record.partition, e.record.offset): e.record.reason for e in await world.records(RECORDS_DEAD)
        }
        found = [letters.get((place.topic, place.partition, place.offset), "") for place in places]
        return found if all(found) else []

    reasons: list[str] = await eventually(all_of_them)
    return reasons


def paid(world: StoryWorld, order: str) -> int:
    return sum(1 for _, _, what in world.downstream.effects("pay") if what == order)


async def held_payment(world: StoryWorld, order: str) -> tuple[Any, Any, dict[str, Any]]:
    """(run, the pending answer, the hold) of a payment that waits for people."""
    run = world.run()
    pending = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": 9_000}), tool_call_id="1")
    assert pending.code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, pending.call_id))
    return run, pending, hold


async def test_no_field_of_a_cleared_call_can_be_altered(world: StoryWorld) -> None:
    """P6: one at a time, at every depth, on the log that is run from."""
    order, run = fresh_order(), world.run()

    async def ran() -> Any:
        first = await run.call("pay", json.dumps({"order": order, "cents": 100}), tool_call_id="1")
        return first if first.code is Code.OK else None  # a pipeline that has just started may wait for the audit

    first = await eventually(ran)
    [cleared, *_] = await eventually(lambda: of_call(world, CALLS_CLEARED, first.call_id))
    codec = AvroCodec(LocalRegistry(data_folder("schemas")))
    places = [
        await world.append(CALLS_CLEARED, forged.key().encode(), codec.encode(forged)[1])
        for _, forged in alterations(cleared.record)
    ]
    reasons = await buried(world, places)
    assert set(reasons) <= {"bad_seal", "wrong_writer"}
    assert paid(world, order) == 1


async def test_a_gates_own_key_does_not_speak_for_another_gate(world: StoryWorld) -> None:
    """P6, A7: the executor cannot clear, the waiter cannot decide, the sanitizer cannot end a call, no stage can cancel."""
    order = fresh_order()
    run, pending, hold = await held_payment(world, order)
    [held] = [e for e in await of_call(world, APPROVALS, pending.call_id) if e.record.kind is ApprovalKind.HELD]
    call, verdicts = held.record.held.call, held.record.held.verdicts
    [requested] = [e for e in await of_call(world, APPROVALS, pending.call_id) if e.record.kind is ApprovalKind.REQUESTED]
    yes = Decided(
        verdict="approve", shown_digest=requested.record.requested.shown_digest,
        principal=Principal(issuer="i", subject="ben", tenant="acme", person="ben", groups=("finance",)),
    )  # fmt: skip
    decided = ApprovalEvent(
        event_id="d" * 32, producer="test", kind=ApprovalKind.DECIDED, hold_id=hold["hold_id"], call_id=call.call_id, decided=yes
    )
    cleared = CallCleared(event_id="c" * 32, producer="test", kind="cleared", call=call, verdicts=verdicts)  # type: ignore[arg-type]
    ended = LedgerEntry(
        event_id="f" * 32,
        producer="test",
        kind=LedgerKind.FINISHED,
        call_id=call.call_id,
        about=ref_of(call),
        outcome="committed",
    )
    cancelled = dataclasses.replace(ended, kind=LedgerKind.CANCELLED, outcome="", code="cancelled")
    wrong = [
        ("waiter", decided), ("executor", decided), ("authorizer", decided), ("executor", cleared), ("validator", cleared),
        ("sanitizer", ended), ("waiter", ended), ("validator", ended), ("executor", cancelled), ("waiter", cancelled),
    ]  # fmt: skip
    reasons = await buried(world, [await publish(world, writer, record) for writer, record in wrong])
    assert set(reasons) == {"wrong_writer"}
    # With its own key the authorizer may write this, but not without the person that its verdict asks for.
    assert await buried(world, [await publish(world, "authorizer", cleared)]) == ["bad_verdicts"]
    assert paid(world, order) == 0
    assert [h["hold_id"] for h in await holds_of(world, pending.call_id)] == [hold["hold_id"]]
    await decide(world, hold["hold_id"], "deny")
    assert (await run.wait(pending.call_id)).code is Code.APPROVAL_DENIED


async def test_a_finished_calls_records_appended_once_more_say_nothing_new(world: StoryWorld) -> None:
    """P6, E1: request, validation, approval, clearance, ledger and answer, byte for byte."""
    order = fresh_order()
    run, pending, hold = await held_payment(world, order)
    await decide(world, hold["hold_id"], "approve")
    first = await run.wait(pending.call_id)
    assert first.code is Code.OK
    answers = len(await of_call(world, CALLS_COMPLETED, pending.call_id))
    for topic in (*CALL_KEYED, CALLS_COMPLETED):
        for envelope in await of_call(world, topic, pending.call_id):
            await world.append(topic, envelope.record.key().encode(), envelope.raw)

    async def answered() -> bool:
        return len(await of_call(world, CALLS_COMPLETED, pending.call_id)) > 2 * answers

    await eventually(answered)
    again = await run.call("pay", json.dumps({"order": order, "cents": 9_000}), tool_call_id="1")
    assert again.to_json() == first.to_json()
    assert paid(world, order) == 1
    finals = {e.record.observation for e in await of_call(world, CALLS_COMPLETED, pending.call_id) if e.record.final}
    assert len(finals) == 1
    assert [e.record.kind for e in await of_call(world, CALLS_LEDGER, pending.call_id)].count(LedgerKind.ATTEMPTED) == 2
