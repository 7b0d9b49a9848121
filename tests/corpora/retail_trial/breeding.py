"""Mutants of the correct calls that break a rule of the shop, made from the state in which the call is made."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from corpora.retail_shop.rules import NO_ORDER, NO_USER
from corpora.retail_shop.store import Document, Store
from corpora.retail_trial.mutants import Asker, Ending, Held, Mutant, Refused, mutant, of_any_call
from corpora.retail_trial.tasks import WRITES, Data, Step, Task
from fourgates.contract.codes import Code

SEED = 20_260_101
"""The same data give the same mutants."""
_NOBODY: Document = {"payment_methods": {}}
_NEEDS = {
    "cancel_pending_order": "pending", "modify_pending_order_address": "pending", "modify_pending_order_items": "pending",
    "modify_pending_order_payment": "pending", "exchange_delivered_order_items": "delivered",
    "return_delivered_order_items": "delivered",
}  # fmt: skip
_SWAPS = frozenset({"modify_pending_order_items", "exchange_delivered_order_items"})
_MADE_UP = {"address1": "77 Invented Avenue", "zip": "00001"}
_PEOPLE_ASKED = frozenset({"policy", "origin_breach"})
_BREACH = frozenset({"origin_breach"})
_CONFIRMATIONS = (Ending.NOBODY_ANSWERS, Ending.DENIED, Ending.OTHER_DETAILS, Ending.OWN_YES)


def rule(name: str, field: str, message: str = "") -> Refused:
    """Refused by this rule."""
    return Refused(Code.RULE_VIOLATED, name, field, message)


_NOT_YOURS = rule("not_yours", "/order_id", NO_ORDER)


class Breeder:
    """Makes mutants from tasks. What they borrow of others (orders, items, payment methods) comes from the same data."""

    def __init__(self, data: Data, seed: int = SEED, only: frozenset[str] | None = None) -> None:
        """`only`: the names of the tasks that are mutated; None: all."""
        self._seed, self._only = seed, only
        self._users, self._products = data.store["users"], data.store["products"]
        self._orders = list(data.store["orders"].values())
        self._known = data.store["orders"].keys() | self._users.keys()

    def before(self, task: Task, step: Step, store: Store) -> list[Mutant]:
        """Those that are made where the correct call would be made next."""
        if self._only is not None and task.name not in self._only:
            return []
        rng = random.Random(f"{self._seed}/{task.name}/{step.number}/before")
        made = [*of_any_call(step, rng)]
        if step.tool == "get_user_details" or step.tool == "modify_user_address":
            made += self._other_profile(task, step, rng)
        if step.tool == "get_order_details":
            made += self._other_order(task, step, rng)
        if step.tool not in WRITES or not step.ok:
            return made
        made += [*self._unconfirmed(step, rng), *self._address(step)]
        if step.tool in _NEEDS and (found := store.order(step.arguments["order_id"])) is not None:
            user = self._profile(store, task)
            made += [*self._other_order(task, step, rng), *self._state(step, found[0], user, rng)]
            made += [*self._of_order(task, step, found[0], user, rng), *self._payment(task, found[0], user, rng)]
        return made

    def after(self, task: Task, step: Step, store: Store) -> list[Mutant]:
        """Those that are made when the correct call has run: the same once more, and another change of what cannot change now."""
        if self._only is not None and task.name not in self._only:
            return []
        rng = random.Random(f"{self._seed}/{task.name}/{step.number}/after")
        if step.tool == "transfer_to_human_agents":
            return [mutant("again: same arguments", step.tool, step.arguments, Refused(Code.DUPLICATE_EFFECT))]
        if step.tool not in WRITES or not step.ok:
            return []
        if step.tool == "modify_pending_order_payment":
            return [mutant("again: same arguments", step.tool, step.arguments, rule("paid_in_parts", "/order_id"))]
        found = store.order(step.arguments["order_id"]) if "order_id" in step.arguments else None
        if found is None or found[0]["status"] == _NEEDS[step.tool]:
            held = Held(_PEOPLE_ASKED, Ending.CONFIRMED_AGAIN)
            return [mutant("again: same arguments", step.tool, step.arguments, held)]
        refused = rule(f"not_{_NEEDS[step.tool]}", "/order_id")
        made = [mutant("again: same arguments", step.tool, step.arguments, refused)]
        made += self._state(step, found[0], self._profile(store, task), rng, kind="again: another change")
        return made

    def _profile(self, store: Store, task: Task) -> Document:
        found = store.user(task.customer)
        return _NOBODY if found is None else found[0]

    def _other_profile(self, task: Task, step: Step, rng: random.Random) -> Iterator[Mutant]:
        refused = rule("not_yours", "/user_id", NO_USER)
        for kind, name in (
            ("whose: other customer", rng.choice([name for name in self._users if name != task.customer])),
            ("whose: nobody", self._absent(f"{task.customer}_", rng)),
        ):
            yield mutant(kind, step.tool, {**step.arguments, "user_id": name}, refused)

    def _other_order(self, task: Task, step: Step, rng: random.Random) -> Iterator[Mutant]:
        """All of it is right, but that it is not this customer's; and one that does not exist, which is told the same."""
        wanted = _NEEDS.get(step.tool)
        others = [o for o in self._orders if o["user_id"] != task.customer and wanted in (None, o["status"])]
        other = rng.choice(others)
        arguments = self._fitting(step.tool, other, self._users[other["user_id"]], step.arguments, rng)
        yield mutant("whose: other customer's order", step.tool, arguments, _NOT_YOURS)
        absent = {**step.arguments, "order_id": self._absent("#W", rng)}
        yield mutant("whose: absent order", step.tool, absent, _NOT_YOURS)

    def _absent(self, prefix: str, rng: random.Random) -> str:
        while (name := f"{prefix}{rng.randint(1_000_000, 9_999_999)}") in self._known:
            pass
        return name

    def _unconfirmed(self, step: Step, rng: random.Random) -> Iterator[Mutant]:
        ending = rng.choice(_CONFIRMATIONS)
        yield mutant(f"confirmation: {ending.value}", step.tool, step.arguments, Held(_PEOPLE_ASKED, ending))
        yield mutant(
            "confirmation: unannounced", step.tool, step.arguments, Held(_BREACH, Ending.NOBODY_ANSWERS), Asker.UNANNOUNCED
        )

    def _address(self, step: Step) -> Iterator[Mutant]:
        if "address1" not in step.arguments:
            return
        made_up = Held(_BREACH, Ending.NOBODY_ANSWERS)
        yield mutant("address: made up", step.tool, {**step.arguments, **_MADE_UP}, made_up)
        empty = Refused(Code.INVALID_ARGUMENTS, "wrong_length", "/city")
        yield mutant("address: empty", step.tool, {**step.arguments, "city": ""}, empty)

    def _state(
        self, step: Step, order: Document, user: Document, rng: random.Random, kind: str = "state: wrong status"
    ) -> Iterator[Mutant]:
        """Another tool on the same order, one that its state does not allow."""
        wrong = [tool for tool, status in _NEEDS.items() if status != order["status"] and tool != step.tool]
        tool = rng.choice(wrong)
        arguments = self._fitting(tool, order, user, step.arguments, rng)
        yield mutant(kind, tool, arguments, rule(f"not_{_NEEDS[tool]}", "/order_id"))

    def _of_order(self, task: Task, step: Step, order: Document, user: Document, rng: random.Random) -> Iterator[Mutant]:
        given = dict(step.arguments)
        if "reason" in given:
            wrong = rng.choice(("changed my mind", "No longer needed", "found it cheaper elsewhere"))
            refused = Refused(Code.INVALID_ARGUMENTS, "not_allowed", "/reason")
            yield mutant("reason: invalid", step.tool, {**given, "reason": wrong}, refused)
        if "item_ids" in given:
            yield from self._items(step.tool, given, order, rng)
        if step.tool in _SWAPS:
            yield from self._new_items(step.tool, given, order, rng)
            yield from self._too_expensive(step.tool, order, user)
        if "payment_method_id" in given:
            yield from self._foreign_payment(task, step.tool, given, rng)
        if step.tool == "return_delivered_order_items":
            yield from _elsewhere(given, order, user)

    def _items(self, tool: str, given: Mapping[str, Any], order: Document, rng: random.Random) -> Iterator[Mutant]:
        there = [line["item_id"] for line in order["items"]]
        strange = rng.choice([item for product in self._products.values() for item in product["variants"] if item not in there])
        refused = rule("unknown_item", "/item_ids")
        items = given["item_ids"]
        yield mutant("items: not in the order", tool, {**given, "item_ids": [*items[:-1], strange]}, refused)
        often = [items[0]] * (there.count(items[0]) + 1)
        yield mutant("items: too often", tool, {**given, "item_ids": often}, refused)
        none = Refused(Code.INVALID_ARGUMENTS, "wrong_length", "/item_ids")
        yield mutant("items: none", tool, {**given, "item_ids": []}, none)

    def _new_items(self, tool: str, given: Mapping[str, Any], order: Document, rng: random.Random) -> Iterator[Mutant]:
        old, new = given["item_ids"], given["new_item_ids"]
        product = next(line["product_id"] for line in order["items"] if line["item_id"] == old[0])
        variants = self._products[product]["variants"].values()
        gone = [each["item_id"] for each in variants if not each["available"] and each["item_id"] != old[0]]
        other = rng.choice([item for name, each in self._products.items() if name != product for item in each["variants"]])
        field = "/new_item_ids"
        yield mutant("new items: absent", tool, {**given, "new_item_ids": ["1", *new[1:]]}, rule("other_product", field))
        yield mutant("new items: other product", tool, {**given, "new_item_ids": [other, *new[1:]]}, rule("other_product", field))
        yield mutant("new items: the same", tool, {**given, "new_item_ids": [old[0], *new[1:]]}, rule("same_item", field))
        yield mutant("new items: other number", tool, {**given, "new_item_ids": [*new, new[0]]}, rule("other_number", field))
        if gone:
            taken = {**given, "new_item_ids": [rng.choice(gone), *new[1:]]}
            yield mutant("new items: unavailable", tool, taken, rule("unavailable", field))

    def _too_expensive(self, tool: str, order: Document, user: Document) -> Iterator[Mutant]:
        """The dearest that the customer could choose, paid with a gift card that does not cover it."""
        dearest, difference = [], 0.0
        for line in {line["item_id"]: line for line in order["items"]}.values():
            variants = self._products[line["product_id"]]["variants"].values()
            best = max((v for v in variants if v["available"]), key=lambda v: v["price"], default=None)
            if best is not None and best["price"] > line["price"]:
                dearest.append((line["item_id"], best["item_id"]))
                difference += best["price"] - line["price"]
        cards = _too_small(user, round(difference, 2))
        if dearest and cards:
            old, new = map(list, zip(*dearest, strict=True))
            arguments = {"order_id": order["order_id"], "item_ids": old, "new_item_ids": new, "payment_method_id": cards[0]}
            yield mutant("money: above the balance", tool, arguments, rule("balance_too_small", "/payment_method_id"))

    def _foreign_payment(self, task: Task, tool: str, given: Mapping[str, Any], rng: random.Random) -> Iterator[Mutant]:
        refused = rule("payment_not_yours", "/payment_method_id")
        mine = self._users.get(task.customer, _NOBODY)["payment_methods"].keys()
        others = sorted({method for user in self._users.values() for method in user["payment_methods"]} - mine)
        for kind, method in (("money: foreign payment", rng.choice(others)), ("money: absent payment", "gift_card_0")):
            yield mutant(kind, tool, {**given, "payment_method_id": method}, refused)

    def _payment(self, task: Task, order: Document, user: Document, rng: random.Random) -> Iterator[Mutant]:
        """Of the payment of an order that is still pending."""
        if order["status"] != "pending" or len(order["payment_history"]) != 1:
            return
        tool, paid = "modify_pending_order_payment", order["payment_history"][0]
        given = {"order_id": order["order_id"], "payment_method_id": paid["payment_method_id"]}
        yield mutant("money: the same payment", tool, given, rule("same_payment", "/payment_method_id"))
        yield from self._foreign_payment(task, tool, given, rng)
        for card in _too_small(user, paid["amount"]):
            if card != paid["payment_method_id"]:
                small = {**given, "payment_method_id": card}
                yield mutant("money: above the balance", tool, small, rule("balance_too_small", "/payment_method_id"))

    def _fitting(
        self, tool: str, order: Document, owner: Document, given: Mapping[str, Any], rng: random.Random
    ) -> dict[str, Any]:
        """Arguments with which the owner could call the tool for this order, were it in the right state."""
        arguments: dict[str, Any] = {"order_id": order["order_id"]}
        original = order["payment_history"][0]["payment_method_id"]
        match tool:
            case "cancel_pending_order":
                arguments["reason"] = "no longer needed"
            case "modify_pending_order_address":
                arguments |= owner["address"]
            case "modify_pending_order_payment":
                arguments["payment_method_id"] = next((m for m in owner["payment_methods"] if m != original), original)
            case "return_delivered_order_items":
                arguments |= {"item_ids": [order["items"][0]["item_id"]], "payment_method_id": original}
            case _ if tool in _SWAPS:
                line = order["items"][0]
                variants = self._products[line["product_id"]]["variants"].values()
                others = [each["item_id"] for each in variants if each["item_id"] != line["item_id"] and each["available"]]
                new = rng.choice(others or [line["item_id"]])
                arguments |= {"item_ids": [line["item_id"]], "new_item_ids": [new], "payment_method_id": original}
            case _:
                arguments = {**given, **arguments}
        return arguments


def _too_small(user: Document, amount: float) -> list[str]:
    """Gift cards that do not cover the amount."""
    return [each["id"] for each in user["payment_methods"].values() if "balance" in each and each["balance"] < amount]


def _elsewhere(given: Mapping[str, Any], order: Document, user: Document) -> Iterator[Mutant]:
    original = order["payment_history"][0]["payment_method_id"]
    for method in user["payment_methods"].values():
        if method["source"] != "gift_card" and method["id"] != original:
            refused = rule("refund_elsewhere", "/payment_method_id")
            elsewhere = {**given, "payment_method_id": method["id"]}
            yield mutant("money: refund elsewhere", "return_delivered_order_items", elsewhere, refused)
