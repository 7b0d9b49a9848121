"""Permission: default deny, errors refuse, user and agent both, the strictest approval, and what Cedar can and cannot hold."""

from __future__ import annotations

import dataclasses
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Tool
from fourgates.contract.canonical import digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Call, Origin, Principal
from fourgates.gates.cedar_schema import derive
from fourgates.gates.permission import DEFAULT_APPROVAL, ApprovalNeed, Permit, Policies
from fourgates.gates.refusal import Refusal
from support.policies import FACTS, HUMAN, POLICIES, Look, Refund, refund, shop
from support.samples import PRINCIPAL

SHOP = shop()
LOADED = Policies.load(POLICIES, SHOP)
REFUNDS = 'action == Fourgates::Action::"refund_order"'
ANY = '@id("all") permit (principal, action, resource);'


def answer(
    text: str | None = None, facts: dict[str, Any] | None = None, principal: Principal = PRINCIPAL, tool: str = "refund_order",
    catalog: Catalog = SHOP, **arguments: Any,
) -> Permit | Refusal:  # fmt: skip
    policies = LOADED if text is None else Policies.load(text, catalog)
    call = refund(catalog, principal, tool, **arguments)
    return policies.authorize(call, json.loads(call.arguments), FACTS if facts is None else facts)


def permitted(*args: Any, **more: Any) -> Permit:
    found = answer(*args, **more)
    assert isinstance(found, Permit), found
    return found


def refused(*args: Any, **more: Any) -> Refusal:
    found = answer(*args, **more)
    assert isinstance(found, Refusal), found
    assert found.code is Code.PERMISSION_DENIED
    return found


def test_the_determining_policies_and_their_digest_are_named() -> None:
    """P2"""
    found = permitted()
    assert found.policies == ("support-refunds", "bot-may-act")
    assert found.digest == LOADED.digest == digest_bytes(POLICIES.encode())


def test_what_no_policy_permits_is_denied() -> None:
    """P2: default deny."""
    assert refused(principal=dataclasses.replace(HUMAN, groups=()), amount=100).reason == "no_policy"
    assert refused(principal=HUMAN, tool="erase_order").reason == "no_policy"


def test_a_forbid_wins_and_gives_its_id_as_the_reason() -> None:
    """P2: deny wins."""
    found = refused(facts=FACTS | {"frozen": True})
    assert found.reason == "nobody-when-frozen"
    assert found.detail["policies"] == ["nobody-when-frozen"]


def test_a_policy_looks_at_the_resource_by_its_facts() -> None:
    """P3: this principal, this order."""
    assert refused(facts=FACTS | {"owner": "ben"}).reason == "no_policy"


def test_the_named_resource_is_the_policys_resource() -> None:
    """P3: and a namesake in another tenant is another one."""
    catalog = shop(resource=True)
    text = '@id("one") permit (principal, action, resource == Fourgates::Resource::"acme/order-7");'
    facts = FACTS | {"resource": "order-7"}
    assert permitted(text, facts, catalog=catalog).policies == ("one",)
    assert refused(text, FACTS | {"resource": "order-8"}, catalog=catalog).reason == "no_policy"
    elsewhere = dataclasses.replace(PRINCIPAL, tenant="other")
    assert refused(text, facts, elsewhere, catalog=catalog).reason == "no_policy"
    within = '@id("of-tool") permit (principal, action, resource in Fourgates::Tool::"refund_order");'
    assert permitted(within, facts, catalog=catalog).policies == ("of-tool",)
    assert refused(within, FACTS, catalog=catalog).reason == "not_judgeable"


def test_the_call_needs_both_the_users_right_and_the_agents() -> None:
    """P4"""
    users = '@id("users") permit (principal is Fourgates::User, action, resource);'
    agents = '@id("agents") permit (principal is Fourgates::Agent, action, resource);'
    assert permitted(users, principal=HUMAN).policies == ("users",)
    assert refused(users).detail["asker"] == "Fourgates::Agent"
    assert refused(agents).detail["asker"] == "Fourgates::User"
    assert permitted(users + agents).policies == ("users", "agents")
    assert refused(principal=dataclasses.replace(PRINCIPAL, agent="other-bot")).reason == "no_policy"


def test_a_forbid_of_the_agent_alone_refuses() -> None:
    """P4"""
    text = ANY + '@id("no-bots") forbid (principal is Fourgates::Agent, action, resource);'
    assert refused(text).reason == "no-bots"
    assert isinstance(answer(text, principal=HUMAN), Permit)


def test_a_namesake_in_another_tenant_is_somebody_else() -> None:
    """P2"""
    text = '@id("anna") permit (principal == Fourgates::User::"acme/anna", action, resource);'
    assert permitted(text, principal=HUMAN).policies == ("anna",)
    assert refused(text, principal=dataclasses.replace(HUMAN, tenant="other")).reason == "no_policy"
    odd = '@id("odd") permit (principal == Fourgates::User::"acme/b/c", action, resource);'
    assert permitted(odd, principal=dataclasses.replace(HUMAN, subject="b/c")).policies == ("odd",)
    assert refused(odd, principal=dataclasses.replace(HUMAN, tenant="acme/b", subject="c")).reason == "no_policy"


@pytest.mark.parametrize(
    "condition",
    [
        "context.args.units + 9223372036854775807 > 0",
        "context.args.units * 9223372036854775807 > 0",
        "0 - 9223372036854775807 - context.args.units < 0",
        'Fourgates::User::"acme/nobody".service',
        'Fourgates::Tool::"look_at_order".risk == "write"',
        'context.args has note && context.args.note == "y" && context.args.units + 9223372036854775807 > 0',
    ],
)
def test_a_forbid_that_errs_refuses(condition: str) -> None:
    """P2: overflow and missing entities, in a validated policy; Cedar skips it and says Allow."""
    boom = f'@id("boom") forbid (principal, {REFUNDS}, resource) when {{ {condition} }};'
    found = refused(ANY + boom, units=20, note="y")
    assert found.reason == "policy_error" and found.detail["policies"] == ["boom"]


def test_a_permit_that_errs_refuses_although_another_permits() -> None:
    """P2"""
    text = ANY + f'@id("odd") permit (principal, {REFUNDS}, resource) when {{ context.args.units + 9223372036854775807 > 0 }};'
    assert refused(text).reason == "policy_error"


def test_the_text_of_an_evaluation_error_stays_inside() -> None:
    """P2: it quotes values."""
    text = ANY + f'@id("boom") forbid (principal, {REFUNDS}, resource) when {{ context.args.units * 9000000000000000000 > 0 }};'
    assert "4711" not in repr(refused(text, units=4711))


def test_an_absent_fact_that_a_policy_needs_refuses() -> None:
    """P2: never a pass."""
    found = refused(facts={"owner": "anna"})
    assert (found.reason, found.detail["pointer"]) == ("not_judgeable", "/frozen")


@pytest.mark.parametrize(
    "facts", [{"owner": 5, "frozen": False}, {"owner": "anna", "frozen": "no"}, {"owner": None, "frozen": False}]
)
def test_a_fact_of_another_type_refuses(facts: dict[str, Any]) -> None:
    """P2"""
    assert refused(facts=facts).reason == "not_judgeable"


@pytest.mark.parametrize(
    ("amount", "waived"), [(50, True), (50.0, True), (50.0001, False), (49.9999, True), (0, True), (500, False)]
)
def test_numbers_are_compared_as_exact_decimals(amount: float, waived: bool) -> None:
    """P2: Cedar has no floats."""
    assert (permitted(amount=amount).approvals == ()) is waived


@pytest.mark.parametrize("amount", [50.00001, 1e-9, 0.1 + 0.2, 1e15, 1e300, -1e15])
def test_a_number_that_a_decimal_cannot_hold_refuses_and_is_never_rounded(amount: float) -> None:
    """P2"""
    found = refused(amount=amount)
    assert (found.reason, found.detail["pointer"]) == ("not_judgeable", "/amount")


def test_a_number_that_no_policy_looks_at_does_not_refuse() -> None:
    """P2: latitudes have six digits."""
    assert permitted(ANY, amount=52.520008).policies == ("all",)


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=4))
def test_decimals_of_four_places_compare_as_they_read(amount: Decimal) -> None:
    """P2"""
    found = permitted(amount=float(amount)) if amount == Decimal(str(float(amount))) else None
    if found is not None:
        assert ("small-refunds-need-nobody" in found.policies) == (amount <= 50)
        assert ("large-refunds-need-finance" in found.policies) == (amount > 500)


def test_comparing_whole_records_sees_all_of_them() -> None:
    """P2: fields are left out only where no policy can tell."""
    catalog = Catalog("twins")

    @catalog.tool(
        risk="read", timeout=5, description="Reads.", facts=lambda args, principal: {}, facts_types={"order_id": "string"}
    )
    def twin(args: Look, ctx: Any) -> None: ...

    policies = Policies.load('@id("same") permit (principal, action, resource) when { context.args == context.facts };', catalog)
    call = refund(catalog, tool="twin")
    assert isinstance(policies.authorize(call, {"order_id": "A"}, {"order_id": "A"}), Permit)
    assert isinstance(policies.authorize(call, {"order_id": "A"}, {"order_id": "B"}), Refusal)


def test_optional_arguments_are_absent_for_a_policy_where_they_are_null() -> None:
    """P2"""
    text = (
        f'@id("noted") permit (principal, {REFUNDS}, resource) when {{ context.args has note && context.args.note like "ok*" }};'
    )
    assert permitted(text, note="ok then").policies == ("noted",)
    assert refused(text).reason == "no_policy"


def test_a_field_that_is_named_like_cedars_own_words_speaks_for_nothing() -> None:
    """P2: `__entity` in JSON would be an entity, and a model fills the arguments in."""
    schema, _ = derive(Catalog("odd"))
    assert schema["Fourgates"]["actions"].keys() == {"read", "write", "destructive"}
    catalog = Catalog("odd")
    properties = {"__entity": {"type": "string"}, "__extn": {"type": "string"}, "plain": {"type": "string"}}
    catalog.add(
        dataclasses.replace(
            cast(Tool, SHOP.get("look_at_order")), model=None, schema={"type": "object", "properties": properties}
        )
    )
    schema, contexts = derive(catalog)
    action = schema["Fourgates"]["actions"]["look_at_order"]
    assert action["appliesTo"]["context"]["attributes"]["args"]["attributes"].keys() == {"plain"}
    assert contexts["look_at_order"].args({"__extn": "x", "plain": "y"}) == {"plain": "y"}


def test_sets_and_context_reach_the_policy() -> None:
    """P2"""
    text = (
        '@id("vip") permit (principal, action == Fourgates::Action::"refund_order", resource) when {'
        ' context.args.tags.contains("vip") && context.agent == "support-bot" && context.groups.contains("support")'
        ' && context.intent like "refund*" && principal.tenant == "acme" && resource.risk == "write" && !context.breach };'
    )
    assert permitted(text, tags=["vip", "vip"]).policies == ("vip",)
    assert refused(text, tags=["other"]).reason == "no_policy"


def test_a_policy_can_see_a_breach_of_origins() -> None:
    """B4"""
    text = ANY + '@id("no-breach") forbid (principal, action, resource) when { context.breach };'
    policies, call = Policies.load(text, SHOP), refund(SHOP)
    injected = dataclasses.replace(call, origins=(Origin(pointer="/order_id", origin="result:x"),))
    assert isinstance(policies.authorize(call, json.loads(call.arguments), FACTS), Permit)
    found = policies.authorize(injected, json.loads(call.arguments), FACTS)
    assert isinstance(found, Refusal) and found.reason == "no-breach"


@given(st.text(max_size=12), st.text(max_size=12), st.lists(st.text(max_size=8), max_size=3))
def test_hostile_names_prove_nothing(subject: str, agent: str, groups: list[str]) -> None:
    """P2: whatever a token says, only the named group has the right."""
    who = Principal(issuer="i", subject=subject, tenant="t", person="p", agent=agent, groups=tuple(groups))
    assert isinstance(answer(principal=who, tool="look_at_order"), Refusal) or "support" in groups


def test_write_and_destructive_need_a_person_unless_waived_and_a_read_needs_none() -> None:
    """A1"""
    assert permitted(ANY).approvals == (DEFAULT_APPROVAL,)
    assert permitted(ANY, tool="erase_order").approvals == (DEFAULT_APPROVAL,)
    assert permitted(ANY, tool="look_at_order").approvals == ()
    assert permitted(amount=20).approvals == ()


def approval(*annotations: str, tool: str = "refund_order") -> tuple[tuple[ApprovalNeed, ...], str]:
    """(needs, asked by) where permits with these annotations all determine; "" is none."""
    text = "".join(
        f'@id("p{n}") {f"@approval({json.dumps(each)})" if each else ""} permit (principal, action, resource);'
        for n, each in enumerate(annotations)
    )
    found = permitted(text, tool=tool)
    return found.approvals, found.asked_by


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (("waived", "finance:2"), ((ApprovalNeed("finance", 2),), "p1")),
        (("finance:2", "waived", "legal"), ((ApprovalNeed("finance", 2),), "p0")),
        (("legal", "finance:3", "finance:2"), ((ApprovalNeed("finance", 3),), "p1")),
        (("legal", "finance"), ((ApprovalNeed("legal", 1),), "p0")),
        (("", "waived"), ((), "")),
        (("",), ((DEFAULT_APPROVAL,), "")),
    ],
)
def test_the_strictest_determining_policy_wins(
    annotations: tuple[str, ...], expected: tuple[tuple[ApprovalNeed, ...], str]
) -> None:
    """A1: any named group before a waiver, the larger quorum before the smaller, of equals the first in the text."""
    assert approval(*annotations) == expected


def test_a_policy_may_ask_for_a_person_even_for_a_read() -> None:
    """A1"""
    assert approval("privacy", tool="look_at_order") == ((ApprovalNeed("privacy", 1),), "p0")


@given(st.lists(st.sampled_from(["", "waived", "a", "b:2", "c:2", "d:5"]), min_size=1, max_size=5))
def test_adding_a_policy_never_loosens_a_named_need(annotations: list[str]) -> None:
    """A1: a waiver beside a named group changes nothing."""
    named = [each for each in annotations if each not in ("", "waived")]
    needs, _ = approval(*annotations)
    if named:
        assert needs[0].quorum == max(int((each + ":1").split(":")[1]) for each in named)
        assert approval(*annotations, "waived")[0] == needs
    else:
        assert needs == (() if "waived" in annotations else (DEFAULT_APPROVAL,))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the set is empty"),
        ("// nothing yet", "the set is empty"),
        ("permit (principal, action", "do not parse"),
        ("permit (principal, action, resource);", "needs an @id"),
        ('@id("") permit (principal, action, resource);', "needs an @id"),
        ('@id("two words") permit (principal, action, resource);', "needs an @id"),
        (ANY + ANY, "two policies have"),
        ('@id("t") permit (principal == ?principal, action, resource);', "template"),
        ('@id("x") permit (principal, action, resource) when { context.args.amont.lessThan(decimal("1.0")) };', "'x'"),
        ('@id("x") permit (principal, action == Fourgates::Action::"nope", resource);', "unrecognized action"),
        ('@id("x") permit (principal in Group::"support", action, resource);', "'x'"),
        ('@id("x") permit (principal, action, resource) when { context.args.amount < 5 };', "'x'"),
        ('@id("x") permit (principal, action, resource) when { 1 };', "'x'"),
        ('@id("x") permit (principal, action, resource) when { context.facts.owner == "a" };', "'x'"),
    ],
)
def test_a_set_that_could_not_decide_refuses_to_start(text: str, says: str) -> None:
    """P2: with the validator's own sentence."""
    with pytest.raises(ConfigurationError, match=f"^policies: .*{says}"):
        Policies.load(text, SHOP)


@pytest.mark.parametrize(
    "odd",
    ["", "Waived!", "finance:0", "finance:10", "finance:", ":2", "finance:two", "waived:2", "finance:1:2", " finance", "a b"],
)
def test_a_malformed_approval_refuses_to_start(odd: str) -> None:
    """A1"""
    with pytest.raises(ConfigurationError, match="@approval"):
        Policies.load(f'@id("x") @approval("{odd}") permit (principal, action, resource);', SHOP)


def test_an_approval_on_a_forbid_refuses_to_start() -> None:
    """A1: it would look as if somebody could lift it."""
    with pytest.raises(ConfigurationError, match="on a permit"):
        Policies.load(ANY + '@id("x") @approval("finance") forbid (principal, action, resource);', SHOP)


def test_a_tool_named_like_a_group_of_actions_refuses_to_start() -> None:
    """P2: a policy for all reads would mean this tool as well."""
    catalog = Catalog("odd")

    @catalog.tool(risk="read", timeout=5, description="Writes?", name="write")
    def write(args: Refund, ctx: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="rename it"):
        Policies.load(ANY, catalog)


def test_a_tool_that_the_catalog_does_not_have_is_denied() -> None:
    """P2"""
    call: Call = dataclasses.replace(refund(SHOP), tool="drop_tables")
    found = LOADED.authorize(call, {}, {})
    assert isinstance(found, Refusal) and found.reason == "unknown_tool"


def test_the_groups_that_policies_ask_are_known() -> None:
    """A1"""
    assert LOADED.groups == frozenset({"finance"})


class DocumentedRefund(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str
    amount: float


def test_the_documented_example_loads_and_does_what_it_says() -> None:
    """P2, A1: docs/policies.md"""
    text = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    catalog = Catalog("documented")

    @catalog.tool(risk="read", timeout=5, description="Reads an order.")
    def look_at_order(args: Look, ctx: Any) -> None: ...

    @catalog.tool(
        risk="write", timeout=5, description="Refunds.", facts=lambda args, principal: {}, facts_types={"owned": "bool"}
    )
    def refund_order(args: DocumentedRefund, ctx: Any) -> None: ...

    policies = Policies.load(text.split("```cedar\n")[1].split("```")[0], catalog)
    who = dataclasses.replace(PRINCIPAL, agent="shop-assistant")
    call = dataclasses.replace(refund(catalog, who, amount=0), principal=who)
    needs = {}
    for amount in (50, 51, 501):
        found = policies.authorize(call, {"order_id": "A", "amount": amount}, {"owned": True})
        assert isinstance(found, Permit)
        needs[amount] = found.approvals
    assert needs == {50: (), 51: (DEFAULT_APPROVAL,), 501: (ApprovalNeed("finance", 2),)}
    assert isinstance(policies.authorize(call, {"order_id": "A", "amount": 1}, {"owned": False}), Refusal)
