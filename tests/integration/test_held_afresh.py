"""What people approved is not what would happen any more: refused, or asked once more, as the tool's contract says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Committed, Effect, OnChange, Preview, ToolContext
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Principal
from fourgates.testing import Pipeline
from support.eventually import eventually

POLICIES = '@id("all") permit (principal, action, resource);'


class Top(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    account: str


class Account:
    """Somebody else moves money on it as well."""

    def __init__(self, on_change: OnChange) -> None:
        self.balance, self.entered = 10, 0
        self.catalog = Catalog("bank", policies=POLICIES)

        def preview(args: Top, who: Principal) -> Preview:
            return Preview(args.account, {"balance": self.balance}, {"balance": self.balance + 5}, recoverable=False)

        async def top_up(args: Any, ctx: ToolContext) -> Committed:
            """Tops an account up. Use it when asked; takes the account; adds five; returns the balance."""
            self.entered += 1
            self.balance += 5
            return Committed({"balance": self.balance}, {"balance": self.balance})

        top_up.__annotations__["args"] = Top
        self.catalog.tool(
            risk="write",
            timeout=2,
            preview=preview,
            on_change=on_change,
            honours_key=True,
            effect=Effect("top_up", ("{account}",)),
        )(top_up)


async def hold_of(gates: Pipeline, call_id: str, but: str = "") -> dict[str, Any]:
    async def found() -> Any:
        holds = await gates.holds("ben", ["approvers"])
        return next((hold for hold in holds if hold["call_id"] == call_id and hold["hold_id"] != but), None)

    return dict(await eventually(found))


async def test_a_changed_effect_is_refused_and_nothing_runs() -> None:
    """A3"""
    account = Account(OnChange.REFUSE)
    async with Pipeline(account.catalog) as gates:
        run = gates.run("anna", agent="bot")
        pending = await run.call("top_up", '{"account": "A"}', tool_call_id="1", wait=0.3)
        hold = await hold_of(gates, pending.call_id)
        account.balance = 90
        await gates.decide(hold["hold_id"], "approve", "ben", ["approvers"])
        assert (await run.wait(pending.call_id)).code is Code.APPROVAL_EFFECT_CHANGED
    assert (account.entered, account.balance) == (0, 90)


@pytest.mark.parametrize("then", ["approve", "deny"])
async def test_a_changed_effect_is_asked_about_once_more_and_the_first_yes_counts_for_nothing(then: str) -> None:
    """A3: a clearance is bound to its own hold; the second question shows what would happen now."""
    account = Account(OnChange.HOLD)
    async with Pipeline(account.catalog) as gates:
        run = gates.run("anna", agent="bot")
        pending = await run.call("top_up", '{"account": "A"}', tool_call_id="1", wait=0.3)
        first = await hold_of(gates, pending.call_id)
        account.balance = 90
        await gates.decide(first["hold_id"], "approve", "ben", ["approvers"])
        second = await hold_of(gates, pending.call_id, but=first["hold_id"])
        assert account.entered == 0
        async with gates.approver("ben", ["approvers"]) as http:
            shown = (await http.get(f"/api/holds/{second['hold_id']}")).json()["shown"]
        assert '"balance":95' in shown and f'"instead_of":"{first["hold_id"]}"' in shown
        late = await gates.decide(first["hold_id"], "approve", "cleo", ["approvers"])
        assert late.status_code >= 400
        await gates.decide(second["hold_id"], then, "ben", ["approvers"])
        ended = await run.wait(pending.call_id)
    assert (ended.code, account.entered) == ((Code.OK, 1) if then == "approve" else (Code.APPROVAL_DENIED, 0))


def test_asking_once_more_needs_a_preview() -> None:
    """C1, A3"""
    with pytest.raises(ConfigurationError, match="on_change=hold without a preview"):

        @Catalog("x").tool(risk="write", timeout=1, on_change=OnChange.HOLD, honours_key=True, effect=Effect("x", ("{account}",)))
        def no_preview(args: Top, ctx: ToolContext) -> Committed:
            """Does it. Use it when asked; takes the account; changes it; returns nothing."""
            return Committed()
