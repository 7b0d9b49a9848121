"""Business rules: compiled and typed at start, only a literal true passes, and facts that fail are never a pass."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Rule, Tool, ToolError
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Origin, Principal
from fourgates.gates.business import CompiledRules, gather_facts
from fourgates.gates.looked_at import looked_at, names_in
from fourgates.gates.refusal import Refusal
from support.samples import PRINCIPAL

NOW = 1_700_000_000_000


class Address(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    city: str
    zip: str | None = None


class Item(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    sku: str
    price: float


class Refund(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str
    amount: int
    rate: float = 1.0
    kind: Literal["full", "part"] = "full"
    note: str | None = None
    urgent: bool = False
    address: Address | None = None
    sender: Address = Address(city="Wien")
    items: list[Item] = []


def refund_tool(*rules: Rule | str, facts: Any = None, facts_types: dict[str, str] | None = None, **other: Any) -> Tool:
    catalog = Catalog("shop")
    made = tuple(rule if isinstance(rule, Rule) else Rule(f"r{n}", rule, "No.", "/order_id") for n, rule in enumerate(rules))
    types = {"owned": "bool", "paid": "int", "rate": "double", "tags": "list<string>", "hint": "string?", "any": "dyn"}

    @catalog.tool(
        risk="write", timeout=5, description="Refunds.", rules=made, facts=facts or (lambda args, principal: {}),
        facts_types=types if facts_types is None else facts_types, **other,
    )  # fmt: skip
    def refund(args: Refund, ctx: Any) -> None: ...

    tool = catalog.get("refund")
    assert tool is not None
    return tool


ARGS: dict[str, Any] = {
    "order_id": "A-1", "amount": 50, "rate": 1, "kind": "full", "note": None, "urgent": False, "address": None,
    "sender": {"city": "Wien", "zip": None}, "items": [{"sku": "x", "price": 5}],
}  # fmt: skip
FACTS: dict[str, Any] = {"owned": True, "paid": 100, "rate": 2, "tags": ["vip"], "any": {"deep": [1]}}


def judged(
    *rules: Rule | str, args: dict[str, Any] | None = None, facts: dict[str, Any] | None = None,
    principal: Principal = PRINCIPAL, origins: tuple[Origin, ...] = (), intent: str = "refund it", now_ms: int = NOW, **tool: Any,
) -> Refusal | None:  # fmt: skip
    compiled = CompiledRules(refund_tool(*rules, **tool))
    return compiled.judge(ARGS | (args or {}), principal, FACTS if facts is None else facts, origins, intent, now_ms)


@pytest.mark.parametrize(
    "rule",
    [
        "facts.owned",
        "args.amount <= facts.paid",
        "args.rate * facts.rate == 2.0",
        "args.kind in ['full', 'part']",
        "args.note == null",
        "args.note == null || size(args.note) < 4",
        "args.sender.city == 'Wien' && args.sender.zip == null",
        "args.address == null || args.address.city != 'x'",
        "args.items.all(item, item.price < 9.5)",
        "'vip' in facts.tags",
        "facts.hint == null",
        "facts.any.deep[0] == 1",
        "principal.subject == 'anna' && 'support' in principal.groups && !principal.service",
        "origins['/order_id'] == 'user'",
        "origins.all(pointer, origins[pointer] != 'model')",
        "intent.contains('refund')",
        "now >= timestamp('2023-11-14T22:13:20Z') && now < timestamp('2023-11-14T22:13:21Z')",
    ],
)
def test_rules_see_args_principal_facts_origins_intent_and_now(rule: str) -> None:
    """B1"""
    assert judged(rule, origins=(Origin(pointer="/order_id", origin="user"),)) is None


def test_each_rule_refuses_with_its_own_reason_field_and_sentence() -> None:
    """B1"""
    rules = (
        Rule("own", "facts.owned", "That order is not yours."),
        Rule("limit", "args.amount <= facts.paid", "More than was paid.", "/amount"),
    )
    mine = judged(*rules, args={"amount": 101})
    assert mine is not None
    assert (mine.code, mine.reason, mine.field, mine.sentence) == (Code.RULE_VIOLATED, "limit", "/amount", "More than was paid.")
    foreign = judged(*rules, facts={"owned": False})
    assert foreign is not None and foreign.reason == "own"


def test_what_a_rule_says_about_itself_does_not_reach_its_neighbours() -> None:
    """B1: a comment at a rule's end, an `or` without brackets, and one that errs beside one that is false."""
    rules = (
        Rule("either", "args.amount > 0 || args.amount < 0 // not nothing", "Say an amount."),
        Rule("errs", "10 / (args.amount - 7) > -100", "It must be small."),
        Rule("small", "args.amount < 20", "It must be tiny."),
    )
    said = [judged(*rules, args={"amount": amount}) for amount in (0, 4, 7, 30)]
    assert [refusal and refusal.reason for refusal in said] == ["either", None, "errs", "small"]


def test_not_yours_and_not_there_are_told_alike() -> None:
    """B1: a provider answers owned=false for both, so nobody finds out what exists."""
    rules = (Rule("own", "facts.owned", "There is no such order of yours."), Rule("limit", "args.amount <= facts.paid", "No."))
    assert judged(*rules, facts={"owned": False, "paid": 7}) == judged(*rules, facts={"owned": False})


@pytest.mark.parametrize(
    ("rule", "facts"),
    [
        ("facts.paid > 1", {}),
        ("facts.any != 'blocked'", {}),
        ("facts.any", {"any": "true"}),
        ("args.amount + 9223372036854775807 > 0", FACTS),
        ("args.amount / (args.amount - 50) > 0", FACTS),
        ("origins['/nowhere'] != 'model'", FACTS),
        ("args.address.city != 'x'", FACTS),
        ("args.order_id.matches('[')", FACTS),
        ("timestamp(args.order_id) < now", FACTS),
        ("facts.tags[3] != 'x'", FACTS),
    ],
)
def test_a_rule_that_errs_refuses_by_its_own_name(rule: str, facts: dict[str, Any]) -> None:
    """B3"""
    if rule == "facts.any":
        rule += " == true"
    refusal = judged(rule, facts=facts)
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (Code.RULE_VIOLATED, "r0")


def test_an_errors_text_stays_out_of_the_refusal() -> None:
    """B3: it may hold a value, and nobody redacts it."""
    refusal = judged("origins[args.order_id] == 'user'", args={"order_id": "very-private"})
    assert refusal is not None
    assert refusal.detail["yielded"] == "error:NOT_FOUND"
    assert "very-private" not in repr(dataclasses.replace(refusal, detail={**refusal.detail, "values": {}}))


def test_what_a_refusing_rule_looked_at_goes_to_the_audit() -> None:
    """B1: these values and no others, for whoever asks why; nothing of it is for the model."""
    refusal = judged("args.amount <= facts.paid && origins['/order_id'] == 'facts.owned'", args={"amount": 6}, facts={"paid": 5})
    assert refusal is not None
    assert refusal.detail["values"] == {"args.amount": 6, "facts.paid": 5, "origins": {}}
    assert (refusal.sentence, refusal.field) == ("No.", "/order_id")


def test_secrets_and_personal_data_do_not_reach_the_audit_by_a_rule() -> None:
    """B1, R3: by their form, by their name, and as the contract names them; the mark tells nothing of the value."""
    secret = "sk_live_" + "4eC39HqLyjWDarjtT1zdP7dc"
    tool_args = {"order_id": secret, "note": "write to anna.k@shop.example; my password: summer2024", "amount": 1}
    rule = "args.order_id == 'A-1' && args.note == null && args.kind == 'part'"
    refusal = judged(rule, args=tool_args, redact=("email",))
    assert refusal is not None
    values = refusal.detail["values"]
    assert secret not in repr(refusal)
    assert "anna.k@shop.example" not in repr(refusal) and "summer2024" not in repr(refusal)
    assert values["args.note"].startswith("write to [redacted:email:000000]")
    assert values["args.kind"] == "full"


def test_what_the_audit_gets_of_a_rule_is_bounded() -> None:
    """B1"""
    refusal = judged("args.order_id == 'A-1'", args={"order_id": "long " * 10_000})
    assert refusal is not None
    assert len(refusal.detail["values"]["args.order_id"]) < 310
    assert looked_at(("facts.odd",), {"facts.odd": float("nan")}, ()) == {"facts.odd": "nan"}


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("args.amount <= facts.paid", ("args.amount", "facts.paid")),
        ("args.amount_due == 1", ()),
        ("my.args.amount == 1", ()),
        ("'args.amount' == \"facts.paid\"", ()),
        ("'it\\'s args.amount' == '' || facts.paid == 1", ("facts.paid",)),
        ("args.amount.size() > 1", ("args.amount",)),
    ],
)
def test_the_names_that_a_rule_speaks_of_are_found(expression: str, names: tuple[str, ...]) -> None:
    """B1"""
    assert names_in(expression, ("args.amount", "facts.paid")) == names


_VALUES = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(), st.lists(st.booleans()))


@given(_VALUES)
def test_only_a_literal_true_passes_whatever_the_fact_is(value: Any) -> None:
    """B3"""
    refusal = _DYNAMIC.judge(ARGS, PRINCIPAL, {"any": value}, (), "", NOW)
    assert (refusal is None) == (value is True)


_DYNAMIC = CompiledRules(refund_tool("facts.any == true"))


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("args.amont < 5", "undeclared reference to 'args.amont'"),
        ("args.sender.town == 'x'", "undeclared reference to 'args.sender.town'"),
        ("facts.unknown", "undeclared reference to 'facts.unknown'"),
        ("principal.token == ''", "undeclared reference"),
        ("args.amount < 'x'", "no matching overload"),
        ("args.order_id == 5", "no matching overload"),
        ("args.amount <", "Syntax error"),
        ("args.amount", "it yields int"),
        ("facts.any", "it yields dyn"),
        ("'true'", "it yields string"),
        ("has(args.urgent)", "has\\(\\) does not tell"),
        ("facts.owned && has( facts.hint )", "has\\(\\) does not tell"),
    ],
)
def test_rules_that_do_not_compile_to_a_boolean_are_refused_at_start(rule: str, says: str) -> None:
    """B6: naming tool, rule, line and column."""
    with pytest.raises(ConfigurationError, match=says) as fault:
        CompiledRules(refund_tool(rule))
    assert "tool 'refund', rule 'r0', line 1, column" in str(fault.value)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """B6"""
    with pytest.raises(ConfigurationError, match=r"there are .*args\.order_id.*facts\.owned"):
        CompiledRules(refund_tool("facts.ownd"))


@pytest.mark.parametrize("odd", ["text", "list<list<int>>", "int??", ""])
def test_an_unknown_fact_type_is_refused_at_start(odd: str) -> None:
    """B6"""
    with pytest.raises(ConfigurationError, match="facts_types"):
        CompiledRules(refund_tool(facts_types={"owned": odd}))


def test_rules_and_origins_are_part_of_the_tool_version() -> None:
    """B6"""
    plain = refund_tool("facts.owned")
    assert refund_tool("facts.owned && true").version != plain.version
    assert refund_tool("facts.owned", origins={"order_id": {"user"}}).version != plain.version
    assert refund_tool("facts.owned").version == plain.version


async def test_facts_arrive_from_sync_and_async_providers() -> None:
    """B2"""

    async def slow_enough(args: Any, principal: Principal) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"owned": principal.subject == "anna"}

    assert await gather_facts(refund_tool(facts=slow_enough), None, PRINCIPAL) == {"owned": True}
    assert await gather_facts(refund_tool(facts=lambda args, who: {"paid": 5}), None, PRINCIPAL) == {"paid": 5}


async def test_a_slow_provider_is_transient() -> None:
    """B2"""
    never = threading.Event()

    async def hangs(args: Any, principal: Principal) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {"owned": True}

    def blocks(args: Any, principal: Principal) -> dict[str, Any]:
        never.wait(5)
        return {"owned": True}

    for provider in (hangs, blocks):
        refusal = await gather_facts(refund_tool(facts=provider, facts_timeout=0.02), None, PRINCIPAL)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.reason) == (Code.UNAVAILABLE, "facts_unavailable")
    never.set()


@pytest.mark.parametrize(
    "fault", [ValueError("password=hunter2"), TimeoutError(), KeyError("x"), ToolError("gone", "gone"), SystemExit(1)]
)
async def test_a_failing_provider_is_transient_and_its_text_stays_inside(fault: BaseException) -> None:
    """B2"""

    def fails(args: Any, principal: Principal) -> dict[str, Any]:
        raise fault

    refusal = await gather_facts(refund_tool(facts=fails), None, PRINCIPAL)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.reason) == (Code.UNAVAILABLE, "facts_unavailable")
    assert "hunter2" not in repr(refusal)


@pytest.mark.parametrize(
    "facts",
    [
        None, [], True, {"owned": "yes"}, {"owned": 1}, {"paid": True}, {"paid": 1.5}, {"tags": [1]}, {"rate": float("nan")},
        {"owned": None}, {"other": object()}, {"other": 2**60}, {"other": float("inf")}, {"other": "\ud800"}, {1: 2},
    ],
)  # fmt: skip
async def test_facts_of_another_type_than_declared_are_never_a_pass(facts: Any) -> None:
    """B2"""
    refusal = await gather_facts(refund_tool(facts=lambda args, who: facts), None, PRINCIPAL)
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.reason) == (Code.UNAVAILABLE, "facts_invalid")


async def test_a_tool_without_a_provider_has_no_facts() -> None:
    """B2"""
    catalog = Catalog("shop")

    @catalog.tool(risk="read", timeout=5, description="Reads.")
    def look(args: Refund, ctx: Any) -> None: ...

    tool = catalog.get("look")
    assert tool is not None
    assert await gather_facts(tool, None, PRINCIPAL) == {}
