"""The shop's policy as rules: what policy.md says about whose, which state, which items and which money."""

from __future__ import annotations

from fourgates.catalog import Rule

NO_ORDER, NO_USER = "Order not found", "User not found"
"""The sentences of the shop's own software: an order that is not the customer's is told as one that is not there."""

OWN_ORDER = Rule("not_yours", "facts.owned == true", NO_ORDER, "/order_id")
OWN_PROFILE = Rule("not_yours", "args.user_id == principal.subject", NO_USER, "/user_id")
PENDING = Rule("not_pending", "facts.status == 'pending'", "Only a pending order can be cancelled or modified.", "/order_id")
DELIVERED = Rule(
    "not_delivered", "facts.status == 'delivered'", "Only a delivered order can be returned or exchanged.", "/order_id"
)
ITEMS_OF_ORDER = Rule(
    "unknown_item",
    "args.item_ids.all(item, args.item_ids.filter(each, each == item).size()"
    " <= facts.item_ids.filter(each, each == item).size())",
    "Some item is not in the order, or not so often.",
    "/item_ids",
)
ONE_FOR_EACH = Rule(
    "other_number",
    "args.item_ids.size() == args.new_item_ids.size()",
    "There must be one new item for each item.",
    "/new_item_ids",
)
SAME_PRODUCT = Rule(
    "other_product", "facts.swaps.all(swap, swap.same_product == true)", "Each new item must be one of the same product.",
    "/new_item_ids",
)  # fmt: skip
OTHER_ITEM = Rule(
    "same_item", "facts.swaps.all(swap, swap.other_item == true)", "Each new item must differ from the item that it is for.",
    "/new_item_ids",
)  # fmt: skip
AVAILABLE = Rule(
    "unavailable", "facts.swaps.all(swap, swap.available == true)", "Some new item is not available.", "/new_item_ids"
)
OWN_METHOD = Rule("payment_not_yours", "facts.method != ''", "Payment method not found", "/payment_method_id")
COVERS_DIFFERENCE = Rule(
    "balance_too_small", "facts.balance == null || facts.price_difference <= facts.balance",
    "The gift card does not cover the price difference.", "/payment_method_id",
)  # fmt: skip
COVERS_TOTAL = Rule(
    "balance_too_small", "facts.balance == null || facts.total <= facts.balance",
    "The gift card does not cover the order's total.", "/payment_method_id",
)  # fmt: skip
PAID_ONCE = Rule("paid_in_parts", "facts.payments == 1", "The order has more than one payment.", "/order_id")
OTHER_METHOD = Rule(
    "same_payment", "args.payment_method_id != facts.original_payment", "The order is paid by this method already.",
    "/payment_method_id",
)  # fmt: skip
REFUND_HOME = Rule(
    "refund_elsewhere", "args.payment_method_id == facts.original_payment || facts.method == 'gift_card'",
    "The refund must go to the original payment method or to a gift card.", "/payment_method_id",
)  # fmt: skip

SWAP = (ITEMS_OF_ORDER, ONE_FOR_EACH, SAME_PRODUCT, OTHER_ITEM, AVAILABLE, OWN_METHOD, COVERS_DIFFERENCE)
