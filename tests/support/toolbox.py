"""A catalog for tests: tools that do what their arguments ask for (lose the answer, be slow, refuse), over a `Downstream`."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import (
    Catalog,
    Committed,
    Effect,
    NotExecuted,
    OnDuplicate,
    Preview,
    Probed,
    ProbeVerdict,
    Quota,
    QuotaOf,
    Rate,
    Rule,
    Streamed,
    ToolContext,
    ToolError,
    ToolErrorKind,
)
from fourgates.catalog.formats import WorkspacePath
from fourgates.contract.parts import Principal
from fourgates.tools.results import add_result_reader
from fourgates.tools.workspace import Workspace
from support.bookings import Bookings
from support.downstream import Downstream

VARIABLE = "FOURGATES_TEST_TOOLBOX"
RUN_CALLS, USER_CENTS, RATE_CALLS, HANG_AT_ONCE = 3, 1_000, 3, 4
"""What `spend` allows in a run and to a person, `count` in ten minutes, `hang` side by side."""
SECRET = "postgres://shop:" + "hunter2hunter2" + "@db.internal/orders"
"""Put together here so that no line of the repository looks like a real one."""

POLICIES = """
@id("staff-reads") permit (principal in Fourgates::Group::"staff", action in Fourgates::Action::"read", resource);
@id("staff-writes") permit (principal in Fourgates::Group::"staff", action in Fourgates::Action::"write", resource);
@id("staff-destroys") permit (principal in Fourgates::Group::"staff", action in Fourgates::Action::"destructive", resource);
@id("small-payments") @approval("waived")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"pay", resource)
when { context.args.cents <= 5000 };
@id("large-payments") @approval("finance:1")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"pay", resource)
when { context.args.cents > 5000 };
@id("shipping") @approval("waived")
permit (principal in Fourgates::Group::"staff", action in [Fourgates::Action::"ship", Fourgates::Action::"post"], resource);
@id("rooms") @approval("waived")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"book", resource) when { context.args.seats <= 5 };
@id("large-rooms") @approval("finance:1")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"book", resource) when { context.args.seats > 5 };
@id("own-rooms") forbid (principal, action == Fourgates::Action::"book", resource)
when { context.facts.owner != context.subject };
@id("spending") @approval("waived")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"spend", resource);
@id("the-bot") permit (principal == Fourgates::Agent::"acme/bot", action, resource);
"""

Order = Annotated[str, Field(pattern=r"^[A-Z]-[0-9]{1,9}$", max_length=12)]


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Look(Arguments):
    item: Annotated[str, Field(max_length=100)]
    mode: Literal["plain", "slow", "missing", "boom", "flaky", "secret", "long", "stream"] = "plain"


class ReadFile(Arguments):
    path: WorkspacePath


class Pay(Arguments):
    order: Order
    cents: Annotated[int, Field(ge=1, le=1_000_000)]
    mode: Literal["ok", "lose", "lose_always", "slow", "reject", "busy"] = "ok"


class Ship(Arguments):
    order: Order
    mode: Literal["ok", "lose", "slow", "vanish"] = "ok"


class Post(Arguments):
    text: Annotated[str, Field(max_length=500)]
    mode: Literal["ok", "lose"] = "ok"


class Wipe(Arguments):
    target: Annotated[str, Field(pattern=r"^[a-z]{1,20}$")]


class Book(Arguments):
    room: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,30}$")]
    seats: Annotated[int, Field(ge=1, le=1_000)]
    mode: Literal["ok", "race", "lose"] = "ok"


class Spend(Arguments):
    cents: Annotated[int, Field(ge=0, le=1_000_000)]
    mode: Literal["ok", "reject"] = "ok"


class Count(Arguments):
    to: Annotated[int, Field(ge=0, le=1_000_000)]


class Send(Arguments):
    recipient: Annotated[str, Field(max_length=100)]
    text: Annotated[str, Field(max_length=500)]


def catalog() -> Catalog:
    """The toolbox over the folder that the variable names: `--catalog support.toolbox:catalog` in a stage's process."""
    return make_catalog(Path(os.environ[VARIABLE]))


def make_catalog(folder: Path) -> Catalog:
    """All tools over the downstream and the files of `folder`."""
    downstream = Downstream(folder / "downstream.sqlite")
    files = folder / "files"
    files.mkdir(exist_ok=True)
    (files / "note.txt").write_text("a note\n", encoding="utf-8")
    workspace = Workspace(files)
    made = Catalog("toolbox", policies=POLICIES)

    async def owned(args: Pay, who: Principal) -> dict[str, bool]:
        return {"owned": not args.order.startswith("X-")}

    async def probe(args: BaseModel, ctx: ToolContext) -> Probed:
        if downstream.happened(ctx.key):
            return Probed(ProbeVerdict.COMMITTED, {"found": True}, {"probe": "committed"})
        return Probed(ProbeVerdict.UNKNOWN)

    async def fencing_probe(args: BaseModel, ctx: ToolContext) -> Probed:
        if downstream.bar(ctx.key):
            return Probed(ProbeVerdict.NEVER)
        return Probed(ProbeVerdict.COMMITTED, {"found": True}, {"probe": "committed"})

    async def balance(args: Pay, who: Principal) -> Preview:
        paid = sum(1 for _, _, what in downstream.effects("pay") if what == args.order)
        return Preview(
            target=f"order {args.order}", before={"payments": paid}, after={"payments": paid + 1}, recoverable=False,
            amount=f"{args.cents / 100:.2f}",
        )  # fmt: skip

    @made.tool(risk="read", timeout=1.0)
    async def look(args: Look, ctx: ToolContext) -> object:
        """Looks at an item. Use it to read; takes the item's name; changes nothing; returns what is known."""
        downstream.entered("look", ctx.key, ctx.attempt)
        match args.mode:
            case "slow":
                await asyncio.sleep(30)
            case "missing":
                raise ToolError("no_such_item", "There is no such item.", ToolErrorKind.INVALID)
            case "boom":
                raise RuntimeError(f"connection to {SECRET} failed")
            case "flaky" if ctx.attempt < 3:
                raise ToolError("busy", "Try again.", ToolErrorKind.TRANSIENT)
            case "secret":
                return {"item": args.item, "connection": SECRET}
            case "long":
                return "\n".join(f"line {n} of {args.item}" for n in range(20_000))
            case "stream":
                return Streamed(f"row {n} of {args.item}, paid and sent\n" * 400 + f"see {SECRET}\n" for n in range(1_000))
        return {"item": args.item, "attempt": ctx.attempt}

    @made.tool(risk="read", timeout=5.0)
    async def read_file(args: ReadFile, ctx: ToolContext) -> str:
        """Reads a file of the workspace. Use it for notes; takes a relative path; changes nothing; returns its text."""
        downstream.entered("read_file", ctx.key, ctx.attempt)
        return workspace.read(args.path).decode()

    @made.tool(
        risk="write", timeout=1.0, honours_key=True, facts=owned, facts_types={"owned": "bool"}, preview=balance, probe=probe,
        settle=timedelta(seconds=1), effect=Effect("pay", ("{order}",)),
        rules=(
            Rule("owned", "facts.owned == true", "There is no such order of yours.", "/order"),
            Rule("limit", "args.cents <= 500000", "At most 5000.00 at a time.", "/cents"),
        ),
    )  # fmt: skip
    async def pay(args: Pay, ctx: ToolContext) -> object:
        """Pays for an order. Use it once; takes order and cents; moves money; returns a receipt."""
        downstream.entered("pay", ctx.key, ctx.attempt)
        if args.mode == "reject":
            return NotExecuted("card_declined", "The card was declined.")
        if args.mode == "busy":
            return NotExecuted("busy", "Try later.", retryable=True)
        downstream.commit("pay", ctx.key, args.order, honours_key=True)
        if args.mode == "slow":
            await asyncio.sleep(30)
        if args.mode == "lose_always" or (args.mode == "lose" and ctx.attempt == 1):
            raise ConnectionResetError("the answer was lost")
        return Committed({"receipt": args.order, "cents": args.cents}, {"paid": args.cents})

    @made.tool(
        risk="write", timeout=1.0, probe=fencing_probe, settle=timedelta(seconds=1),
        effect=Effect("ship", ("{order}",), on_duplicate=OnDuplicate.REFUSE),
    )  # fmt: skip
    async def ship(args: Ship, ctx: ToolContext) -> object:
        """Ships an order. Use it once; takes the order; sends a parcel; returns nothing."""
        downstream.entered("ship", ctx.key, ctx.attempt)
        if args.mode == "vanish":
            raise ConnectionResetError("lost before it was done")
        downstream.commit("ship", ctx.key, args.order, honours_key=False)
        if args.mode == "slow":
            await asyncio.sleep(30)
        if args.mode == "lose":
            raise ConnectionResetError("the answer was lost")
        return Committed({"shipped": args.order})

    @made.tool(
        risk="write", timeout=1.0, settle=timedelta(seconds=1),
        effect=Effect("post", ("{text}",), on_duplicate=OnDuplicate.REPLAY),
    )  # fmt: skip
    async def post(args: Post, ctx: ToolContext) -> object:
        """Posts a text. Use it to publish; takes the text; publishes it; returns nothing."""
        downstream.entered("post", ctx.key, ctx.attempt)
        downstream.commit("post", ctx.key, args.text, honours_key=False)
        if args.mode == "lose":
            raise ConnectionResetError("the answer was lost")
        return Committed({"posted": True})

    async def what_is_there(args: Wipe, who: Principal) -> Preview:
        wiped = any(what == args.target for _, _, what in downstream.effects("wipe"))
        return Preview(f"store {args.target}", {"wiped": wiped}, {"wiped": True}, recoverable=False)

    @made.tool(risk="destructive", timeout=1.0, preview=what_is_there, honours_key=True, effect=Effect("wipe", ("{target}",)))
    async def wipe(args: Wipe, ctx: ToolContext) -> object:
        """Wipes a store. Use it to clean up; takes the store's name; deletes everything in it; returns nothing."""
        downstream.entered("wipe", ctx.key, ctx.attempt)
        downstream.commit("wipe", ctx.key, args.target, honours_key=True)
        return Committed({"wiped": args.target}, {"wiped": args.target})

    @made.tool(
        risk="write", timeout=1.0, honours_key=True, origins={"recipient": {"user"}}, effect=Effect("send", per_call=True),
    )  # fmt: skip
    async def send(args: Send, ctx: ToolContext) -> object:
        """Sends a message. Use it when the user asks; takes recipient and text; sends it; returns nothing."""
        downstream.entered("send", ctx.key, ctx.attempt)
        downstream.commit("send", ctx.key, args.recipient, honours_key=True)
        return Committed({"sent": args.recipient})

    @made.tool(
        risk="write", timeout=1.0, honours_key=True, effect=Effect("spend", per_call=True),
        quotas=(Quota(QuotaOf.RUN, calls=RUN_CALLS), Quota(QuotaOf.USER, timedelta(days=30), amount=USER_CENTS, of="cents")),
    )  # fmt: skip
    async def spend(args: Spend, ctx: ToolContext) -> object:
        """Spends an amount. Use it when the user asks; takes cents; moves money; returns the amount."""
        downstream.entered("spend", ctx.key, ctx.attempt)
        if args.mode == "reject":
            return NotExecuted("card_declined", "The card was declined.")
        downstream.commit("spend", ctx.key, ctx.principal.subject, honours_key=True)
        return Committed({"spent": args.cents})

    @made.tool(risk="read", timeout=1.0, rate=Rate(RATE_CALLS, timedelta(minutes=10)))
    async def count(args: Count, ctx: ToolContext) -> object:
        """Counts. Use it seldom; takes a number; changes nothing; returns the number."""
        return {"counted": args.to}

    @made.tool(risk="read", timeout=2.0, at_once=HANG_AT_ONCE)
    async def hang(args: Count, ctx: ToolContext) -> object:
        """Never answers. Use it never; takes a number; changes nothing; returns nothing."""
        downstream.entered("hang", ctx.key, ctx.attempt)
        await asyncio.Event().wait()
        return {}

    bookings = Bookings(folder / "bookings.sqlite")

    async def room(args: Book, who: Principal) -> dict[str, object]:
        found = bookings.look(args.room)
        match found.pop("mode"):
            case "down":
                raise ConnectionResetError(f"{SECRET} is away")
            case "slow":
                await asyncio.sleep(30)
            case "odd":
                return {**found, "free": "many"}
        return found

    @made.tool(
        risk="write", timeout=1.0, facts=room, facts_timeout=0.5, honours_key=True, effect=Effect("book", per_call=True),
        facts_types={"free": "int", "version": "int", "owner": "string", "blocks": "int", "state": "string", "looks": "int"},
        rules=(
            Rule("enough", "args.seats <= facts.free", "There is not so much room.", "/seats"),
            Rule("blocks", "facts.free / facts.blocks >= 0", "That room cannot be booked."),
            Rule("open", "facts.state == 'open'", "That room is closed.", "/room"),
        ),
    )  # fmt: skip
    async def book(args: Book, ctx: ToolContext) -> object:
        """Books seats in a room. Use it when the user asks; takes room and seats; takes the seats; returns the version."""
        downstream.entered("book", ctx.key, ctx.attempt)
        version = int(ctx.precondition["version"])
        if args.mode == "lose":
            bookings.note(args.room, version)
            bookings.book(args.room, args.seats, version)
            raise ConnectionResetError("the answer was lost")
        if args.mode == "race":
            bookings.put(args.room, version=version + 1)
        if not bookings.book(args.room, args.seats, version, ctx.key):
            return NotExecuted("changed", "The room was changed meanwhile; look again.")
        return Committed({"booked": args.seats, "version": version}, {"free": -args.seats})

    add_result_reader(made)
    return made
