"""What each write does to the shop's documents. Each checks for itself what it cannot do without, whatever gate came before."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from corpora.retail_shop.arguments import (
    Address,
    CancelOrder,
    ChangeOrderAddress,
    ChangePayment,
    ChangeUserAddress,
    ReturnItems,
    Swap,
)
from corpora.retail_shop.store import Document, Draft

PENDING, DELIVERED, CANCELLED = "pending", "delivered", "cancelled"
MODIFIED, RETURNING, EXCHANGING = "pending (item modified)", "return requested", "exchange requested"
GIFT_CARD = "gift_card"


class Impossible(Exception):
    """It cannot be done and nothing was: a short word, and a sentence that a model may read."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason, self.sentence = reason, sentence


def cancel(shop: Draft, args: CancelOrder) -> Document:
    """Every payment goes back to where it came from; a gift card has it at once."""
    order = _order(shop, args.order_id, PENDING)
    user = shop.user(order["user_id"])
    paid = list(order["payment_history"])
    for payment in paid:
        order["payment_history"].append({**payment, "transaction_type": "refund"})
        _charge(_method(user, payment["payment_method_id"]), -payment["amount"])
    order["status"], order["cancel_reason"] = CANCELLED, args.reason
    return order


def change_order_address(shop: Draft, args: ChangeOrderAddress) -> Document:
    order = _order(shop, args.order_id, PENDING)
    order["address"] = _address(args)
    return order


def change_user_address(shop: Draft, args: ChangeUserAddress) -> Document:
    user = shop.user(args.user_id)
    user["address"] = _address(args)
    return user


def change_payment(shop: Draft, args: ChangePayment) -> Document:
    """The whole amount is paid by another method, and the first one gets it back."""
    order = _order(shop, args.order_id, PENDING)
    user = shop.user(order["user_id"])
    history = order["payment_history"]
    if len(history) != 1 or history[0]["transaction_type"] != "payment":
        raise Impossible("paid_in_parts", "The order has more than one payment")
    amount, before = history[0]["amount"], history[0]["payment_method_id"]
    if before == args.payment_method_id:
        raise Impossible("same_payment", "The order is paid by this method already")
    method = _method(user, args.payment_method_id)
    _must_cover(method, amount)
    history.append({"transaction_type": "payment", "amount": amount, "payment_method_id": args.payment_method_id})
    history.append({"transaction_type": "refund", "amount": amount, "payment_method_id": before})
    _charge(method, amount)
    _charge(_method(user, before), -amount)
    return order


def modify_items(shop: Draft, args: Swap) -> Document:
    """Other options of the same products, before the order is sent; the difference is paid or given back at once."""
    order = _order(shop, args.order_id, PENDING)
    variants = _variants(shop, order, args)
    method = _method(shop.user(order["user_id"]), args.payment_method_id)
    difference = _difference(order, args.item_ids, variants)
    _must_cover(method, difference)
    kind = "payment" if difference > 0 else "refund"
    order["payment_history"].append(
        {"transaction_type": kind, "amount": abs(difference), "payment_method_id": args.payment_method_id}
    )
    _charge(method, difference)
    # The shop's own software gives every changed line the price and the options of the last new item. What it does is recorded
    # with the tasks, so this does it too: a gate in front of a tool does not mend the tool.
    last = variants[-1]
    for item_id, new_item_id in zip(args.item_ids, args.new_item_ids, strict=True):
        line = _line(order, item_id)
        line["item_id"], line["price"], line["options"] = new_item_id, last["price"], deepcopy(last["options"])
    order["status"] = MODIFIED
    return order


def exchange_items(shop: Draft, args: Swap) -> Document:
    """The customer sends items back and gets others of the same products; the difference is settled when they arrive."""
    order = _order(shop, args.order_id, DELIVERED)
    variants = _variants(shop, order, args)
    difference = round(_difference(order, args.item_ids, variants), 2)
    _must_cover(_method(shop.user(order["user_id"]), args.payment_method_id), difference)
    order["status"] = EXCHANGING
    order["exchange_items"], order["exchange_new_items"] = sorted(args.item_ids), sorted(args.new_item_ids)
    order["exchange_payment_method_id"], order["exchange_price_difference"] = args.payment_method_id, difference
    return order


def return_items(shop: Draft, args: ReturnItems) -> Document:
    """The customer sends items back; the refund goes to what was paid with, or to a gift card."""
    order = _order(shop, args.order_id, DELIVERED)
    _must_hold(order, args.item_ids)
    method = _method(shop.user(order["user_id"]), args.payment_method_id)
    if method["source"] != GIFT_CARD and args.payment_method_id != original_payment(order):
        raise Impossible("refund_elsewhere", "The refund must go to the original payment method or a gift card")
    order["status"] = RETURNING
    order["return_items"], order["return_payment_method_id"] = sorted(args.item_ids), args.payment_method_id
    return order


def original_payment(order: Document) -> str:
    """What the order was first paid with."""
    return str(order["payment_history"][0]["payment_method_id"]) if order["payment_history"] else ""


def price_difference(order: Document, item_ids: Sequence[str], variants: Sequence[Document | None]) -> float:
    """What the others cost more, in money; pairs of which one part does not exist do not count."""
    known = {line["item_id"]: line["price"] for line in order["items"]}
    pairs = zip(item_ids, variants, strict=False)
    return round(float(sum(new["price"] - known[old] for old, new in pairs if new is not None and old in known)), 2)


def _order(shop: Draft, order_id: str, status: str) -> Document:
    order = shop.order(order_id)
    if order["status"] != status:
        raise Impossible(f"not_{status}", f"The order is not {status}")
    return order


def _line(order: Document, item_id: str) -> Document:
    line: Document = next(line for line in order["items"] if line["item_id"] == item_id)
    return line


def _must_hold(order: Document, item_ids: Sequence[str]) -> None:
    there = [line["item_id"] for line in order["items"]]
    if any(item_ids.count(item) > there.count(item) for item in item_ids):
        raise Impossible("unknown_item", "Some item is not in the order")


def _variants(shop: Draft, order: Document, args: Swap) -> list[Document]:
    _must_hold(order, args.item_ids)
    if len(args.item_ids) != len(args.new_item_ids):
        raise Impossible("other_number", "There must be one new item for each item")
    found = []
    for item_id, new_item_id in zip(args.item_ids, args.new_item_ids, strict=True):
        variant = shop.product(_line(order, item_id)["product_id"])["variants"].get(new_item_id)
        if variant is None or not variant["available"]:
            raise Impossible("unavailable", "Some new item is not available")
        found.append(variant)
    return found


def _difference(order: Document, item_ids: Sequence[str], variants: Sequence[Document]) -> float:
    """Not rounded: this is what the shop's own software writes down."""
    difference = 0.0
    for item_id, variant in zip(item_ids, variants, strict=True):
        difference += variant["price"] - _line(order, item_id)["price"]
    return difference


def _method(user: Document, method_id: str) -> Document:
    method: Document | None = user["payment_methods"].get(method_id)
    if method is None:
        raise Impossible("payment_not_yours", "Payment method not found")
    return method


def _must_cover(method: Document, amount: float) -> None:
    if method["source"] == GIFT_CARD and method["balance"] < round(amount, 2):
        raise Impossible("balance_too_small", "The gift card does not cover the amount")


def _charge(method: Document, amount: float) -> None:
    """A gift card's balance changes at once; with other methods that is the bank's affair."""
    if method["source"] == GIFT_CARD:
        method["balance"] = round(method["balance"] - amount, 2)


def _address(args: Address) -> dict[str, Any]:
    return {name: getattr(args, name) for name in Address.model_fields}
