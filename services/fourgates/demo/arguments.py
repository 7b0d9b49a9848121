"""The arguments of the shop's tools: closed and strict, so that the schema a model sees is the one that is enforced."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog.formats import WorkspacePath

OrderId = Annotated[str, Field(pattern=r"^A-[0-9]{4}$", description="The order's number, such as A-1001.")]


class Arguments(BaseModel):
    """What all of them share: no unknown field, no number given as text."""

    model_config = ConfigDict(strict=True, extra="forbid")


class GetOrder(Arguments):
    order_id: OrderId


class SearchOrders(Arguments):
    customer: Annotated[str, Field(max_length=60, description="Part of the customer's name; empty: any customer.")] = ""
    status: Annotated[
        Literal["processing", "shipped", "delivered", "cancelled"] | None, Field(description="Only orders in this state.")
    ] = None
    limit: Annotated[int, Field(ge=1, le=50, description="At most so many orders.")] = 10


class ReadPolicy(Arguments):
    path: Annotated[WorkspacePath, Field(description="Path of the document, such as policies/returns.md.")]


class ExportCustomers(Arguments):
    format: Annotated[Literal["csv"], Field(description="The form of the list.")] = "csv"


class RefundOrder(Arguments):
    order_id: OrderId
    amount_cents: Annotated[int, Field(ge=1, le=1_000_000, description="How much to refund, in euro cents.")]
    reason: Annotated[Literal["damaged", "late", "wrong_item", "unwanted"], Field(description="Why the customer gets it.")]


class CancelOrder(Arguments):
    order_id: OrderId
    reason: Annotated[Literal["customer_request", "out_of_stock"], Field(description="Why the order is cancelled.")]


class ChangeAddress(Arguments):
    order_id: OrderId
    address: Annotated[str, Field(min_length=5, max_length=200, description="The new address in one line.")]


class SendMessage(Arguments):
    recipient: Annotated[
        str,
        Field(
            max_length=129, pattern=r"^[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,64}$", description="The e-mail address to write to."
        ),
    ]
    subject: Annotated[str, Field(min_length=1, max_length=120, description="The subject line.")]
    text: Annotated[str, Field(min_length=1, max_length=2000, description="The message itself.")]
