"""The authorizer on the in-process bus: what it believes, clears, holds and refuses."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from fourgates.authorizer import AuthorizerSettings, build
from fourgates.authorizer.denials import Denials
from fourgates.catalog import Catalog, OnBreach
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Poison
from fourgates.contract.events import ApprovalEvent, CallCleared, CallValidated, ClearedKind, HoldReason, LedgerEntry, LedgerKind
from fourgates.contract.parts import Breach, Call, Gate, Origin, Risk, Verdict
from fourgates.contract.ports import Emit, Envelope
from fourgates.contract.seals import gates_needed, must_be_held, seal_verdict, verdicts_fit
from fourgates.contract.topology import APPROVALS, CALLS_CLEARED, CALLS_LEDGER, CALLS_VALIDATED, LONGEST_WAIT, RECORDS_DEAD
from fourgates.gates.permission import Policies
from fourgates.gates.refusal import Refusal
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.intake import RecordHandler
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_worker import MemoryWorker
from support.policies import FACTS, HUMAN, POLICIES, refund, shop
from support.records import altered
from support.sealing import keyring, opener, writer

BREACH = Breach(pointer="/order_id", origin="result:c9", allowed=("user",), on_breach="hold", source="web", quote="refund A-1001")
SHOP = shop()


def validated(call: Call, *, facts: dict[str, Any] | None = None, breaches: tuple[Breach, ...] = ()) -> CallValidated:
    """As the validator writes it."""
    verdict = Verdict(gate=Gate.VALIDATOR, key_id="", at_ms=1, reasons="{}")
    return CallValidated(
        event_id="v" * 32, producer="validator@test:1", call=call, facts=json.dumps(FACTS if facts is None else facts),
        facts_ms=1, breaches=breaches, verdicts=seal_verdict(keyring().signer("validator"), call, verdict, ()),
    )  # fmt: skip


class World:
    """A bus with one authorizer."""

    def __init__(self, catalog: Catalog = SHOP, text: str = POLICIES, settings: AuthorizerSettings | None = None) -> None:
        self.clock = ManualClock()
        self.bus = MemoryBus(opener(), self.clock)
        keys = keyring()
        self.stage = build(
            catalog=catalog, policies=Policies.load(text, catalog), signer=keys.signer("authorizer"), verifier=keys.verifier(),
            producer="authorizer@test:1", settings=settings,
        )  # fmt: skip

    async def tell(self, *records: CallValidated) -> None:
        """Publishes them and runs the authorizer until it is idle."""
        for record in records:
            await self.bus.publisher(writer("validator")).publish(record)
        handler = RecordHandler(self.stage, opener(), self.bus.publisher(writer("authorizer")), self.clock, "authorizer@test:1")
        worker = MemoryWorker(self.bus, self.stage, handler, self.clock)
        await worker.start()
        await worker.drained()
        assert worker.failed is None, worker.failed
        await worker.crash()

    def records(self, topic: str) -> list[Any]:
        return [envelope.record for envelope in self.bus.opened(topic)]

    def out(self) -> list[Emit]:
        """Everything that it wrote, dead letters too."""
        return [record for topic in (CALLS_CLEARED, APPROVALS, CALLS_LEDGER, RECORDS_DEAD) for record in self.records(topic)]


async def told(record: CallValidated, **world: Any) -> Emit:
    """The one record that the authorizer answers with."""
    running = World(**world)
    await running.tell(record)
    (only,) = running.out()
    return only


async def held(record: CallValidated, **world: Any) -> ApprovalEvent:
    found = await told(record, **world)
    assert isinstance(found, ApprovalEvent), found
    assert found.held is not None and found.hold_id == found.event_id
    return found


async def refused(record: CallValidated, **world: Any) -> LedgerEntry:
    found = await told(record, **world)
    assert isinstance(found, LedgerEntry) and found.kind is LedgerKind.REFUSED, found
    return found


async def test_a_waived_call_is_cleared_with_both_seals() -> None:
    """P2, A1: who allowed it and why travels with it."""
    call = refund(SHOP, amount=20)
    found = await told(validated(call))
    assert isinstance(found, CallCleared)
    assert (found.kind, found.call, found.hold_id) == (ClearedKind.CLEARED, call, "")
    assert verdicts_fit(keyring().verifier(), call, found.verdicts, gates_needed(held=False))
    reasons = json.loads(found.verdicts[1].reasons)
    assert reasons["policies"] == ["support-refunds", "small-refunds-need-nobody", "bot-may-act"]
    assert reasons["digest"] == Policies.load(POLICIES, SHOP).digest
    assert found.verdicts[1].obligations == ()
    assert reasons["waived_by"] == ["small-refunds-need-nobody"]
    assert not must_be_held(call.risk, found.verdicts)


async def test_a_read_needs_nobody() -> None:
    """A1"""
    found = await told(validated(refund(SHOP, tool="look_at_order")))
    assert isinstance(found, CallCleared)
    assert "waived_by" not in json.loads(found.verdicts[1].reasons)


async def test_a_write_without_a_waiver_is_held_for_the_default_group() -> None:
    """A1"""
    world = World()
    await world.tell(validated(refund(SHOP)))
    (event,) = world.records(APPROVALS)
    what = event.held
    assert (what.reason, what.group, what.quorum) == (HoldReason.RISK, "approvers", 1)
    assert what.verdicts[1].obligations == ("approval:approvers:1",)
    assert verdicts_fit(keyring().verifier(), what.call, what.verdicts, (Gate.VALIDATOR, Gate.AUTHORIZER))
    (source,) = world.bus.opened(CALLS_VALIDATED)
    assert what.expires_ms == source.time_ms + 3_600_000
    assert json.loads(what.facts) == FACTS
    assert world.records(CALLS_CLEARED) == []


async def test_a_policy_names_the_group_and_the_number() -> None:
    """A1"""
    what = (await held(validated(refund(SHOP, amount=501)))).held
    assert what is not None
    assert (what.reason, what.group, what.quorum) == (HoldReason.POLICY, "finance", 2)
    assert what.verdicts[1].obligations == ("approval:finance:2",)
    detail = json.loads(what.detail)
    assert detail["asked_by"] == "large-refunds-need-finance" and "support-refunds" in detail["policies"]


@pytest.mark.parametrize(("amount", "group"), [(20, "approvers"), (501, "finance")])
async def test_a_breach_of_origins_is_held_even_where_a_policy_waives(amount: int, group: str) -> None:
    """B4: and the person sees the source quoted."""
    what = (await held(validated(refund(SHOP, amount=amount), breaches=(BREACH,)))).held
    assert what is not None
    assert (what.reason, what.group, what.breaches) == (HoldReason.ORIGIN_BREACH, group, (BREACH,))


async def test_a_breach_that_the_validator_did_not_name_is_found_again() -> None:
    """B4"""
    call = dataclasses.replace(refund(SHOP, amount=20), origins=(Origin(pointer="/order_id", origin="model"),))
    what = (await held(validated(call))).held
    assert what is not None and what.reason is HoldReason.ORIGIN_BREACH


async def test_a_breach_that_the_contract_refuses_is_refused() -> None:
    """B4"""
    catalog = shop(on_breach=OnBreach.REFUSE)
    call = dataclasses.replace(refund(catalog, amount=20), origins=(Origin(pointer="/order_id", origin="model"),))
    entry = await refused(validated(call), catalog=catalog)
    assert (entry.code, entry.field) == (Code.ORIGIN_REFUSED, "/order_id")


@pytest.mark.parametrize("groups", [frozenset(), frozenset({"finance"})])
async def test_where_nobody_could_decide_the_call_is_refused(groups: frozenset[str]) -> None:
    """A1: approval_required, nothing runs."""
    entry = await refused(validated(refund(SHOP)), settings=AuthorizerSettings(approver_groups=groups))
    assert (entry.code, entry.reason) == (Code.APPROVAL_REQUIRED, "no_approver")


async def test_a_waived_call_needs_no_approver_to_exist() -> None:
    """A1"""
    assert isinstance(
        await told(validated(refund(SHOP, amount=20)), settings=AuthorizerSettings(approver_groups=frozenset())), CallCleared
    )


async def test_without_permission_the_call_ends_with_a_code() -> None:
    """P5"""
    entry = await refused(validated(refund(SHOP, principal=HUMAN, tool="erase_order")))
    assert (entry.code, entry.reason, entry.about is not None) == (Code.PERMISSION_DENIED, "no_policy", True)
    frozen = await refused(validated(refund(SHOP), facts=FACTS | {"frozen": True}, breaches=(BREACH,)))
    assert (frozen.code, frozen.reason) == (Code.PERMISSION_DENIED, "nobody-when-frozen")


async def test_the_same_refused_call_repeated_is_counted_and_asks_nobody() -> None:
    """P5: each request has its entry."""
    record = validated(refund(SHOP, principal=HUMAN, tool="erase_order"))
    world = World()
    await world.tell(*(dataclasses.replace(record, event_id=f"{n:032}") for n in range(3)))
    entries = world.records(CALLS_LEDGER)
    assert len({entry.event_id for entry in entries}) == 3
    assert {entry.reason for entry in entries} == {"no_policy"} and world.records(APPROVALS) == []
    assert [json.loads(entry.detail).get("repeated", 0) for entry in entries] == [0, 1, 2]


async def test_a_repeated_denial_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: it is looked up; another question, or the same of other policies, is judged."""
    judged: list[str] = []
    authorize = Policies.authorize

    def counted(self: Policies, call: Call, *more: Any) -> Any:
        judged.append(call.tool_call_id)
        return authorize(self, call, *more)

    monkeypatch.setattr(Policies, "authorize", counted)
    denied = validated(refund(SHOP, principal=HUMAN, tool="erase_order"))
    world = World()

    def asked(number: int, **changes: Any) -> CallValidated:
        call = dataclasses.replace(denied.call, tool_call_id=f"call-{number}", call_id=f"{number:064x}", **changes)
        return dataclasses.replace(validated(call), event_id=f"{number:032}")

    await world.tell(*(asked(number) for number in range(5)))
    assert len(judged) == 1
    await world.tell(asked(5, intent="another"), asked(6, principal=dataclasses.replace(HUMAN, groups=())))
    assert sorted(judged[1:]) == ["call-5", "call-6"]
    assert {entry.code for entry in world.records(CALLS_LEDGER)} == {"permission_denied"}
    await world.tell(*(dataclasses.replace(validated(refund(SHOP, amount=20)), event_id=f"y{n:031}") for n in range(2)))
    assert len(judged) == 5, "a yes is judged each time"


def test_denials_are_forgotten_from_the_oldest_and_other_refusals_are_not_kept() -> None:
    """P5"""
    denials = Denials(most=2)
    asked = [dataclasses.replace(validated(refund(SHOP)), facts=f'{{"n":{number}}}') for number in range(3)]
    for record in asked:
        denials.remember(record, "d", Refusal(Code.PERMISSION_DENIED, "no_policy"))
    assert [denials.again(record, "d") is not None for record in asked] == [False, True, True]
    assert denials.again(asked[2], "other policies") is None
    denials.remember(asked[0], "d", Refusal(Code.TOOL_CHANGED, "tool_version"))
    assert denials.again(asked[0], "d") is None


@pytest.mark.parametrize("amount", [20, 100])
async def test_a_redelivered_call_gives_the_same_records_and_a_replayed_one_the_same_ids(amount: int) -> None:
    """P6: neither opens anything new."""
    record, world = validated(refund(SHOP, amount=amount)), World()
    await world.tell(record, record)
    first, replayed = world.out()
    assert first.event_id == replayed.event_id
    envelope = world.bus.opened(CALLS_VALIDATED)[0]
    assert await world.stage.handle(envelope) == await world.stage.handle(envelope)


async def test_a_tool_that_changed_since_is_told_so_and_may_be_asked_again() -> None:
    """S8: the same key may be asked again."""
    for change in ({"tool_version": "0" * 64}, {"tool": "gone_tool"}, {"risk": Risk.READ}):
        entry = await refused(validated(dataclasses.replace(refund(SHOP, amount=20), **change)))
        assert entry.code == Code.TOOL_CHANGED


_FIELDS = [field.name for field in dataclasses.fields(Call) if field.name != "allowed_actions"]


@pytest.mark.parametrize("name", _FIELDS)
async def test_a_call_altered_in_any_field_after_its_seal_is_poison(name: str) -> None:
    """P6: even by one who can write the validator's records."""
    record = validated(refund(SHOP, amount=20))
    forged = dataclasses.replace(record, call=dataclasses.replace(record.call, **{name: altered(getattr(record.call, name))}))
    world = World()
    await world.tell(forged)
    (dead,) = world.out()
    assert dead.reason == "bad_verdict"


@pytest.mark.parametrize("verdicts", ["none", "own", "twice", "other key"])
async def test_a_call_without_exactly_the_validators_verdict_is_poison(verdicts: str) -> None:
    """P6"""
    record = validated(refund(SHOP, amount=20))
    (good,) = record.verdicts
    signer = keyring().signer("authorizer")
    forged = {
        "none": (),
        "own": seal_verdict(signer, record.call, dataclasses.replace(good, gate=Gate.AUTHORIZER), ()),
        "twice": (good, good),
        "other key": seal_verdict(signer, record.call, good, ()),
    }[verdicts]
    world = World()
    await world.tell(dataclasses.replace(record, verdicts=forged))
    assert [dead.reason for dead in world.out()] == ["bad_verdict"]


async def test_a_forged_verdict_raises_poison_from_the_stage_itself() -> None:
    """P6"""
    world = World()
    await world.bus.publisher(writer("validator")).publish(dataclasses.replace(validated(refund(SHOP)), verdicts=()))
    (envelope,) = world.bus.opened(CALLS_VALIDATED)
    assert isinstance(envelope, Envelope)
    with pytest.raises(Poison):
        await world.stage.handle(envelope)


def test_the_wait_is_bounded() -> None:
    """A5"""
    assert AuthorizerSettings(wait=LONGEST_WAIT).wait == LONGEST_WAIT
    for odd in (timedelta(0), LONGEST_WAIT + timedelta(seconds=1)):
        with pytest.raises(ValidationError):
            AuthorizerSettings(wait=odd)


def test_a_policy_that_asks_a_group_without_members_refuses_to_start() -> None:
    """A1"""
    with pytest.raises(ConfigurationError, match="finance"):
        World(settings=AuthorizerSettings(approver_groups=frozenset({"approvers"})))
