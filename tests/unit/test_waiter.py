"""The waiter: asks people, believes only what the fold says, clears once, and tells the asker how it stands."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.approval import WaiterSettings
from fourgates.catalog import Preview, ToolError
from fourgates.contract.canonical import digest, digest_bytes
from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import ApprovalKind, ClearedKind, HoldReason, LedgerEntry, LedgerKind
from fourgates.contract.parts import Breach, EffectClaim, Gate, Principal, ref_of
from fourgates.contract.seals import gates_needed, verdicts_fit
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person, requested
from support.waiting import Waiting, call_of, keyring, sealed

BEN, CLEO = person("ben"), person("cleo")
H, AGAIN, D = "h" * 32, "a" * 32, "d" * 32


async def say(world: Waiting, verdict: str, who: Principal = BEN, hold_id: str = H, **other: Any) -> None:
    """A decision on what the first Requested showed."""
    shown = world.approvals(ApprovalKind.REQUESTED, hold_id)[0].record
    record = decided(hold_id, verdict, who, call_id=shown.call_id, shown_digest=shown.requested.shown_digest, **other)
    await world.publish("approver", record)


class FastClock:
    """Five seconds ahead of the broker."""

    def __init__(self, world: Waiting) -> None:
        self._world = world

    def now_ms(self) -> int:
        return self._world.clock.now_ms() + 5_000

    def monotonic(self) -> float:
        return self._world.clock.monotonic()


async def end(world: Waiting, kind: LedgerKind = LedgerKind.CANCELLED, writer: str = "validator", **other: Any) -> None:
    """The call's last word by somebody else."""
    call = call_of(world.shop)
    entry = LedgerEntry(event_id=f"end-{kind}", producer="test", kind=kind, call_id=call.call_id, about=ref_of(call), **other)
    await world.publish(writer, entry)


async def test_held_call_becomes_one_question_and_the_asker_is_told(world: Waiting, worker: MemoryWorker) -> None:
    """A1"""
    await world.hold()
    await world.settle(worker)
    (asked,) = world.approvals(ApprovalKind.REQUESTED)
    (pending,) = world.ledger()
    assert asked.record.requested.approvable
    assert (pending.kind, pending.code, pending.hold_id) == (LedgerKind.PENDING, Code.APPROVAL_PENDING, H)
    assert world.cleared() == [] and world.shop.done == []


async def test_what_is_shown_is_whole_and_its_digest_is_what_is_digested(world: Waiting, worker: MemoryWorker) -> None:
    """A2"""
    hostile = "A-1\u202e\u200b1001" + "x" * 5_000
    call = call_of(world.shop, arguments={"order_id": hostile})
    breach = Breach(pointer="/order_id", origin="model", allowed=("user",), on_breach="hold", source="mail", quote="do it <b>now")
    await world.hold(call=call, reason=HoldReason.ORIGIN_BREACH, breaches=(breach,), facts='{"paid":250}', detail='{"why":"x"}')
    await world.settle(worker)
    requested_ = world.approvals(ApprovalKind.REQUESTED)[0].record.requested
    shown = world.shown()
    assert digest_bytes(requested_.shown.encode()) == requested_.shown_digest == digest(shown)
    assert shown["arguments"] == call.arguments and hostile in shown["arguments"]
    assert shown["preview"]["after"] == {"paid": 250, "refunded": 100}
    assert (shown["preview"]["recoverable"], shown["preview"]["amount"]) == (False, "100.00 EUR")
    assert (shown["asked_by"]["person"], shown["agent"]) == ("anna", "support-bot")
    assert shown["intent"] == {"text": call.intent, "trust": "untrusted"}
    assert shown["why"]["reason"] == "origin_breach" and shown["why"]["detail"] == {"why": "x"}
    assert shown["why"]["breaches"][0] | {"quote": "do it <b>now", "trust": "untrusted"} == shown["why"]["breaches"][0]
    assert shown["policies"] == [{"policies": ["refunds-need-people"]}] and shown["facts"] == {"paid": 250}
    assert (shown["group"], shown["quorum"], shown["risk"]) == ("finance", 1, "write")


async def test_big_integers_in_facts_are_shown_as_they_stand(world: Waiting, worker: MemoryWorker) -> None:
    """A2"""
    await world.hold(facts='{"balance":12345678901234567890}')
    await world.settle(worker)
    assert world.shown()["facts"] == '{"balance":12345678901234567890}'


async def test_yes_clears_with_the_seal_of_every_gate(world: Waiting, worker: MemoryWorker) -> None:
    """A3"""
    entry = await world.hold()
    await world.settle(worker)
    await say(world, "approve")
    await world.settle(worker)
    (cleared,) = world.cleared()
    assert verdicts_fit(keyring().verifier(), cleared.call, cleared.verdicts, gates_needed(held=True))
    preview = world.shown()["preview"]
    waiters = cleared.verdicts[-1]
    assert (waiters.gate, waiters.preview_digest) == (Gate.WAITER, digest(preview))
    assert json.loads(waiters.reasons)["approvers"] == ["ben"]
    assert entry.held is not None
    assert (cleared.kind, cleared.hold_id, cleared.hold_reason, cleared.approvers) == (ClearedKind.CLEARED, H, "risk", ("ben",))
    assert (cleared.call, cleared.approved_until_ms) == (entry.held.call, entry.held.expires_ms)


async def test_verdict_seals_only_the_call_that_was_shown(world: Waiting, worker: MemoryWorker) -> None:
    """A3: a hook that changes an argument after it was shown has no seal for it."""
    await world.hold()
    await world.settle(worker)
    await say(world, "approve")
    await world.settle(worker)
    (cleared,) = world.cleared()
    other = call_of(world.shop, arguments={"amount": 250})
    assert not verdicts_fit(keyring().verifier(), other, cleared.verdicts, gates_needed(held=True))


async def test_no_ends_the_call_and_its_function_is_never_entered(world: Waiting, worker: MemoryWorker) -> None:
    """A4"""
    await world.hold()
    await world.settle(worker)
    await say(world, "deny", reason="not this customer")
    await say(world, "approve", CLEO)
    await world.settle(worker)
    (refused,) = world.ledger(LedgerKind.REFUSED)
    assert (refused.code, refused.claim_id, refused.sentence) == (Code.APPROVAL_DENIED, "", "")
    assert "not this customer" not in refused.detail
    assert world.cleared() == [] and world.shop.done == []


async def test_words_of_a_denial_reach_the_model_only_where_marked_so(world: Waiting, worker: MemoryWorker) -> None:
    """A11"""
    await world.hold()
    await world.settle(worker)
    await say(world, "deny", reason="ask for the invoice first", tell_model=True)
    await world.settle(worker)
    (refused,) = world.ledger(LedgerKind.REFUSED)
    assert refused.sentence.endswith("ask for the invoice first") and "did not run" in refused.sentence


async def test_expiry_is_told_when_it_comes_and_late_words_are_void(world: Waiting, worker: MemoryWorker) -> None:
    """A5"""
    await world.hold(expires_ms=world.clock.now_ms() + 10_000)
    await world.settle(worker)
    await world.clock.advance(9.9)
    await world.settle(worker)
    assert world.ledger(LedgerKind.REFUSED) == []
    await world.clock.advance(0.2)
    await world.settle(worker)
    (refused,) = world.ledger(LedgerKind.REFUSED)
    assert refused.code == Code.APPROVAL_EXPIRED
    await say(world, "approve")
    await world.settle(worker)
    assert world.cleared() == [] and len(world.ledger(LedgerKind.REFUSED)) == 1


async def test_expiry_by_a_clock_that_runs_fast_is_said_again(world: Waiting) -> None:
    """A5: an Expired before its broker time is void; the call still ends, once, when its time has come."""
    fast = await world.waiter()
    await world.hold(expires_ms=world.clock.now_ms() + 10_000)
    await world.settle(fast)
    fast._stage._clock = type(
        "Fast", (), {"now_ms": lambda _: world.clock.now_ms() + 5_000, "monotonic": world.clock.monotonic}
    )()  # type: ignore[attr-defined]
    for _ in range(12):
        await world.clock.advance(1)
        await world.settle(fast)
    assert 2 <= len(world.approvals(ApprovalKind.EXPIRED)) <= 4
    assert [e.code for e in world.ledger(LedgerKind.REFUSED)] == [Code.APPROVAL_EXPIRED]
    await fast.crash()


async def test_cancel_withdraws_and_a_later_yes_is_void(world: Waiting, worker: MemoryWorker) -> None:
    """A10"""
    await world.hold()
    await world.settle(worker)
    await end(world)
    await world.clock.advance(0.2)
    await world.settle(worker)
    assert len(world.approvals(ApprovalKind.WITHDRAWN)) == 1
    await say(world, "approve")
    await world.settle(worker)
    assert world.cleared() == []
    assert [e.kind for e in world.ledger()] == [LedgerKind.PENDING, LedgerKind.CANCELLED]


async def test_doubt_is_not_withdrawn_by_a_cancel_but_by_evidence(world: Waiting, worker: MemoryWorker) -> None:
    """A10, E6"""
    call = call_of(world.shop)
    about = {"producer": "test", "call_id": call.call_id, "about": ref_of(call), "claim_id": "1" * 32}
    claimed = LedgerEntry(event_id="c", kind=LedgerKind.CLAIMED, call=call, verdicts=sealed(call), **about)  # type: ignore[arg-type]
    await world.publish("executor", claimed)
    await world.publish("executor", LedgerEntry(event_id="n", kind=LedgerKind.IN_DOUBT, code="in_doubt", **about))  # type: ignore[arg-type]
    await world.doubt()
    await end(world)
    await world.clock.advance(0.2)
    await world.settle(worker)
    assert world.approvals(ApprovalKind.WITHDRAWN) == []
    await world.publish("executor", LedgerEntry(event_id="f", kind=LedgerKind.FINISHED, outcome="committed", **about))  # type: ignore[arg-type]
    await world.clock.advance(0.2)
    await world.settle(worker)
    assert len(world.approvals(ApprovalKind.WITHDRAWN)) == 1


async def test_doubt_is_asked_without_telling_that_nothing_ran_and_returns_as_resolution(
    world: Waiting, worker: MemoryWorker
) -> None:
    """E6"""
    verdicts = sealed(call_of(world.shop), Gate.VALIDATOR, Gate.AUTHORIZER, Gate.WAITER)
    await world.doubt(attempts=2, verdicts=verdicts)
    await world.settle(worker)
    assert world.ledger() == [] and world.shown(D)["attempts"] == 2
    await say(world, "deny", hold_id=D)
    await say(world, "committed", hold_id=D)
    await world.settle(worker)
    (cleared,) = world.cleared()
    assert cleared.kind is ClearedKind.RESOLUTION and cleared.verdicts == verdicts
    resolution = cleared.resolution
    assert (resolution.claim_id, resolution.outcome, resolution.attempts, resolution.person) == ("1" * 32, "committed", 2, "ben")
    assert world.ledger() == []


async def test_near_duplicate_replaces_the_waiters_earlier_verdict(world: Waiting, worker: MemoryWorker) -> None:
    """A3, E4"""
    call, rival = call_of(world.shop), EffectClaim(call_id="f" * 64, fence=7)
    first = sealed(call, Gate.VALIDATOR, Gate.AUTHORIZER, Gate.WAITER)
    await world.hold(writer="executor", reason=HoldReason.NEAR_DUPLICATE, supersedes=(rival,), verdicts=first)
    await world.settle(worker)
    await say(world, "approve")
    await world.settle(worker)
    (cleared,) = world.cleared()
    assert verdicts_fit(keyring().verifier(), cleared.call, cleared.verdicts, gates_needed(held=True))
    assert cleared.verdicts[:2] == first[:2] and cleared.verdicts[2] != first[2]
    assert (cleared.supersedes, cleared.hold_reason) == ((rival,), "near_duplicate")


async def test_held_whose_seals_do_not_fit_is_dead_and_opens_nothing(world: Waiting, worker: MemoryWorker) -> None:
    """P6, A3"""
    other = call_of(world.shop, arguments={"amount": 9})
    await world.hold(H, verdicts=sealed(other))
    await world.hold(AGAIN, verdicts=sealed(call_of(world.shop))[:1])
    await world.hold(D, verdicts=sealed(call_of(world.shop), Gate.VALIDATOR, Gate.AUTHORIZER, Gate.WAITER))
    await world.settle(worker)
    assert world.dead() == ["bad_held"] * 3
    assert world.approvals(ApprovalKind.REQUESTED) == [] and world.ledger() == []


async def test_decision_that_matches_no_hold_is_a_dead_letter(world: Waiting, worker: MemoryWorker) -> None:
    """A6"""
    await world.publish("approver", decided("9" * 32, "approve", BEN))
    await world.settle(worker)
    assert world.dead() == ["unknown_hold"]


async def test_no_approver_configured_refuses_at_once(world: Waiting) -> None:
    """A1"""
    worker = await world.waiter(WaiterSettings(approver_groups=frozenset()))
    await world.hold()
    await world.settle(worker)
    (refused,) = world.ledger()
    assert (refused.kind, refused.code) == (LedgerKind.REFUSED, Code.APPROVAL_REQUIRED)
    assert world.approvals(ApprovalKind.REQUESTED) == [] and len(world.approvals(ApprovalKind.WITHDRAWN)) == 1
    await worker.crash()


def _raise(fault: Exception) -> Any:
    raise fault


PREVIEWS: list[tuple[Any, str]] = [
    (lambda args: _raise(ToolError("gone", "The order is not there.")), "The preview says: The order is not there. (gone)"),
    (lambda args: _raise(RuntimeError("password=hunter2")), "The preview failed (RuntimeError)."),
    (lambda args: {"target": "x"}, "The preview returned dict instead of Preview."),
    (lambda args: time.sleep(0.4), "The preview did not answer within 0.05 s."),
    (lambda args: Preview("x", {"n": float("nan")}, {}, True), "The preview cannot be shown exactly"),
    (lambda args: Preview("x", 2**60, {}, True), "The preview cannot be shown exactly"),
    (lambda args: Preview("x", 1, 2, True, binding=("nope",)), "The preview cannot be shown exactly: it binds unknown fields"),
    (lambda args: Preview("x", 1, 2, 1), "The preview cannot be shown exactly"),  # type: ignore[arg-type]  # the point
    (lambda args: Preview("x", "y" * 700_000, "", True), "It is too large to be shown as a whole"),
]


@pytest.mark.parametrize(("preview", "fault"), PREVIEWS)
async def test_destructive_call_whose_preview_fails_cannot_be_approved(world: Waiting, preview: Any, fault: str) -> None:
    """A2"""
    world.shop.preview = preview
    worker = await world.waiter(WaiterSettings(preview_timeout_s=0.05))
    await world.hold(call=call_of(world.shop, "delete_account"))
    await world.settle(worker)
    assert world.shown()["preview"] is None and world.shown()["preview_fault"].startswith(fault)
    assert not world.approvals(ApprovalKind.REQUESTED)[0].record.requested.approvable
    await say(world, "approve")
    await world.settle(worker)
    assert world.cleared() == []
    await say(world, "deny")
    await world.settle(worker)
    assert [e.code for e in world.ledger(LedgerKind.REFUSED)] == [Code.APPROVAL_DENIED]
    await worker.crash()


async def test_write_whose_preview_fails_can_be_approved_by_who_sees_the_reason(world: Waiting, worker: MemoryWorker) -> None:
    """A2"""
    world.shop.preview = lambda args: _raise(RuntimeError("x"))
    await world.hold()
    await world.settle(worker)
    await say(world, "approve")
    await world.settle(worker)
    assert world.shown()["preview_fault"] and world.cleared()[0].verdicts[-1].preview_digest == ""


async def test_question_about_a_tool_version_that_is_gone_is_not_asked(world: Waiting, worker: MemoryWorker) -> None:
    """S8, A3: it cannot run as it is; the asker hears that, may ask again, and is judged by the version of today."""
    call = dataclasses.replace(call_of(world.shop), tool_version="0" * 64)
    await world.hold(call=call)
    await world.settle(worker)
    assert world.approvals(ApprovalKind.REQUESTED) == []
    (refused,) = world.ledger()
    assert (refused.kind, refused.code) == (LedgerKind.REFUSED, Code.TOOL_CHANGED)
    assert not CODES[Code.TOOL_CHANGED].final


async def test_doubt_about_a_tool_version_that_is_gone_is_asked_all_the_same(world: Waiting, worker: MemoryWorker) -> None:
    """E6, S8: what has run does not go away with its tool."""
    await world.doubt(call=dataclasses.replace(call_of(world.shop), tool_version="0" * 64))
    await world.settle(worker)
    assert "not in the catalog" in world.shown(D)["preview_fault"]
    await say(world, "committed", hold_id=D)
    await world.settle(worker)
    assert [c.kind for c in world.cleared()] == [ClearedKind.RESOLUTION]


async def test_asking_again_joins_and_is_answered_by_how_it_stands(world: Waiting, worker: MemoryWorker) -> None:
    """A6: one yes clears the one call; a repeated question gets the same clearance, the ledger lets it run once."""
    await world.hold(H)
    await world.settle(worker)
    await world.hold(AGAIN)
    await world.hold(H)
    await world.settle(worker)
    assert len(world.approvals(ApprovalKind.REQUESTED)) == 1
    pending = world.ledger(LedgerKind.PENDING)
    assert [e.hold_id for e in pending] == [H, H, H] and len({e.event_id for e in pending}) == 3
    await say(world, "approve")
    await world.hold("j" * 32)
    await world.settle(worker)
    first, again = world.cleared()
    assert dataclasses.replace(first, event_id="", cause=None, seal=again.seal) == dataclasses.replace(
        again, event_id="", cause=None
    )


async def test_asking_again_after_the_end_brings_the_first_answer_and_asks_nobody(world: Waiting, worker: MemoryWorker) -> None:
    """A6"""
    await world.hold(H)
    await world.settle(worker)
    await say(world, "deny")
    await world.settle(worker)
    await world.hold(AGAIN)
    await world.hold(H)
    await world.settle(worker)
    assert len(world.approvals(ApprovalKind.REQUESTED)) == 1
    assert [e.record.hold_id for e in world.approvals(ApprovalKind.WITHDRAWN)] == [AGAIN]
    assert len(world.ledger(LedgerKind.REPLAYED)) == 2 and len(world.ledger(LedgerKind.REFUSED)) == 1


async def test_decision_made_while_the_waiter_was_down_is_folded_and_told_once(world: Waiting) -> None:
    """A6"""
    first = await world.waiter()
    await world.hold()
    await world.settle(first)
    await first.crash()
    await say(world, "approve")
    await say(world, "deny", CLEO)
    second = await world.waiter()
    await world.settle(second)
    assert len(world.cleared()) == 1 and world.ledger(LedgerKind.REFUSED) == []
    await second.crash()
    third = await world.waiter()
    await world.clock.advance(1)
    await world.settle(third)
    assert len(world.cleared()) == 1 and len(world.approvals(ApprovalKind.REQUESTED)) == 1
    await third.crash()


async def test_expiry_and_withdrawal_that_came_while_the_waiter_was_down(world: Waiting) -> None:
    """A5, A10"""
    first = await world.waiter()
    await world.hold(H, expires_ms=world.clock.now_ms() + 1_000)
    other = call_of(world.shop, call_id="a" * 64)
    await world.hold(AGAIN, other)
    await world.settle(first)
    await first.crash()
    await world.clock.advance(2)
    cancelled = LedgerEntry(event_id="x", producer="t", kind=LedgerKind.CANCELLED, call_id=other.call_id, about=ref_of(other))
    await world.publish("validator", cancelled)
    second = await world.waiter()
    await world.settle(second)
    await world.clock.advance(0.2)
    await world.settle(second)
    assert [e.record.hold_id for e in world.approvals(ApprovalKind.EXPIRED)] == [H]
    assert [e.record.hold_id for e in world.approvals(ApprovalKind.WITHDRAWN)] == [AGAIN]
    await second.crash()


async def test_requested_of_a_second_waiter_is_void(world: Waiting) -> None:
    """A3, A6: two waiters may show different previews; people decide on the first, and the call is cleared by it."""
    one = await world.waiter()
    await world.hold()
    await world.settle(one)
    await world.publish("waiter", requested(H, shown_digest="9" * 64))
    await world.publish("approver", decided(H, "approve", BEN, shown_digest="9" * 64))
    await world.settle(one)
    assert world.cleared() == []
    await say(world, "approve")
    await world.settle(one)
    assert world.cleared()[0].verdicts[-1].preview_digest == digest(world.shown()["preview"])
    await one.crash()


async def test_nobody_is_told_that_people_decide_once_their_time_is_over(world: Waiting, worker: MemoryWorker) -> None:
    """A5: asked again at that very moment, the asker hears of the expiry and nothing else; and time is nobody's denial."""
    await world.hold(expires_ms=world.clock.now_ms() + 10_000)
    await world.settle(worker)
    world.clock._elapsed += 10  # the moment between its end and the waiter's next look
    await world.hold(AGAIN, expires_ms=world.clock.now_ms() + 10_000)
    await world.settle(worker)
    assert len(world.ledger(LedgerKind.PENDING)) == 1
    await world.clock.advance(0.2)
    await world.settle(worker)
    (refused,) = world.ledger(LedgerKind.REFUSED)
    assert (refused.code, json.loads(refused.detail)["by"], refused.sentence) == (Code.APPROVAL_EXPIRED, "", "")


STEPS = st.lists(
    st.sampled_from(("hold again", "ask again", "approve", "approve too", "deny", "cancel", "time", "crash", "second")),
    min_size=3,
    max_size=12,
)


@given(STEPS)
@settings(max_examples=120, deadline=None)
async def test_any_history_gives_one_outcome_and_ends(steps: list[str]) -> None:
    """A6: two waiters, crashes anywhere, repeats, racing decisions: the call is cleared or refused by one hold, never both."""
    world = Waiting()
    workers = [await world.waiter()]
    short = {"expires_ms": world.clock.now_ms() + 4_000}
    await world.hold(**short)
    for number, step in enumerate(steps):
        match step:
            case "hold again":
                await world.hold(**short)
            case "ask again":
                await world.hold(f"{number:032x}", **short)
            case "approve" | "approve too" | "deny":
                for asked in world.approvals(ApprovalKind.REQUESTED):
                    await say(world, step.split()[0], CLEO if step.endswith("too") else BEN, asked.record.hold_id)
            case "cancel":
                await end(world)
            case "time":
                await world.clock.advance(2.5)
            case "crash":
                await workers.pop().crash()
                workers.append(await world.waiter())
            case "second":
                workers.append(await world.waiter())
        if number % 2:
            await world.settle(*workers)
    for _ in range(4):
        await world.clock.advance(2)
        await world.settle(*workers)
    assert world.dead() == []
    outcomes = {c.hold_id for c in world.cleared()}, {e.hold_id for e in world.ledger(LedgerKind.REFUSED)}
    if outcomes[0]:
        assert len(outcomes[0]) == 1 and not outcomes[1]
    assert outcomes[0] or outcomes[1] or world.ledger(LedgerKind.CANCELLED)
    for worker in workers:
        assert not list(worker._stage._holds.open_holds())  # type: ignore[attr-defined]
        await worker.crash()
