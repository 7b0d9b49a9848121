"""The arguments of the shop's tools: those of tools.json, closed, strict and with an end."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

OrderId = Annotated[str, Field(min_length=1, max_length=32, description="The order's id, such as #W0000000, with the # sign.")]
UserId = Annotated[str, Field(min_length=1, max_length=80, description="The customer's user id.")]
ItemId = Annotated[str, Field(min_length=1, max_length=32)]
OldItems = Annotated[
    list[ItemId],
    Field(min_length=1, max_length=50, description="Ids of the order's items; one that is there twice may stand twice."),
]
NewItems = Annotated[
    list[ItemId], Field(min_length=1, max_length=50, description="Ids of what comes instead, in the same order as item_ids.")
]
MethodId = Annotated[
    str,
    Field(min_length=1, max_length=64, description="Id of one of the customer's payment methods, for the difference or refund."),
]
Line = Annotated[str, Field(min_length=1, max_length=120)]


class Arguments(BaseModel):
    """What all of them share: no unknown field, no number given as text."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Calculate(Arguments):
    expression: Annotated[
        str,
        Field(
            min_length=1, max_length=200, pattern=r"^[0-9+\-*/(). ]{1,200}$",
            description="Numbers, + - * / and brackets.",
        ),
    ]  # fmt: skip


class TransferToHumanAgents(Arguments):
    summary: Annotated[
        str, Field(min_length=1, max_length=1000, description="What the customer wants and why it takes a person.")
    ]


class FindByEmail(Arguments):
    email: Annotated[str, Field(min_length=3, max_length=254, description="The customer's e-mail address.")]


class FindByNameZip(Arguments):
    first_name: Annotated[str, Field(min_length=1, max_length=80, description="The customer's first name.")]
    last_name: Annotated[str, Field(min_length=1, max_length=80, description="The customer's last name.")]
    zip: Annotated[str, Field(min_length=1, max_length=20, description="The zip code of the customer's address.")]


class GetItem(Arguments):
    item_id: Annotated[str, Field(min_length=1, max_length=32, description="The item's id, which is no product id.")]


class GetOrder(Arguments):
    order_id: OrderId


class GetProduct(Arguments):
    product_id: Annotated[str, Field(min_length=1, max_length=32, description="The product's id, which is no item id.")]


class GetUser(Arguments):
    user_id: UserId


class ListProducts(Arguments):
    pass


class CancelOrder(Arguments):
    order_id: OrderId
    reason: Annotated[Literal["no longer needed", "ordered by mistake"], Field(description="Why; no other reason is accepted.")]


class Address(Arguments):
    """Where something goes."""

    address1: Annotated[Line, Field(description="Street and number.")]
    address2: Annotated[str, Field(max_length=120, description="Apartment or suite; may be empty.")]
    city: Annotated[Line, Field(description="The city.")]
    state: Annotated[Line, Field(description="The state, such as NY.")]
    country: Annotated[Line, Field(description="The country, such as USA.")]
    zip: Annotated[str, Field(min_length=1, max_length=20, description="The zip code.")]


class ChangeOrderAddress(Address):
    order_id: OrderId


class ChangeUserAddress(Address):
    user_id: UserId


class ChangePayment(Arguments):
    order_id: OrderId
    payment_method_id: MethodId


class Swap(Arguments):
    """Items of an order against others."""

    order_id: OrderId
    item_ids: OldItems
    new_item_ids: NewItems
    payment_method_id: MethodId


class ReturnItems(Arguments):
    order_id: OrderId
    item_ids: OldItems
    payment_method_id: MethodId
