"""What rules and policies may know of an order or a profile. Somebody else's and one that does not exist look the same."""

from __future__ import annotations

from typing import Any

from corpora.retail_shop.arguments import (
    CancelOrder,
    ChangeOrderAddress,
    ChangePayment,
    ChangeUserAddress,
    GetOrder,
    ReturnItems,
    Swap,
)
from corpora.retail_shop.changes import GIFT_CARD, original_payment, price_difference
from corpora.retail_shop.store import Document, Shops, Store
from fourgates.contract.parts import Principal

OfOrder = GetOrder | CancelOrder | ChangeOrderAddress | ChangePayment | Swap | ReturnItems

ORDER = {"owned": "bool", "owner": "string", "resource": "string", "status": "string", "version": "int"}
PAYMENT = {**ORDER, "original_payment": "string", "method": "string", "balance": "double?"}
CHANGE_PAYMENT = {**PAYMENT, "total": "double", "payments": "int"}
RETURN = {**PAYMENT, "item_ids": "list<string>"}
SWAP = {**RETURN, "swaps": "list<dyn>", "price_difference": "double"}
USER = {"version": "int"}


class Facts:
    """The providers, each over the shop of the tenant that asks."""

    def __init__(self, shops: Shops) -> None:
        self._shops = shops

    def order(self, args: OfOrder, principal: Principal) -> dict[str, Any]:
        """An order in short."""
        found = _own(self._shops.of(principal.tenant), args, principal)
        return _short(found)

    def change_payment(self, args: ChangePayment, principal: Principal) -> dict[str, Any]:
        """The order, the new method, and what it has to cover."""
        store = self._shops.of(principal.tenant)
        if (found := _own(store, args, principal)) is None:
            return _short(None)
        history = found[0]["payment_history"]
        total = history[0]["amount"] if history else 0.0
        return _short(found) | _payment(store, found[0], args.payment_method_id) | {"total": total, "payments": len(history)}

    def return_items(self, args: ReturnItems, principal: Principal) -> dict[str, Any]:
        """The order with its items, and where the refund is to go."""
        store = self._shops.of(principal.tenant)
        if (found := _own(store, args, principal)) is None:
            return _short(None)
        return _short(found) | _payment(store, found[0], args.payment_method_id) | {"item_ids": _items(found[0])}

    def swap(self, args: Swap, principal: Principal) -> dict[str, Any]:
        """The order with its items, each pair of an item of it and what comes instead, and what the others cost more."""
        store = self._shops.of(principal.tenant)
        if (found := _own(store, args, principal)) is None:
            return _short(None)
        order = found[0]
        products = {line["item_id"]: store.product(line["product_id"]) for line in order["items"]}
        new = [
            ((products.get(old) or {"variants": {}})["variants"]).get(item)
            for old, item in zip(args.item_ids, args.new_item_ids, strict=False)
        ]
        swaps = [
            {"same_product": variant is not None, "other_item": old != item, "available": bool(variant and variant["available"])}
            for old, item, variant in zip(args.item_ids, args.new_item_ids, new, strict=False)
        ]
        return (
            _short(found)
            | _payment(store, order, args.payment_method_id)
            | {"item_ids": _items(order), "swaps": swaps, "price_difference": price_difference(order, args.item_ids, new)}
        )

    def user(self, args: ChangeUserAddress, principal: Principal) -> dict[str, Any]:
        """The version of the asking customer's own profile; of nobody else's is anything said."""
        found = self._shops.of(principal.tenant).user(principal.subject)
        return {} if found is None else {"version": found[1]}


def _own(store: Store, args: OfOrder, principal: Principal) -> tuple[Document, int] | None:
    found = store.order(args.order_id)
    return found if found is not None and found[0]["user_id"] == principal.subject else None


def _short(found: tuple[Document, int] | None) -> dict[str, Any]:
    if found is None:
        return {"owned": False}
    order, version = found
    return {
        "owned": True, "owner": order["user_id"], "resource": order["order_id"], "status": order["status"], "version": version,
    }  # fmt: skip


def _items(order: Document) -> list[str]:
    return [line["item_id"] for line in order["items"]]


def _payment(store: Store, order: Document, method_id: str) -> dict[str, Any]:
    """`method` is empty where the customer has no such one."""
    found = store.user(order["user_id"])
    method = (found[0]["payment_methods"] if found else {}).get(method_id)
    if method is None:
        return {"original_payment": original_payment(order), "method": "", "balance": None}
    balance = method["balance"] if method["source"] == GIFT_CARD else None
    return {"original_payment": original_payment(order), "method": method["source"], "balance": balance}
