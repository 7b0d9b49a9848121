"""The shop's reads. Products are everybody's; a profile and an order are their customer's."""

from __future__ import annotations

import json
from typing import Any

from corpora.retail_shop import rules
from corpora.retail_shop.arguments import (
    Calculate,
    FindByEmail,
    FindByNameZip,
    GetItem,
    GetOrder,
    GetProduct,
    GetUser,
    ListProducts,
)
from corpora.retail_shop.arithmetic import calculate
from corpora.retail_shop.entries import noted
from corpora.retail_shop.facts import ORDER, Facts
from corpora.retail_shop.store import Document, Shops
from fourgates.catalog import Catalog, OutputLimit, ToolContext, ToolError, ToolErrorKind

_LONG = OutputLimit(bytes=65_536)
"""A product with all its variants; what is cut off could not be chosen."""


class Reads:
    """Tools that change nothing."""

    def __init__(self, shops: Shops) -> None:
        self._shops = shops

    def register(self, catalog: Catalog) -> None:
        """Adds them to the catalog."""
        facts = Facts(self._shops)
        plain = (
            self.calculate, self.find_user_id_by_email, self.find_user_id_by_name_zip, self.get_item_details,
            self.get_product_details, self.list_all_product_types,
        )  # fmt: skip
        for read in plain:
            catalog.tool(risk="read", timeout=5, output=_LONG)(noted(self._shops, read))
        catalog.tool(risk="read", timeout=5, output=_LONG, rules=(rules.OWN_PROFILE,))(noted(self._shops, self.get_user_details))
        catalog.tool(
            risk="read", timeout=5, output=_LONG, facts=facts.order, facts_types=ORDER, rules=(rules.OWN_ORDER,)
        )(noted(self._shops, self.get_order_details))  # fmt: skip

    def calculate(self, args: Calculate, ctx: ToolContext) -> str:
        """Works out an expression. Use it for sums of money. It changes nothing. Returns the value, rounded to cents, as text."""
        try:
            return calculate(args.expression)
        except ValueError:
            raise ToolError("no_value", "The expression has no value", ToolErrorKind.INVALID) from None

    def find_user_id_by_email(self, args: FindByEmail, ctx: ToolContext) -> str:
        """Finds the customer's own user id by e-mail.

        Use it to make sure whom you speak with. It changes nothing. Returns the user id.
        """
        return self._own(ctx, lambda user: user["email"].lower() == args.email.lower())

    def find_user_id_by_name_zip(self, args: FindByNameZip, ctx: ToolContext) -> str:
        """Finds the customer's own user id by name and zip code.

        Use it when the customer does not know the e-mail address. It changes nothing. Returns the user id.
        """
        wanted = (args.first_name.lower(), args.last_name.lower(), args.zip)

        def fits(user: Document) -> bool:
            name = user["name"]
            return (name["first_name"].lower(), name["last_name"].lower(), user["address"]["zip"]) == wanted

        return self._own(ctx, fits)

    def get_item_details(self, args: GetItem, ctx: ToolContext) -> dict[str, Any]:
        """Reads one item. Use it for its options, price and availability. It changes nothing. Returns the item."""
        found = self._shops.of(ctx.principal.tenant).variant(args.item_id)
        if found is None:
            raise ToolError("no_such_item", "Item not found", ToolErrorKind.INVALID)
        return found

    def get_product_details(self, args: GetProduct, ctx: ToolContext) -> dict[str, Any]:
        """Reads a product with all its items. Use it to compare options. It changes nothing. Returns the product."""
        found = self._shops.of(ctx.principal.tenant).product(args.product_id)
        if found is None:
            raise ToolError("no_such_product", "Product not found", ToolErrorKind.INVALID)
        return found

    def list_all_product_types(self, args: ListProducts, ctx: ToolContext) -> str:
        """Lists the names and ids of all products.

        Use it to find a product's id. It changes nothing. Returns a JSON object as text.
        """
        products = self._shops.of(ctx.principal.tenant).all("products")
        return json.dumps({product["name"]: product["product_id"] for product in products}, sort_keys=True)

    def get_user_details(self, args: GetUser, ctx: ToolContext) -> dict[str, Any]:
        """Reads the customer's profile.

        Use it for addresses, payment methods and order ids. It changes nothing. Returns the profile.
        """
        found = self._shops.of(ctx.principal.tenant).user(args.user_id)
        if found is None:
            raise ToolError("no_such_user", rules.NO_USER, ToolErrorKind.INVALID)
        return found[0]

    def get_order_details(self, args: GetOrder, ctx: ToolContext) -> dict[str, Any]:
        """Reads one of the customer's orders. Use it for its state and items. It changes nothing. Returns the order."""
        found = self._shops.of(ctx.principal.tenant).order(args.order_id)
        if found is None:
            raise ToolError("no_such_order", rules.NO_ORDER, ToolErrorKind.INVALID)
        return found[0]

    def _own(self, ctx: ToolContext, fits: Any) -> str:
        """The first that fits is whom these words mean; anybody but the customer who asks is told as nobody."""
        store = self._shops.of(ctx.principal.tenant)
        found = next((user["user_id"] for user in store.all("users") if fits(user)), None)
        if found != ctx.principal.subject:
            raise ToolError("no_such_user", rules.NO_USER, ToolErrorKind.INVALID)
        return str(found)
