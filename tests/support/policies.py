"""A small shop with policies: what the tests of permission and of the authorizer are run on."""

from __future__ import annotations

import dataclasses
from typing import Any

from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, OnBreach
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.parts import Call, Principal
from support.samples import CALL, PRINCIPAL

POLICIES = """
@id("support-reads")
permit (principal in Fourgates::Group::"support", action in Fourgates::Action::"read", resource);

@id("support-refunds")
permit (principal in Fourgates::Group::"support", action == Fourgates::Action::"refund_order", resource)
when { context.facts.owner == context.subject };

@id("small-refunds-need-nobody") @approval("waived")
permit (principal is Fourgates::User, action == Fourgates::Action::"refund_order", resource)
when { context.args.amount.lessThanOrEqual(decimal("50.0")) };

@id("large-refunds-need-finance") @approval("finance:2")
permit (principal in Fourgates::Group::"support", action == Fourgates::Action::"refund_order", resource)
when { context.args.amount.greaterThan(decimal("500.0")) };

@id("bot-may-act")
permit (principal == Fourgates::Agent::"acme/support-bot", action, resource);

@id("nobody-when-frozen")
forbid (principal, action == Fourgates::Action::"refund_order", resource) when { context.facts.frozen };
"""


class Look(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str


class Refund(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str
    amount: float
    units: int = 1
    tags: list[str] = []
    note: str | None = None


def shop(*, on_breach: OnBreach = OnBreach.HOLD, resource: bool = False) -> Catalog:
    """look_at_order (read), refund_order (write), erase_order (destructive)."""
    catalog = Catalog("shop")
    types = {"owner": "string", "frozen": "bool"} | ({"resource": "string"} if resource else {})

    @catalog.tool(risk="read", timeout=5, description="Reads an order.")
    def look_at_order(args: Look, ctx: Any) -> None: ...

    @catalog.tool(
        risk="write", timeout=5, description="Refunds an order.", facts=lambda args, principal: {}, facts_types=types,
        origins={"order_id": {"user"}}, on_breach=on_breach,
    )  # fmt: skip
    def refund_order(args: Refund, ctx: Any) -> None: ...

    @catalog.tool(risk="destructive", timeout=5, description="Erases an order.")
    def erase_order(args: Look, ctx: Any) -> None: ...

    return catalog


HUMAN = dataclasses.replace(PRINCIPAL, agent="")
FACTS: dict[str, Any] = {"owner": "anna", "frozen": False}


def refund(catalog: Catalog, principal: Principal = PRINCIPAL, tool: str = "refund_order", **arguments: Any) -> Call:
    """A validated call; without arguments a refund of 100."""
    given = {"order_id": "A-1001"} | ({"amount": 100, "units": 1, "tags": [], "note": None} if tool == "refund_order" else {})
    contract = catalog.get(tool)
    assert contract is not None
    whole = given | arguments
    return dataclasses.replace(
        CALL, principal=principal, tool=tool, tool_version=contract.version, risk=contract.risk, allowed_actions=None,
        arguments=canonical(whole).decode(), args_digest=digest(whole),
    )  # fmt: skip
