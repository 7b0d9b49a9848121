"""Crashes and zombies on the in-process bus, whose steps a test can order as it likes. Quick, so that mutants are tried on it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
import pytest_asyncio

from fourgates.assembly import StageSettings
from fourgates.authorizer.settings import AuthorizerSettings
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import ApprovalEvent, ApprovalKind, ClearedKind, Decided, LedgerEntry, LedgerKind
from fourgates.contract.parts import ref_of
from fourgates.contract.ports import Position
from fourgates.contract.topology import (
    APPROVALS,
    BY_NAME,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    EFFECTS,
    RECORDS_DEAD,
)
from support.approvals import person
from support.eventually import eventually
from support.fault_calls import Played, new_call, play
from support.fault_checker import Checker, life
from support.fault_pipeline import Armed, FaultyMemoryWorld
from support.fault_rounds import AFTER_A_LOST_ANSWER, ALONG_THE_WAY, ATTEMPT, BEFORE_IT_IS_CLEARED, CLAIM, EFFECT, WITH_A_CANCEL
from support.worlds import FAST, TENANT, decide, fresh_order, holds_of, publish

T = TypeVar("T")
PATIENCE = 90.0
BRIEF = FAST.model_copy(update={"authorizer": AuthorizerSettings(wait=timedelta(seconds=1))})


@pytest_asyncio.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[FaultyMemoryWorld]:
    settings: StageSettings = getattr(request, "param", FAST)
    made = FaultyMemoryWorld(tmp_path, settings)
    await made.start()
    try:
        yield made
    finally:
        made.points.clear()
        await made.stop()


async def settled(world: FaultyMemoryWorld, *calls: Played) -> None:
    found = await Checker(world).check(calls)
    faults = found.faults()
    wrong = [call for call in calls if call.call_id in str(faults)][:4]
    lives = ["\n  ".join((f"{call.fault}: {call.heard}", *await life(world, call.call_id))) for call in wrong]
    assert not faults, "\n".join(lives)


def start(world: FaultyMemoryWorld, call: Played) -> asyncio.Task[Played]:
    return asyncio.create_task(play(world, call, PATIENCE))


async def held_at(
    world: FaultyMemoryWorld, call: Played, point: str, begin: Callable[[FaultyMemoryWorld, Played], asyncio.Task[T]]
) -> tuple[Armed, asyncio.Task[T]]:
    """Begins the call; returns once it stands at the point, and what lets it go on."""
    held = world.points.arm(point, call.call_id)
    playing = begin(world, call)
    await asyncio.wait_for(held.came.wait(), 30)
    return held, playing


async def entries(world: FaultyMemoryWorld, call: Played, kind: LedgerKind) -> int:
    found = [e for e in await world.records(CALLS_LEDGER) if e.record.kind is kind and e.record.call_id == call.call_id]
    return len(found)


async def written(world: FaultyMemoryWorld, call: Played, kind: LedgerKind, times: int = 1) -> None:
    """Returns once the ledger has so many entries of that kind of the call."""

    async def there() -> bool:
        return await entries(world, call, kind) >= times

    await eventually(there, 30)


async def test_a_write_on_a_log_that_is_read_late_is_never_in_doubt(world: FaultyMemoryWorld) -> None:
    """E5: whoever claims waits until it has read its claim back, so nothing is decided on what has not been read."""
    calls = [await new_call(world, sort) for sort in ("key honoured", "probe", "plain") for _ in range(5)]
    await asyncio.gather(*(play(world, call, PATIENCE) for call in calls))
    await settled(world, *calls)
    assert {call.codes[0] for call in calls} == {Code.OK}
    assert not [e for e in await world.records(CALLS_LEDGER) if e.record.kind is LedgerKind.IN_DOUBT]


@pytest.mark.parametrize("fault", ["crash", "zombie"])
async def test_at_every_place(world: FaultyMemoryWorld, fault: str) -> None:
    """E1, E3, E5, E7: one effect and one answer for each, whoever crashed or woke up beside a second owner."""
    places = [*ALONG_THE_WAY, *BEFORE_IT_IS_CLEARED, *AFTER_A_LOST_ANSWER, *WITH_A_CANCEL]
    calls = [await new_call(world, sort, f"{fault} at {point} ({sort})") for point, sort in places]
    armed = [world.points.arm(point, call.call_id) for (point, _), call in zip(places, calls, strict=True)]
    playing = [start(world, call) for call in calls]
    await asyncio.wait_for(asyncio.gather(*(one.came.wait() for one in armed)), 30)
    await asyncio.gather(*(call.run.cancel(call.call_id, wait=0) for call in calls[-len(WITH_A_CANCEL) :]))
    stages = ("validator", "authorizer", "waiter", "executor", "sanitizer")
    if fault == "crash":
        for stage in stages:
            await world.kill(stage)
    else:  # two owners of everything, and no fence but the logs
        others = [await world.pipeline.another(stage) for stage in ("waiter", "executor", "sanitizer")]
        await asyncio.sleep(0.2)  # the new owner meets the calls first
        for one in armed:
            one.go.set()
    await asyncio.gather(*playing)
    if fault == "zombie":
        for other in others:
            await other.stop()
    await settled(world, *calls)


async def test_a_second_owner_neither_takes_nor_borrows_a_claim(world: FaultyMemoryWorld) -> None:
    """E5: the first claim in the log is the claim; another executor's is lost, and does not run under the first one's name."""
    call = await new_call(world, "plain")
    first = world.points.arm("executor.attempted", call.call_id)
    late = world.points.arm(f"{CLAIM}.before", call.call_id)
    playing = start(world, call)
    await asyncio.wait_for(late.came.wait(), 30)
    other = await world.pipeline.another("executor")  # claims, and stands right before the socket
    await asyncio.wait_for(first.came.wait(), 30)
    late.go.set()
    await written(world, call, LedgerKind.CLAIMED, 2)
    await world.pipeline.workers["executor"].drained()
    first.go.set()
    await playing
    await other.stop()
    await settled(world, call)
    assert call.codes[0] is Code.OK


async def test_an_acknowledgement_that_comes_after_the_lease_sends_nothing(world: FaultyMemoryWorld) -> None:
    """E5, E6: people have said `not applied` meanwhile, and it stays true."""
    call = await new_call(world, "plain")
    held, playing = await held_at(world, call, f"{ATTEMPT}.after", start)
    other = await world.pipeline.another("executor")
    await written(world, call, LedgerKind.RESOLVED)
    held.go.set()
    await playing
    await other.stop()
    await world.pipeline.workers["executor"].drained()
    assert (call.codes[0], world.downstream.entries()) == (Code.TOOL_FAILED, [])
    await settled(world, call)


async def test_a_persons_word_on_a_doubt_that_has_passed_runs_nothing(world: FaultyMemoryWorld) -> None:
    """E6, P6: the holder came back and gave the call up unsent while people were asked; a resolution clears no call."""
    call = await new_call(world, "plain")
    held, playing = await held_at(world, call, f"{EFFECT}.before", start_without_people)
    other = await world.pipeline.another("executor")
    [hold] = await eventually(lambda: holds_of(world, call.call_id), 30)
    assert hold["reason"] == "in_doubt"
    held.go.set()
    await written(world, call, LedgerKind.RELEASED)
    await decide(world, hold["hold_id"], "committed")

    async def passed_on() -> bool:
        return any(e.record.kind is ClearedKind.RESOLUTION for e in await world.records(CALLS_CLEARED))

    await eventually(passed_on, 30)
    await world.pipeline.workers["executor"].drained()
    assert (world.downstream.entries(), await entries(world, call, LedgerKind.CLAIMED)) == ([], 1)
    await other.stop()
    playing.cancel()
    await play(world, call, PATIENCE)
    assert call.codes[0] is Code.OK
    await settled(world, call)


async def test_a_rival_of_a_crashed_call_does_not_have_its_effect_again(world: FaultyMemoryWorld) -> None:
    """E4, E5: the effect stays claimed while nobody knows what the crashed call did."""
    order = fresh_order()
    first = await new_call(world, "key honoured", order=order)
    _, playing = await held_at(world, first, "executor.ran", start)
    await world.pipeline.crash_stage("executor")
    second = await new_call(world, "key honoured", order=order)
    answer = asyncio.create_task(second.run.call("pay", json.dumps(second.arguments), tool_call_id="1", wait=3))
    await world.pipeline.start_stage("executor")
    assert (await answer).code is Code.APPROVAL_PENDING
    [hold] = await eventually(lambda: holds_of(world, second.call_id))
    assert hold["reason"] == "near_duplicate"
    await decide(world, hold["hold_id"], "deny")
    await playing
    assert [what for _, _, what in world.downstream.effects()] == [order]


async def test_an_effect_is_free_again_after_a_crash_of_its_owner(world: FaultyMemoryWorld) -> None:
    """E4, E5: a call that ended without an effect gives its key back, though nobody was there when it ended."""
    order = fresh_order()
    first = await new_call(world, "key honoured", order=order, mode="reject")
    held = world.points.arm(f"{EFFECT.rpartition('.')[0]}.Released.before", first.call_id)
    await play(world, first, PATIENCE)
    assert first.codes[0] is Code.TOOL_FAILED
    await asyncio.wait_for(held.came.wait(), 30)
    await world.kill("executor")
    second = await new_call(world, "key honoured", order=order)

    async def freed() -> bool:
        return any(e.record.kind.value == "Released" for e in await world.records(EFFECTS))

    await eventually(freed, 30)
    await play(world, second, PATIENCE)
    assert second.codes[0] is Code.OK
    await settled(world, first, second)


@pytest.mark.parametrize("world", [BRIEF], indirect=True)
async def test_a_yes_that_comes_too_late_counts_for_nothing(world: FaultyMemoryWorld) -> None:
    """A5, E5: the waiter was dead when the hold expired and a yes was appended; whoever reads them later sees their order."""
    call = await new_call(world, "held")
    playing = start_without_people(world, call)
    [hold] = await eventually(lambda: holds_of(world, call.call_id))
    await world.pipeline.crash_stage("waiter")
    requested = next(e.record for e in await world.records(APPROVALS) if e.record.kind is ApprovalKind.REQUESTED)
    held = next(e.record for e in await world.records(APPROVALS) if e.record.kind is ApprovalKind.HELD)
    await eventually(lambda: world.pipeline.clock.now_ms() > held.held.expires_ms)
    yes = Decided(
        verdict="approve", shown_digest=requested.requested.shown_digest,
        principal=person("fiona", tenant=TENANT, issuer=held.held.call.principal.issuer), reason="",
    )  # fmt: skip
    await publish(world, "approver", ApprovalEvent(
        event_id=ids.random_id(), producer="test", kind=ApprovalKind.DECIDED, hold_id=hold["hold_id"], call_id=call.call_id,
        decided=yes,
    ))  # fmt: skip
    await world.pipeline.start_stage("waiter")
    assert (await playing).code is Code.APPROVAL_EXPIRED
    assert not await world.records(CALLS_CLEARED)
    assert not world.downstream.entries()


def start_without_people(world: FaultyMemoryWorld, call: Played) -> asyncio.Task[object]:
    async def until_told() -> object:
        answer = await call.run.call(call.tool, json.dumps(call.arguments), tool_call_id="1", wait=1)
        return answer if answer.final else await call.run.wait(call.call_id, PATIENCE)

    return asyncio.create_task(until_told())


async def test_nothing_runs_from_an_empty_ledger_next_door(world: FaultyMemoryWorld) -> None:
    """P6, E1: a genuine record on another partition meets an owner that has never heard of the call."""
    await world.pipeline.stop_stage("executor")
    partitions = range(BY_NAME[CALLS_CLEARED].partitions)
    owners = [await world.pipeline.another("executor", [number]) for number in partitions]
    calls = [await new_call(world, sort) for sort in ("read", "plain")]
    await asyncio.gather(*(play(world, call, PATIENCE) for call in calls))
    before = world.downstream.entries()
    copies: list[Position] = []
    for received in world.pipeline.bus.records(CALLS_CLEARED):
        where = (received.position.partition + 1) % len(partitions)
        copies.append(await world.append(CALLS_CLEARED, received.key, received.value, where))

    async def buried() -> bool:
        dead = {(e.record.topic, e.record.partition, e.record.offset): e.record.reason for e in await world.records(RECORDS_DEAD)}
        return [dead.get((c.topic, c.partition, c.offset)) for c in copies] == ["wrong_partition"] * len(copies)

    await eventually(buried, 30)
    for owner in owners:
        await owner.stop()
    assert world.downstream.entries() == before
    await settled(world, *calls)


async def test_an_end_that_nobody_may_seal_ends_nothing(world: FaultyMemoryWorld) -> None:
    """P6: a forged `committed` beside a call that is under way; a crash, and the next owner reads the log anew."""
    call = await new_call(world, "plain")
    _, playing = await held_at(world, call, "executor.attempted", start)
    claimed = next(e for e in await world.records(CALLS_LEDGER) if e.record.kind is LedgerKind.CLAIMED)
    forged = LedgerEntry(
        event_id=ids.random_id(), producer="test", kind=LedgerKind.FINISHED, call_id=call.call_id, outcome="committed",
        claim_id=claimed.record.claim_id, about=ref_of(claimed.record.call), seal=claimed.record.seal,
    )  # fmt: skip
    topic, value = world.pipeline.codec.encode(forged)
    await world.append(topic, forged.key().encode(), value)
    await world.kill("executor")
    await playing
    await settled(world, call)
    assert not [e for e in await world.records(CALLS_COMPLETED) if e.record.final and json.loads(e.record.observation)["ok"]]
