"""The validator: each way out of gates 1 and 2."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Effect, OnBreach, Rule, ToolContext
from fourgates.contract import ids
from fourgates.contract.canonical import digest
from fourgates.contract.codes import Code, ends_call
from fourgates.contract.errors import ConfigurationError, Poison
from fourgates.contract.events import CallRequested, CallValidated, Control, ControlKind, LedgerEntry, LedgerKind, RequestKind
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import Gate, Origin, Principal
from fourgates.contract.ports import Emit, Envelope, Position
from fourgates.contract.seals import RecordOpener, RecordWriter, verdicts_fit
from fourgates.gates.identity import GrantBook, TokenVerifier
from fourgates.gates.refusal import Refusal
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.memory import MemoryBus
from fourgates.validator import ValidatorSettings, build
from support.records import codec
from support.tokens import NOW_MS, keyring, sealed, token

ANNA = Principal(
    issuer="https://issuer.example", subject="anna", tenant="acme", person="anna", agent="support-bot", groups=("support",)
)
RUN_ID = ids.new_run_id(NOW_MS - 1000)
OWNERS = {"A-1": "anna", "B-2": "bob"}


class Refund(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str = Field(max_length=20)
    cents: int = Field(ge=1)
    note: str = "-"


class FakeGrants:
    """Answers who it was told to, and remembers what it was asked."""

    def __init__(self, who: Principal | Refusal | Poison = ANNA, claimed: Principal | None = ANNA) -> None:
        self.who, self.who_claims, self.asked = who, claimed, [("", b"", 0)]

    def open(self, request: CallRequested, raw: bytes, at_ms: int) -> Principal | Refusal:
        self.asked.append((request.call_id, raw, at_ms))
        if isinstance(self.who, Poison):
            raise self.who
        return self.who

    def claimed(self, request: CallRequested) -> Principal | None:
        return self.who_claims


def shop() -> Catalog:
    catalog = Catalog("shop")

    async def facts(args: Refund, principal: Principal) -> dict[str, Any]:
        if args.order_id == "DOWN":
            raise OSError("db.internal:5432 refused")
        if args.order_id == "SLOW":
            await asyncio.Event().wait()
        return {"mine": OWNERS.get(args.order_id) == principal.subject, "left": 100}

    rules = (
        Rule("own_order", "facts.mine", "There is no such order.", "/order_id"),
        Rule("not_more_than_paid", "args.cents <= facts.left", "That is more than was paid.", "/cents"),
    )

    @catalog.tool(
        risk="write", timeout=5, description="Refunds.", effect=Effect("refund", ("{order_id}",)), facts=facts,
        facts_types={"mine": "bool", "left": "int"}, facts_timeout=0.05, rules=rules, origins={"order_id": {"user", "host"}},
    )  # fmt: skip
    def refund(args: Refund, ctx: ToolContext) -> None:
        raise AssertionError("a validator runs no tool")

    @catalog.tool(risk="write", timeout=5, description="Sends.", origins={"order_id": {"user"}}, on_breach=OnBreach.REFUSE)
    def send(args: Refund, ctx: ToolContext) -> None:
        raise AssertionError("a validator runs no tool")

    @catalog.tool(risk="read", timeout=5, description="Reads.")
    def read(args: Refund, ctx: ToolContext) -> None:
        raise AssertionError("a validator runs no tool")

    return catalog


SHOP = shop()
RIGHT = '{"order_id": "A-1", "cents": 50.0}'


def request(**changes: Any) -> CallRequested:
    fields: dict[str, Any] = {
        "event_id": "e" * 32, "producer": "host", "kind": RequestKind.CALL, "run_id": RUN_ID, "tool_call_id": "call-1",
        "tool": "refund", "arguments": RIGHT, "user_turns": ("please refund A-1",), "intent": "refund",
        "deadline_ms": NOW_MS + 1000, "grant": "g", **changes,
    }  # fmt: skip
    own = ids.call_id(ANNA.issuer, ANNA.tenant, ANNA.subject, ANNA.agent, fields["run_id"], fields["tool_call_id"])
    return CallRequested(**{"call_id": own, **fields})


def enveloped(record: CallRequested, raw: bytes = b"raw") -> Envelope:
    return Envelope(record, Position("calls.requested", 3, 7), NOW_MS, "run", raw=raw)


def bus() -> MemoryBus:
    return MemoryBus(RecordOpener(codec(), keyring().verifier()), ManualClock(NOW_MS))


async def judge(
    record: CallRequested, grants: FakeGrants | None = None, settings: ValidatorSettings | None = None, *controls: Control
) -> Emit:
    log = bus()
    for control in controls:
        await log.publisher(RecordWriter(codec(), keyring().signer("operator"))).publish(control)
    stage = build(
        catalog=SHOP, log=log, grants=grants or FakeGrants(), signer=keyring().signer("validator"),
        clock=ManualClock(NOW_MS + 5), producer="validator@test:1", settings=settings,
    )  # fmt: skip
    await stage.start()
    (emitted,) = await stage.handle(enveloped(record))
    await stage.close()
    return emitted


async def refused(record: CallRequested, code: Code, reason: str, grants: FakeGrants | None = None) -> LedgerEntry:
    entry = await judge(record, grants)
    assert isinstance(entry, LedgerEntry)
    assert (entry.kind, entry.code, entry.reason) == (LedgerKind.REFUSED, code.value, reason)
    assert entry.call_id == record.call_id
    assert entry.about is not None
    assert (entry.about.run_id, entry.about.tool_call_id, entry.about.tool) == (
        record.run_id,
        record.tool_call_id,
        record.tool[:200],
    )
    assert entry.cause is not None
    assert (entry.cause.event_id, entry.cause.topic, entry.cause.partition, entry.cause.offset) == (
        "e" * 32,
        "calls.requested",
        3,
        7,
    )
    return entry


async def test_a_right_call_is_validated_with_the_first_seal() -> None:
    """C8, B1"""
    grants = FakeGrants()
    passed = await judge(request(), grants)
    assert isinstance(passed, CallValidated)
    call, tool = passed.call, SHOP.get("refund")
    assert tool is not None
    assert call.arguments == '{"cents":50,"note":"-","order_id":"A-1"}'
    assert call.args_digest == digest(json.loads(call.arguments))
    assert call.effect_key == tool.effect_key("acme", json.loads(call.arguments), call.args_digest, call.call_id)
    assert call.effect_key.startswith("acme/refund/")
    assert (call.tool_version, call.risk, call.principal) == (tool.version, tool.risk, ANNA)
    assert (call.requested_ms, call.deadline_ms) == (NOW_MS, NOW_MS + 1000)
    assert {origin.pointer: origin.origin for origin in call.origins} == {"/order_id": "user", "/cents": "model", "/note": "host"}
    assert (json.loads(passed.facts), passed.facts_ms, passed.breaches) == ({"left": 100, "mine": True}, NOW_MS + 5, ())
    assert verdicts_fit(keyring().verifier(), call, passed.verdicts, (Gate.VALIDATOR,))
    assert passed.verdicts[0].at_ms == NOW_MS
    assert json.loads(passed.verdicts[0].reasons)["rules"] == ["own_order", "not_more_than_paid"]
    assert grants.asked[-1] == (call.call_id, b"raw", NOW_MS)


async def test_a_redelivered_request_repeats_its_records() -> None:
    """E1"""
    for record in (request(), request(arguments="{}"), request(kind=RequestKind.CANCEL)):
        assert await judge(record) == await judge(record)


async def test_a_chosen_event_id_does_not_repeat_another_calls_entry() -> None:
    """P6"""
    one, other = await judge(request(arguments="{}")), await judge(request(arguments="{}", tool_call_id="call-2"))
    assert one.event_id != other.event_id


async def test_what_nobody_proved_is_answered_by_nobody() -> None:
    """P6"""
    with pytest.raises(Poison, match="bad_grant"):
        await judge(request(), FakeGrants(Poison("bad_grant")))


async def test_an_identity_that_does_not_count_refuses_the_record() -> None:
    """P1"""
    grants = FakeGrants(Refusal(Code.IDENTITY_INVALID, "token_expired"))
    entry = await refused(request(), Code.IDENTITY_INVALID, "token_expired", grants)
    assert entry.about is not None
    assert (entry.about.tenant, entry.about.subject) == ("acme", "anna")


@pytest.mark.parametrize("kind", list(RequestKind))
async def test_another_call_id_than_the_derived_one_is_refused(kind: RequestKind) -> None:
    """C9: the key belongs to somebody else, so not even a refusal is written under it."""
    with pytest.raises(Poison, match="wrong_call_id"):
        await judge(request(kind=kind, call_id="c" * 64))
    with pytest.raises(Poison, match="wrong_call_id"):
        await judge(request(kind=kind), FakeGrants(dataclasses.replace(ANNA, subject="bob")))
    unproven = FakeGrants(Refusal(Code.IDENTITY_INVALID, "token_expired"), dataclasses.replace(ANNA, subject="bob"))
    with pytest.raises(Poison, match="wrong_call_id"):
        await judge(request(kind=kind), unproven)
    with pytest.raises(Poison, match="no_claims"):
        await judge(request(kind=kind), FakeGrants(Refusal(Code.IDENTITY_INVALID, "token_unreadable"), None))


async def test_a_cancel_is_sealed_into_the_ledger() -> None:
    """E7: also one of a call that waits for people longer than its run is remembered, and after its deadline."""
    old = ids.new_run_id(NOW_MS - int(timedelta(days=20) / timedelta(milliseconds=1)))
    for record in (
        request(kind=RequestKind.CANCEL),
        request(kind=RequestKind.CANCEL, run_id=old, deadline_ms=NOW_MS - 1, arguments=""),
    ):
        entry = await judge(record)
        assert isinstance(entry, LedgerEntry)
        assert (entry.kind, entry.call_id, entry.code) == (LedgerKind.CANCELLED, record.call_id, "cancelled")
        assert entry.about is not None
        assert (entry.about.tenant, entry.about.subject, entry.about.risk) == ("acme", "anna", "write")


async def test_a_call_of_a_run_beyond_the_horizon_is_refused() -> None:
    """E1: its key may be forgotten, so running it could be a second time."""
    week = 7 * 24 * 3600 * 1000
    await refused(request(run_id=ids.new_run_id(NOW_MS - week - 1)), Code.CALL_TOO_OLD, "horizon")
    assert isinstance(await judge(request(run_id=ids.new_run_id(NOW_MS - week))), CallValidated)
    short = ValidatorSettings(horizon=timedelta(seconds=0.5))
    assert isinstance(await judge(request(), settings=short), LedgerEntry)


@pytest.mark.parametrize(
    "run_id",
    ["run-1", "", "6f1f7c5e-7a4b-4c0e-9a55-2f0f6a3c9b11", ids.new_run_id(NOW_MS + 600_000)],
    ids=["a word", "none", "random", "of the future"],
)
async def test_a_run_id_without_an_honest_time_is_refused(run_id: str) -> None:
    """E1: by it the horizon is judged; one of the future would outlive the memory of its calls."""
    await refused(request(run_id=run_id), Code.INVALID_ARGUMENTS, "run_id")


async def test_a_request_past_its_deadline_is_not_looked_at_and_ends_nothing() -> None:
    """E8, P6: by broker time. An old request that is appended once more must not end the call, however old its run is by then."""
    entry = await refused(request(deadline_ms=NOW_MS), Code.UNAVAILABLE, "stale_request")
    assert not ends_call(Code(entry.code))
    old = ids.new_run_id(NOW_MS - int(timedelta(days=20) / timedelta(milliseconds=1)))
    await refused(request(deadline_ms=NOW_MS, run_id=old), Code.UNAVAILABLE, "stale_request")
    assert isinstance(await judge(request(deadline_ms=NOW_MS + 1)), CallValidated)


async def test_an_unknown_tool_is_refused() -> None:
    """C4"""
    entry = await refused(request(tool="x" * 5000), Code.UNKNOWN_TOOL, "unknown_tool")
    assert entry.about is not None
    assert (entry.about.tool_version, entry.about.risk) == ("", "")


@pytest.mark.parametrize(
    ("arguments", "reason", "field"),
    [
        ('{"order_id":"A-1"}', "missing_field", "/cents"),
        ('{"order_id":"A-1","cents":1,"call_id":"x"}', "unknown_field", "/call_id"),
        ('{"order_id":"A-1","cents":"1"}', "wrong_type", "/cents"),
        ('{"order_id":"A-1","cents":1,"cents":2}', "duplicate_key", "/cents"),
        ("refund it", "malformed_json", ""),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_their_faults(arguments: str, reason: str, field: str) -> None:
    """C5, C6, C9"""
    entry = await refused(request(arguments=arguments), Code.INVALID_ARGUMENTS, reason)
    assert entry.field == field
    assert [(fault.field, fault.reason) for fault in entry.faults] == [(field, reason)]
    assert entry.about is not None
    assert entry.about.args_digest == ""
    assert entry.about.risk == "write"


@pytest.mark.parametrize("order", ["DOWN", "SLOW"])
async def test_facts_that_fail_or_are_slow_are_never_a_pass(order: str) -> None:
    """B2"""
    entry = await refused(request(arguments=json.dumps({"order_id": order, "cents": 1})), Code.UNAVAILABLE, "facts_unavailable")
    assert entry.about is not None
    assert len(entry.about.args_digest) == 64
    assert "5432" not in repr(entry)


async def test_not_yours_and_not_there_are_told_alike() -> None:
    """B1"""
    told = [
        await refused(request(arguments=json.dumps({"order_id": order, "cents": 1})), Code.RULE_VIOLATED, "own_order")
        for order in ("B-2", "Z-9")
    ]
    assert {(entry.code, entry.reason, entry.sentence, entry.field) for entry in told} == {
        ("rule_violated", "own_order", "There is no such order.", "/order_id")
    }


async def test_each_rule_refuses_by_its_own_name() -> None:
    """B1"""
    entry = await refused(request(arguments='{"order_id":"A-1","cents":101}'), Code.RULE_VIOLATED, "not_more_than_paid")
    assert (entry.sentence, entry.field) == ("That is more than was paid.", "/cents")


async def test_a_breach_of_origins_travels_to_people_where_the_contract_holds() -> None:
    """B4: the host's own word `user` is not believed."""
    passed = await judge(request(user_turns=("hello",), origins=(Origin(pointer="/order_id", origin="user"),)))
    assert isinstance(passed, CallValidated)
    assert [(breach.pointer, breach.origin, breach.on_breach) for breach in passed.breaches] == [("/order_id", "model", "hold")]


async def test_a_breach_of_origins_is_refused_where_the_contract_says_so() -> None:
    """B4: of the argument, and of an action that the run did not announce."""
    entry = await refused(request(tool="send", user_turns=("hello",)), Code.ORIGIN_REFUSED, "origin_not_allowed")
    assert entry.field == "/order_id"
    entry = await refused(request(tool="send", allowed_actions=("read",)), Code.ORIGIN_REFUSED, "action_not_announced")
    assert entry.field == ""
    assert isinstance(await judge(request(tool="send", allowed_actions=("send",))), CallValidated)


async def test_a_read_needs_no_effect_key() -> None:
    """E4"""
    passed = await judge(request(tool="read", allowed_actions=()))
    assert isinstance(passed, CallValidated)
    assert passed.call.effect_key == ""


async def test_with_real_grants_the_run_key_and_the_token_decide() -> None:
    """P1, P6: a request as the SDK seals it, through the wire form, and what is emitted opens as the validator's."""
    keys = keyring()
    verifier = TokenVerifier(keys.issuer.trust())
    who = verifier.verify(token(), NOW_MS)
    assert isinstance(who, Principal)
    own = ids.call_id(who.issuer, who.tenant, who.subject, who.agent, RUN_ID, "call-1")
    stage = build(
        catalog=SHOP, log=bus(), grants=GrantBook(keys.validator_private(), verifier), signer=keys.signer("validator"),
        clock=ManualClock(NOW_MS), producer="validator@test:1",
    )  # fmt: skip
    await stage.start()

    async def ask(run_key: bytes = b"r" * 32, bearer: str = "", **changes: Any) -> Emit:
        received = sealed(request(call_id=own, **changes), run_key=run_key, bearer=bearer)
        record = codec().decode("calls.requested", received.value)
        (emitted,) = await stage.handle(Envelope(record, received.position, NOW_MS, "run", raw=received.value or b""))
        topic, key, value = RecordWriter(codec(), keys.signer("validator")).encode(emitted)
        opened = RecordOpener(codec(), keys.verifier()).open(dataclasses.replace(
            received, position=Position(topic, _partition(key), 0), key=key, value=value,
        ))  # fmt: skip
        assert opened.writer == "validator"
        assert dataclasses.replace(opened.record, seal=emitted.seal) == emitted
        return emitted

    assert isinstance(await ask(), CallValidated)
    assert isinstance(await ask(arguments='{"\\ud800":1}'), LedgerEntry)
    late = await ask(bearer=token(now_ms=NOW_MS - 86_400_000))
    assert isinstance(late, LedgerEntry)
    assert (late.code, late.reason) == ("identity_invalid", "token_expired")
    with pytest.raises(Poison, match="bad_run_seal"):
        await ask(run_key=b"x" * 32)


def _partition(key: bytes) -> int:
    return partition_of(key, 12)


def control(kind: ControlKind, subject: str, said_ms: int = 1) -> Control:
    return Control(
        event_id="e" * 32, producer="cli", kind=kind, subject=subject, reason="an incident", by="olga", said_ms=said_ms
    )


@pytest.mark.parametrize(
    ("kind", "subject", "code", "reason"),
    [
        (ControlKind.DISABLE, "tool:refund", Code.TOOL_DISABLED, "tool_disabled"),
        (ControlKind.DISABLE, f"agent:{ANNA.agent}", Code.PERMISSION_DENIED, "agent_disabled"),
        (ControlKind.DISABLE, f"tenant:{ANNA.tenant}", Code.PERMISSION_DENIED, "tenant_disabled"),
        (ControlKind.STOP, f"run:{ANNA.tenant}/{RUN_ID}", Code.RUN_STOPPED, "run_stopped"),
    ],
    ids=["tool", "agent", "tenant", "run"],
)
async def test_what_is_switched_off_is_refused(kind: ControlKind, subject: str, code: Code, reason: str) -> None:
    """C4, S6: until it is switched on again; a cancel passes at all times."""
    entry = await judge(request(), None, None, control(kind, subject))
    assert isinstance(entry, LedgerEntry)
    assert (entry.code, entry.reason) == (code.value, reason)
    cancel = await judge(request(kind=RequestKind.CANCEL), None, None, control(kind, subject))
    assert isinstance(cancel, LedgerEntry)
    assert cancel.kind is LedgerKind.CANCELLED
    again = await judge(request(), None, None, control(kind, subject), control(ControlKind.ENABLE, subject, 2))
    assert isinstance(again, CallValidated)


def test_a_rule_that_does_not_compile_stops_the_start() -> None:
    """B6"""
    catalog = Catalog("broken")

    @catalog.tool(risk="read", timeout=1, description="Reads.", rules=(Rule("odd", "args.nope == 1", "No."),))
    def read(args: Refund, ctx: ToolContext) -> None: ...

    with pytest.raises(ConfigurationError, match="odd"):
        build(
            catalog=catalog,
            log=bus(),
            grants=FakeGrants(),
            signer=keyring().signer("validator"),
            clock=ManualClock(),
            producer="validator@test:1",
        )
