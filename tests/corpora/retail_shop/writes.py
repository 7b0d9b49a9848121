"""The shop's writes: each is one transaction with the call's key, shown before it is done, and found again by its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from corpora.retail_shop import changes, facts, rules
from corpora.retail_shop.arguments import (
    Address,
    Arguments,
    CancelOrder,
    ChangeOrderAddress,
    ChangePayment,
    ChangeUserAddress,
    ReturnItems,
    Swap,
    TransferToHumanAgents,
)
from corpora.retail_shop.entries import noted
from corpora.retail_shop.store import Changed, Document, Draft, Shops
from fourgates.catalog import (
    Catalog,
    Committed,
    Effect,
    NotExecuted,
    OnDuplicate,
    Preview,
    Probed,
    ProbeVerdict,
    ToolContext,
    ToolError,
)
from fourgates.contract.parts import Principal

Change = Callable[[Draft, Any], Document]
_NAMED = frozenset({"user", "result", "host"})
"""Where an id or an address may come from: the customer, or what the shop has answered; never the model's own invention."""
_ADDRESS = tuple(f"{{{name}}}" for name in Address.model_fields)
_LATEST = timedelta(days=30)
_FINAL = {
    "cancel_pending_order", "modify_pending_order_items", "exchange_delivered_order_items", "return_delivered_order_items",
}  # fmt: skip
"""What no other call takes back."""


class Writes:
    """Tools that change the shop, and the one that hands the customer over to a person."""

    def __init__(self, shops: Shops) -> None:
        self._shops = shops

    def register(self, catalog: Catalog) -> None:
        """Adds them to the catalog."""
        given = facts.Facts(self._shops)
        self._add(catalog, self.cancel_pending_order, changes.cancel, {
            "risk": "destructive", "facts": given.order, "facts_types": facts.ORDER,
            "rules": (rules.OWN_ORDER, rules.PENDING), "effect": Effect("cancel", ("{order_id}",)), "origins": _from("order_id"),
        })  # fmt: skip
        self._add(catalog, self.modify_pending_order_address, changes.change_order_address, {
            "facts": given.order, "facts_types": facts.ORDER, "rules": (rules.OWN_ORDER, rules.PENDING),
            "effect": Effect("order-address", ("{order_id}", *_ADDRESS)), "origins": _from("order_id", "address1", "zip"),
        })  # fmt: skip
        self._add(catalog, self.modify_pending_order_payment, changes.change_payment, {
            "facts": given.change_payment, "facts_types": facts.CHANGE_PAYMENT,
            "rules": (rules.OWN_ORDER, rules.PENDING, rules.OWN_METHOD, rules.PAID_ONCE, rules.OTHER_METHOD, rules.COVERS_TOTAL),
            "effect": Effect("order-payment", ("{order_id}", "{payment_method_id}")),
            "origins": _from("order_id", "payment_method_id"),
        })  # fmt: skip
        self._add(catalog, self.modify_pending_order_items, changes.modify_items, _once("modify-items") | {
            "facts": given.swap, "facts_types": facts.SWAP, "rules": (rules.OWN_ORDER, rules.PENDING, *rules.SWAP),
            "origins": _from("order_id", "item_ids", "new_item_ids", "payment_method_id"),
        })  # fmt: skip
        self._add(catalog, self.exchange_delivered_order_items, changes.exchange_items, _once("exchange-items") | {
            "facts": given.swap, "facts_types": facts.SWAP, "rules": (rules.OWN_ORDER, rules.DELIVERED, *rules.SWAP),
            "origins": _from("order_id", "item_ids", "new_item_ids", "payment_method_id"),
        })  # fmt: skip
        self._add(catalog, self.return_delivered_order_items, changes.return_items, _once("return-items") | {
            "facts": given.return_items, "facts_types": facts.RETURN,
            "rules": (rules.OWN_ORDER, rules.DELIVERED, rules.ITEMS_OF_ORDER, rules.OWN_METHOD, rules.REFUND_HOME),
            "origins": _from("order_id", "item_ids", "payment_method_id"),
        })  # fmt: skip
        self._add(catalog, self.modify_user_address, changes.change_user_address, {
            "facts": given.user, "facts_types": facts.USER, "rules": (rules.OWN_PROFILE,),
            "effect": Effect("user-address", ("{user_id}", *_ADDRESS)), "origins": _from("user_id", "address1", "zip"),
        })  # fmt: skip
        catalog.tool(
            risk="write", timeout=5, honours_key=True, probe=self.probe, settle=timedelta(seconds=5), preview=self._hand_over,
            effect=Effect("hand-over", on_duplicate=OnDuplicate.REFUSE),
        )(noted(self._shops, self.transfer_to_human_agents))  # fmt: skip

    def cancel_pending_order(self, args: CancelOrder, ctx: ToolContext) -> Committed | NotExecuted:
        """Cancels a pending order.

        Use it when the customer no longer needs the order or ordered by mistake, and has said yes to it. It cancels the whole
        order, refunds every payment and cannot be undone. Returns the order.
        """
        return self._apply(ctx, changes.cancel, args, ("orders", args.order_id))

    def modify_pending_order_address(self, args: ChangeOrderAddress, ctx: ToolContext) -> Committed | NotExecuted:
        """Changes where a pending order goes.

        Use it when the customer has said yes to the new address. It changes the order and can be undone by another call. Returns
        the order.
        """
        return self._apply(ctx, changes.change_order_address, args, ("orders", args.order_id))

    def modify_pending_order_payment(self, args: ChangePayment, ctx: ToolContext) -> Committed | NotExecuted:
        """Changes what a pending order is paid with.

        Use it when the customer has said yes to another of their payment methods. It charges the new one, refunds the old one and
        cannot be repeated. Returns the order.
        """
        return self._apply(ctx, changes.change_payment, args, ("orders", args.order_id))

    def modify_pending_order_items(self, args: Swap, ctx: ToolContext) -> Committed | NotExecuted:
        """Changes items of a pending order into others of the same products.

        Use it once for an order, when the customer has named all items and said yes. It changes the order, charges or refunds the
        difference and cannot be undone; after it the order can be neither modified nor cancelled. Returns the order.
        """
        return self._apply(ctx, changes.modify_items, args, ("orders", args.order_id))

    def exchange_delivered_order_items(self, args: Swap, ctx: ToolContext) -> Committed | NotExecuted:
        """Exchanges items of a delivered order for others of the same products.

        Use it once for an order, when the customer has named all items and said yes. It changes the order's state and cannot be
        undone. Returns the order.
        """
        return self._apply(ctx, changes.exchange_items, args, ("orders", args.order_id))

    def return_delivered_order_items(self, args: ReturnItems, ctx: ToolContext) -> Committed | NotExecuted:
        """Takes items of a delivered order back.

        Use it when the customer has named all items and said yes. It changes the order's state, refunds to the original payment
        method or a gift card, and cannot be undone. Returns the order.
        """
        return self._apply(ctx, changes.return_items, args, ("orders", args.order_id))

    def modify_user_address(self, args: ChangeUserAddress, ctx: ToolContext) -> Committed | NotExecuted:
        """Changes the customer's default address.

        Use it when the customer has said yes to the new address. It changes the profile, no order, and can be undone by another
        call. Returns the profile.
        """
        return self._apply(ctx, changes.change_user_address, args, ("users", args.user_id))

    def transfer_to_human_agents(self, args: TransferToHumanAgents, ctx: ToolContext) -> Committed | NotExecuted:
        """Hands the customer over to a person.

        Use it only when no other tool can do what the customer wants. It sends the summary and ends the agent's work. Returns
        that the customer was handed over.
        """
        store = self._shops.of(ctx.principal.tenant)
        return Committed(store.apply_once(ctx.key, lambda draft: "Transfer successful"), {"handed_over": True})

    def probe(self, args: Arguments, ctx: ToolContext) -> Probed:
        """The key stands in the same transaction as the change. Without it, the change may still be on its way."""
        known = self._shops.of(ctx.principal.tenant).applied(ctx.key)
        return Probed(ProbeVerdict.UNKNOWN) if known is None else Probed(ProbeVerdict.COMMITTED, known)

    def _add(self, catalog: Catalog, run: Callable[..., Any], change: Change, contract: Mapping[str, Any]) -> None:
        recoverable = run.__name__ not in _FINAL

        def preview(args: Any, principal: Principal) -> Preview:
            return self._shown(change, args, principal, recoverable=recoverable)

        every: dict[str, Any] = {
            "risk": "write", "timeout": 5, "honours_key": True, "probe": self.probe, "settle": timedelta(seconds=5),
            "preview": preview,
        }  # fmt: skip
        catalog.tool(**{**every, **contract})(noted(self._shops, run))

    def _apply(self, ctx: ToolContext, change: Change, args: Arguments, guarded: tuple[str, str]) -> Committed | NotExecuted:
        store = self._shops.of(ctx.principal.tenant)
        try:
            result = store.apply_once(ctx.key, lambda draft: change(draft, args), guarded, ctx.precondition.get("version"))
        except Changed:
            return NotExecuted("changed_meanwhile", "It was changed by somebody else; read it again.")
        except changes.Impossible as fault:
            return NotExecuted(fault.reason, fault.sentence)
        return Committed(result, {"changed": guarded[1]})

    def _shown(self, change: Change, args: Any, principal: Principal, *, recoverable: bool) -> Preview:
        """What the change would do, found out by doing it to copies."""
        with self._shops.of(principal.tenant).looking() as draft:
            try:
                change(draft, args)
            except changes.Impossible as fault:
                raise ToolError(fault.reason, fault.sentence, not_executed=True) from fault
            before: Document = {}
            after: Document = {}
            for _, name, was, now in draft.changes():
                fields = [each for each in now if now[each] != was.get(each)]
                before[name] = {each: was.get(each) for each in fields}
                after[name] = {each: now[each] for each in fields}
        return Preview(target=getattr(args, "order_id", principal.subject), before=before, after=after, recoverable=recoverable)

    def _hand_over(self, args: TransferToHumanAgents, principal: Principal) -> Preview:
        return Preview(principal.subject, None, {"summary": args.summary}, recoverable=False)


def _from(*arguments: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(arguments, _NAMED)


def _once(effect: str) -> dict[str, Any]:
    """An order takes such a change once: policy.md has it that everything must be collected into one call."""
    return {"effect": Effect(effect, ("{order_id}",), window=_LATEST, on_duplicate=OnDuplicate.REFUSE)}
