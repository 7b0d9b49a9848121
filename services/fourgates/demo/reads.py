"""The shop's reads: one order, a search, the policy documents, the list of customers."""

from __future__ import annotations

import csv
import io
from typing import Any

from fourgates.catalog import Catalog, OutputLimit, Rule, ToolContext
from fourgates.contract.parts import Principal
from fourgates.demo.arguments import CancelOrder, ChangeAddress, ExportCustomers, GetOrder, ReadPolicy, RefundOrder, SearchOrders
from fourgates.demo.store import Store
from fourgates.tools.workspace import Workspace

OURS = Rule("not_yours", "facts.owned == true", "There is no such order among this clerk's customers.", "/order_id")
ORDER_FACTS = {"owned": "bool", "resource": "string", "status": "string", "version": "int"}


def order_facts(store: Store, args: GetOrder | RefundOrder | CancelOrder | ChangeAddress, principal: Principal) -> dict[str, Any]:
    """What rules and policies may know of an order. Somebody else's and one that does not exist look the same."""
    order = store.order(args.order_id, principal.subject)
    if order is None:
        return {"owned": False}
    return {"owned": True, "resource": args.order_id, "status": order["status"], "version": order["version"]}


class Reads:
    """Tools that change nothing."""

    def __init__(self, store: Store, files: Workspace) -> None:
        self._store, self._files = store, files

    def register(self, catalog: Catalog) -> None:
        """Adds them to the catalog."""
        catalog.tool(
            risk="read", timeout=2, facts=self.facts, facts_types=ORDER_FACTS, rules=(OURS,), lift=("order_id", "status")
        )(self.get_order)  # fmt: skip
        catalog.tool(risk="read", timeout=2)(self.search_orders)
        catalog.tool(risk="read", timeout=2)(self.read_policy)
        catalog.tool(risk="read", timeout=5, output=OutputLimit(bytes=2048), redact=("email", "phone"))(self.export_customers)

    def facts(self, args: GetOrder, principal: Principal) -> dict[str, Any]:
        return order_facts(self._store, args, principal)

    def get_order(self, args: GetOrder, ctx: ToolContext) -> dict[str, Any]:
        """Reads one order with its lines and the customer's note.

        Use it when the clerk names an order. It changes nothing. Returns the order as JSON, amounts in euro cents.
        """
        order = self._store.order(args.order_id, ctx.principal.subject)
        if order is None:  # it was the clerk's when the rules were checked
            return {"order_id": args.order_id, "status": "unknown"}
        shown = ("customer", "status", "placed_on", "address", "paid_cents", "note", "lines")
        return {"order_id": order["id"], **{name: order[name] for name in shown}}

    def search_orders(self, args: SearchOrders, ctx: ToolContext) -> list[dict[str, Any]]:
        """Finds orders by customer and state.

        Use it when the order's number is not known. It changes nothing. Returns a JSON list, the newest order first.
        """
        return self._store.search(ctx.principal.subject, args.customer, args.status, args.limit)

    def read_policy(self, args: ReadPolicy, ctx: ToolContext) -> str:
        """Reads one of the shop's policy documents: policies/returns.md or policies/shipping.md.

        Use it when a question is about rules of the shop. It changes nothing. Returns the document's text.
        """
        return self._files.read_text(args.path, limit=200_000)

    def export_customers(self, args: ExportCustomers, ctx: ToolContext) -> str:
        """Lists the clerk's customers as comma-separated lines.

        Use it when the clerk asks for the whole list. It changes nothing. Returns text, one line a customer.
        """
        rows = self._store.customers(ctx.principal.subject)
        out = io.StringIO()
        # The exporter tells where it read from, as such tools do; nobody but the sanitizer stands between that and the model.
        out.write(f"# source: {self._store.setting('warehouse')}\n")
        writer = csv.DictWriter(out, ["id", "name", "email", "phone", "address"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue()
