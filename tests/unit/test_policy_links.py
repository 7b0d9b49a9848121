"""Templates of policies: said once, filled in for many, checked and explained like every other policy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fourgates.contract.errors import ConfigurationError
from fourgates.gates.permission import Permit, Policies
from fourgates.gates.refusal import Refusal
from support.policies import FACTS, HUMAN, refund, shop

SHOP = shop(resource=True)
TEXT = """
@id("reads") permit (principal, action in Fourgates::Action::"read", resource);

@id("case-worker") @approval("waived")
permit (principal == ?principal, action == Fourgates::Action::"refund_order", resource == ?resource)
when { context.args.amount.lessThanOrEqual(decimal("200.0")) };

@id("frozen") forbid (principal, action == Fourgates::Action::"refund_order", resource) when { context.facts.frozen };
"""


def link(link_id: str = "anna-A-1001", **changes: Any) -> dict[str, Any]:
    args = {"?principal": 'Fourgates::User::"acme/anna"', "?resource": 'Fourgates::Resource::"acme/A-1001"'}
    return {"template_id": "case-worker", "link_id": link_id, "args": args} | changes


def loaded(*links: dict[str, Any], text: str = TEXT) -> Policies:
    return Policies.load(text, SHOP, json.dumps(links))


def asked(policies: Policies, order: str = "A-1001", **facts: Any) -> Permit | Refusal:
    call = refund(SHOP, principal=HUMAN, order_id=order)
    return policies.authorize(call, json.loads(call.arguments), {**FACTS, "resource": order} | facts)


def test_a_link_permits_its_principal_its_resource_and_nothing_else() -> None:
    """P3: this principal, this order; the link is what is named as the reason."""
    found = asked(loaded(link()))
    assert isinstance(found, Permit)
    assert (found.policies, found.waived_by) == (("anna-A-1001",), ("anna-A-1001",))
    for other in (asked(loaded(link()), "A-1002"), asked(loaded()), asked(loaded(link()), frozen=True)):
        assert isinstance(other, Refusal)
    other = {"?principal": 'Fourgates::User::"acme/ben"', "?resource": 'Fourgates::Resource::"acme/A-1001"'}
    assert isinstance(asked(loaded(link(args=other))), Refusal)


def test_links_stand_in_the_place_of_their_template() -> None:
    """P2: of equal approvals the first in the text counts."""
    text = TEXT.replace('@approval("waived")', '@approval("cases")') + (
        '@id("later") @approval("others") permit (principal, action == Fourgates::Action::"refund_order", resource);'
    )
    found = asked(loaded(*(link(f"link-{number}") for number in range(12)), text=text))
    assert isinstance(found, Permit)
    assert found.policies == (*(f"link-{number}" for number in range(12)), "later")
    assert (found.approvals[0].group, found.asked_by) == ("cases", "link-0")


def test_other_links_are_another_set() -> None:
    """P2: the digest in the event is that of what decided."""
    assert loaded(link()).digest != loaded(link("other")).digest
    assert loaded(link()).digest == loaded(link()).digest


def test_strange_names_stay_names() -> None:
    """P2: quotes and line breaks of a resource's id are no policy text."""
    odd = 'A"1\n); permit (principal, action, resource);'
    uid = {"?principal": 'Fourgates::User::"acme/anna"', "?resource": f"Fourgates::Resource::{json.dumps(f'acme/{odd}')}"}
    policies = loaded(link(args=uid))
    assert isinstance(asked(policies, odd), Permit)
    assert isinstance(asked(policies, "A-1001"), Refusal)


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ([link(template_id="nobody")], "nobody.*templates are: case-worker"),
        ([link(args={"?principal": 'Fourgates::User::"acme/anna"'})], r"leaves \?resource open"),
        ([link(args=link()["args"] | {"?action": "x"})], r"gives \?action"),
        ([link(args=link()["args"] | {"?resource": "A-1001"})], "no entity"),
        ([link(args=link()["args"] | {"?resource": 'Nope::"A-1001"'})], "Nope"),
        ([link(args=link()["args"] | {"?resource": 'Fourgates::Tool::"x", action, resource); permit (principal'})], "no entity"),
        ([link(), link()], "two policies have @id"),
        ([link("")], "needs an @id"),
        ([{"template_id": "case-worker"}], "link 1 must have"),
        ({"template_id": "case-worker"}, "not a list"),
        ("[", "not JSON"),
    ],
)  # fmt: skip
def test_a_link_that_fills_nothing_in_refuses_to_start(links: Any, says: str) -> None:
    """P2: with the link's own id."""
    with pytest.raises(ConfigurationError, match=says):
        Policies.load(TEXT, SHOP, links if isinstance(links, str) else json.dumps(links))


def test_a_template_that_nothing_fills_in_is_refused_without_links_and_waits_with_them() -> None:
    """P2: it allows nothing by itself."""
    with pytest.raises(ConfigurationError, match="give links"):
        Policies.load(TEXT, SHOP)
    assert isinstance(asked(loaded()), Refusal)
