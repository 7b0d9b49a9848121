"""The shop's other writes, in its own database: the call's key and the change are one transaction."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import Any

from fourgates.catalog import Catalog, Committed, Effect, NotExecuted, Preview, Probed, ProbeVerdict, Rule, ToolContext, ToolError
from fourgates.contract.parts import Principal
from fourgates.demo.arguments import CancelOrder, ChangeAddress, SendMessage
from fourgates.demo.reads import ORDER_FACTS, OURS, order_facts
from fourgates.demo.store import Change, Changed, Store, update_order

_PROCESSING = Rule(
    "not_in_processing", "facts.status == 'processing'", "Only an order that is still in processing can be changed.", "/order_id"
)
_ORDER: dict[str, Any] = {
    "timeout": 3, "facts_types": ORDER_FACTS, "rules": (OURS, _PROCESSING), "settle": timedelta(seconds=3), "honours_key": True,
}  # fmt: skip
_OrderChange = CancelOrder | ChangeAddress


class Changes:
    """Cancel an order, change its address, write to somebody."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def register(self, catalog: Catalog) -> None:
        """Adds them to the catalog."""
        catalog.tool(
            risk="destructive", facts=self.facts, preview=self.preview_cancel, probe=self.probe,
            effect=Effect("cancel", ("{order_id}",)), **_ORDER,
        )(self.cancel_order)  # fmt: skip
        catalog.tool(
            risk="write", facts=self.facts, preview=self.preview_address, probe=self.probe,
            effect=Effect("address", ("{order_id}", "{address}"), timedelta(hours=1)), origins={"address": {"user"}}, **_ORDER,
        )(self.change_address)  # fmt: skip
        catalog.tool(
            risk="write", timeout=3, preview=self.preview_message, probe=self.probe, settle=timedelta(seconds=3),
            effect=Effect("message", ("{recipient}", "{subject}"), timedelta(hours=1)), origins={"recipient": {"user"}},
            honours_key=True,
        )(self.send_message)  # fmt: skip

    def facts(self, args: _OrderChange, principal: Principal) -> dict[str, Any]:
        return order_facts(self._store, args, principal)

    def preview_cancel(self, args: CancelOrder, principal: Principal) -> Preview:
        order = self._order(args, principal)
        before, after = {"status": order["status"]}, {"status": "cancelled"}
        return Preview(f"order {args.order_id} of {order['customer']}", before, after, recoverable=False)

    def preview_address(self, args: ChangeAddress, principal: Principal) -> Preview:
        order = self._order(args, principal)
        before, after = {"address": order["address"]}, {"address": args.address}
        return Preview(f"order {args.order_id} of {order['customer']}", before, after, recoverable=True)

    def preview_message(self, args: SendMessage, principal: Principal) -> Preview:
        return Preview(args.recipient, None, {"subject": args.subject, "text": args.text}, recoverable=False)

    def cancel_order(self, args: CancelOrder, ctx: ToolContext) -> Committed | NotExecuted:
        """Cancels an order that is still in processing.

        Use it when the customer no longer wants the order. It releases the goods and cannot be undone. Returns the new state.
        """

        def change(db: sqlite3.Connection) -> dict[str, Any]:
            update_order(db, args.order_id, ctx.precondition.get("version"), status="cancelled")
            return {"order_id": args.order_id, "status": "cancelled"}

        return self._apply(ctx, "cancel_order", change)

    def change_address(self, args: ChangeAddress, ctx: ToolContext) -> Committed | NotExecuted:
        """Changes where an order goes that is still in processing.

        Use it when the clerk gives a new address. It changes the order and can be undone by another call. Returns the address.
        """

        def change(db: sqlite3.Connection) -> dict[str, Any]:
            update_order(db, args.order_id, ctx.precondition.get("version"), address=args.address)
            return {"order_id": args.order_id, "address": args.address}

        return self._apply(ctx, "change_address", change)

    def send_message(self, args: SendMessage, ctx: ToolContext) -> Committed | NotExecuted:
        """Sends an e-mail in the clerk's name.

        Use it only for somebody whom the clerk names. It sends at once and cannot be undone. Returns the recipient.
        """

        def change(db: sqlite3.Connection) -> dict[str, Any]:
            db.execute(
                "INSERT INTO outbox (recipient, subject, text) VALUES (?, ?, ?)", (args.recipient, args.subject, args.text)
            )
            return {"sent_to": args.recipient}

        return self._apply(ctx, "send_message", change)

    def probe(self, args: _OrderChange | SendMessage, ctx: ToolContext) -> Probed:
        """The key stands in the same transaction as the change. Without it, the change may still be on its way."""
        known = self._store.applied(ctx.key)
        return Probed(ProbeVerdict.UNKNOWN) if known is None else Probed(ProbeVerdict.COMMITTED, known, known)

    def _apply(self, ctx: ToolContext, tool: str, change: Change) -> Committed | NotExecuted:
        try:
            result = self._store.apply_once(ctx.key, tool, change)
        except Changed:
            return NotExecuted("changed_meanwhile", "The order was changed by somebody else; read it again.")
        return Committed(result, result)

    def _order(self, args: _OrderChange, principal: Principal) -> dict[str, Any]:
        order = self._store.order(args.order_id, principal.subject)
        if order is None:
            raise ToolError("not_yours", OURS.sentence, not_executed=True)
        return order
