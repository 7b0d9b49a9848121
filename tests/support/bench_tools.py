"""The catalog of the bench: one read and one claimed write, each through every gate, whose functions cost nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Committed, Effect, Rule, ToolContext
from fourgates.contract.parts import Principal

POLICIES = """
@id("staff-reads") permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"get", resource);
@id("staff-writes") @approval("waived")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"put", resource) when { context.args.cents <= 5000 };
@id("the-bot") permit (principal == Fourgates::Agent::"acme/bot", action, resource);
"""
catalog = Catalog("bench", policies=POLICIES)


class Get(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order: Annotated[str, Field(pattern=r"^[A-Z]-[0-9]{1,9}$", max_length=12)]


class Put(Get):
    cents: Annotated[int, Field(ge=1, le=1_000_000)]


async def owned(args: Get, who: Principal) -> dict[str, bool]:
    return {"owned": True}


RULE = Rule("owned", "facts.owned == true", "There is no such order of yours.", "/order")


@catalog.tool(risk="read", timeout=5.0, facts=owned, facts_types={"owned": "bool"}, rules=(RULE,))
async def get(args: Get, ctx: ToolContext) -> object:
    """Gets an order. Use it to read; takes the order's number; changes nothing; returns the order."""
    return {"order": args.order, "status": "delivered", "paid_cents": 4900, "note": "left at the door"}


@catalog.tool(
    risk="write", timeout=5.0, facts=owned, facts_types={"owned": "bool"}, rules=(RULE,), honours_key=True,
    effect=Effect("put", ("{order}",)),
)  # fmt: skip
async def put(args: Put, ctx: ToolContext) -> object:
    """Pays for an order. Use it once; takes order and cents; moves money; returns a receipt."""
    return Committed({"receipt": args.order}, {"paid": args.cents})
