"""The refund: the shop's one tool that moves money, through a provider that may lose its answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx

from fourgates.catalog import Catalog, Committed, Effect, NotExecuted, Preview, Probed, ProbeVerdict, Rule, ToolContext, ToolError
from fourgates.contract.parts import Principal
from fourgates.demo.arguments import RefundOrder
from fourgates.demo.payments import Payments
from fourgates.demo.reads import ORDER_FACTS, OURS, order_facts
from fourgates.demo.store import Store

_RULES = (
    OURS,
    Rule("not_delivered", "facts.status == 'delivered'", "Only a delivered order can be refunded.", "/order_id"),
    Rule(
        "more_than_paid", "args.amount_cents <= facts.remaining_cents",
        "The amount is more than what is left of the payment.", "/amount_cents",
    ),
)  # fmt: skip
_FACTS = {**ORDER_FACTS, "paid_cents": "int", "remaining_cents": "int"}


def euros(cents: int) -> str:
    """An amount as people read it."""
    return f"{cents // 100}.{cents % 100:02d} EUR"


class Refunds:
    """Facts, preview, probe and the refund itself. The provider's books are the truth about what was refunded."""

    def __init__(self, store: Store, payments: Payments) -> None:
        self._store, self._payments = store, payments

    def register(self, catalog: Catalog) -> None:
        """Adds `refund_order`. One refund an order within 24 h; another one goes to a person."""
        catalog.tool(
            risk="write", timeout=4, facts=self.facts, facts_types=_FACTS, rules=_RULES,
            effect=Effect("refund", ("{order_id}",), timedelta(hours=24)), preview=self.preview, probe=self.probe,
            settle=timedelta(seconds=3), honours_key=True, lift=("refund_id", "remaining_cents"),
        )(self.refund_order)  # fmt: skip

    async def facts(self, args: RefundOrder, principal: Principal) -> dict[str, Any]:
        facts = await asyncio.to_thread(order_facts, self._store, args, principal)
        if not facts["owned"]:
            return facts
        order = await self._order(args, principal)
        remaining = await self._payments.remaining(order["charge"])
        return {**facts, "paid_cents": order["paid_cents"], "remaining_cents": remaining}

    async def preview(self, args: RefundOrder, principal: Principal) -> Preview:
        order = await self._order(args, principal)
        remaining = await self._payments.remaining(order["charge"])
        refunded = order["paid_cents"] - remaining
        return Preview(
            target=f"order {args.order_id} of {order['customer']}, payment {order['charge']}",
            before={"paid_cents": order["paid_cents"], "refunded_cents": refunded},
            after={"paid_cents": order["paid_cents"], "refunded_cents": refunded + args.amount_cents},
            recoverable=False,
            amount=euros(args.amount_cents),
        )

    async def refund_order(self, args: RefundOrder, ctx: ToolContext) -> Committed | NotExecuted:
        """Refunds part or all of a delivered order to the payment that was charged.

        Use it when the clerk asks for a refund. It moves money and cannot be undone. Returns the refund's id and what is left.
        """
        order = await self._order(args, ctx.principal)
        answer = await self._payments.refund(ctx.key, order["charge"], args.amount_cents, args.reason)
        if answer.status_code in (httpx.codes.OK, httpx.codes.CREATED):
            return Committed(_told(args, answer.json()), _changed(answer.json()))
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # by its contract: nothing was committed
            return NotExecuted("provider_busy", "The payment provider is busy; nothing was refunded.", retryable=True)
        if answer.json().get("error") == "exceeds_charge":
            return NotExecuted("more_than_paid", "The provider says that the amount is more than what is left of the payment.")
        raise RuntimeError(f"the provider answered {answer.status_code}")  # says nothing about what happened: doubt

    async def probe(self, args: RefundOrder, ctx: ToolContext) -> Probed:
        """Asks the provider's books. A key that they do not know may still be on its way."""
        known = await self._payments.refund_of(ctx.key)
        if known is None:
            return Probed(ProbeVerdict.UNKNOWN)
        return Probed(ProbeVerdict.COMMITTED, _told(args, known), _changed(known))

    async def _order(self, args: RefundOrder, principal: Principal) -> dict[str, Any]:
        order = await asyncio.to_thread(self._store.order, args.order_id, principal.subject)
        if order is None:
            raise ToolError("not_yours", OURS.sentence, not_executed=True)
        return order


def _told(args: RefundOrder, refund: dict[str, Any]) -> dict[str, Any]:
    """The same words whether the provider's first answer came, a repeated one, or the probe found it."""
    shown = ("refund_id", "amount_cents", "remaining_cents")
    return {"order_id": args.order_id, **{name: refund[name] for name in shown}}


def _changed(refund: dict[str, Any]) -> dict[str, Any]:
    left = refund["remaining_cents"]
    return {"charge": refund["charge"], "remaining_cents": {"before": left + refund["amount_cents"], "after": left}}
