"""One tool of each kind, as a read and as a write: what it did and how it ended is noted in one file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Committed, Effect, ToolContext
from fourgates.tools.command import CommandTool
from fourgates.tools.http import HttpTool
from fourgates.tools.http_request import HttpRequest
from fourgates.tools.mcp import McpTools
from fourgates.tools.mcp_pins import Pins
from fourgates.tools.mcp_server import McpServer
from fourgates.tools.sandbox import Sandbox
from fourgates.tools.sql_recipe import Once

VARIABLE = "FOURGATES_TEST_KINDS"
KINDS = ("async", "thread", "cursor", "http", "mcp", "command")
TESTS = Path(__file__).parents[1]
POLICIES = """
@id("all") @approval("waived") permit (principal in Fourgates::Group::"staff", action, resource);
@id("the-bot") permit (principal == Fourgates::Agent::"acme/bot", action, resource);
"""
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
SLEEP = "1000.5"
"""By which the children of the command are known."""
SCRIPT = f"""#!/bin/sh
order=${{1#--order=}}
echo "entered $order" >> /work/notes
[ "$2" = --mode=hang ] && {{ sleep {SLEEP} & sleep {SLEEP}; }}
printf '{{"order": "%s"}}' "$order"
"""
_AT_ONCE = timedelta(0)


class Order(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order: Annotated[str, Field(pattern=r"^[A-Z]-[0-9]{1,9}$", max_length=12)]
    mode: Literal["ok", "hang"] = "ok"


def catalog() -> Catalog:
    """The kinds over the folder that the variable names: `--catalog support.kinds:catalog` in a stage's process."""
    return make_catalog(Path(os.environ[VARIABLE]))


async def prepare(folder: Path, url: str) -> None:
    """What lies in the folder before anybody loads the catalog; the definition of the MCP tool is accepted."""
    _fill(folder, url)
    offers = make_catalog(folder).offers.values()
    try:
        for offer in offers:
            offer.accept(await offer.offered())
    finally:
        for offer in offers:
            await offer.close()


def _fill(folder: Path, url: str) -> None:
    folder.chmod(0o777)
    (folder / "notes").touch()
    (folder / "notes").chmod(0o666)
    (folder / "url").write_text(url)
    (folder / "do.sh").write_text(SCRIPT)
    (folder / "do.sh").chmod(0o755)
    with closing(sqlite3.connect(folder / "books.sqlite")) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE IF NOT EXISTS done (what TEXT)")


def noted(folder: Path) -> list[str]:
    return (folder / "notes").read_text().splitlines()


def make_catalog(folder: Path) -> Catalog:
    """`look_KIND` and `do_KIND` for each kind. A write says no key and has no probe: what is lost is in doubt."""
    made = Catalog("kinds", policies=POLICIES)

    def note(line: str) -> None:
        with (folder / "notes").open("a") as notes:
            notes.write(line + "\n")

    async def in_loop(args: Order, ctx: ToolContext) -> Committed:
        note(f"entered {args.order}")
        try:
            if args.mode == "hang":
                await asyncio.Event().wait()
        finally:
            note(f"left {args.order}")
        return Committed({"order": args.order})

    def in_thread(args: Order, ctx: ToolContext) -> Committed:
        note(f"entered {args.order}")
        try:
            while args.mode == "hang":
                ctx.stopping.check()
                ctx.stopping.wait(5)
        finally:
            note(f"left {args.order}")
        return Committed({"order": args.order})

    once = Once(lambda: sqlite3.connect(folder / "books.sqlite", timeout=30))
    once.create()

    def in_cursor(args: Order, ctx: ToolContext) -> Any:
        def effect(db: sqlite3.Connection) -> Committed:
            db.execute("INSERT INTO done VALUES (?)", (args.order,))
            if args.mode == "hang":
                db.execute(ENDLESS).fetchall()
            return Committed({"order": args.order})

        note(f"entered {args.order}")
        try:
            return once.run(ctx, effect)
        finally:
            note(f"left {args.order}")

    url = (folder / "url").read_text()
    sandbox = Sandbox(workspace=folder, writable=True)
    script = ("/work/do.sh", "--order={/order}", "--mode={/mode}")
    runs: dict[str, Any] = {
        "async": in_loop,
        "thread": in_thread,
        "cursor": in_cursor,
        "http": HttpTool(HttpRequest(method="POST", url=f"{url}/orders", body={"": ""}, headers={"Idempotency-Key": "@key"})),
        "command": CommandTool(script, sandbox=sandbox, output="json"),
    }
    for kind, run in runs.items():
        for verb, risk in (("look", "read"), ("do", "write")):
            made.register(
                run, name=f"{verb}_{kind}", description="Does it. Use it to try.", arguments=Order, risk=risk, timeout=2.0,
                settle=_AT_ONCE, **({"effect": Effect(f"do_{kind}", ("{order}",))} if risk == "write" else {}),
            )  # fmt: skip
    server = McpServer.stdio(
        (sys.executable, "-m", "support.mcp_server", "stdio", str(folder / "notes")), environment={"PYTHONPATH": str(TESTS)}
    )
    tools = McpTools(server, Pins(folder / "mcp.lock.json"))
    for verb, risk in (("look", "read"), ("do", "write")):
        tools.register(
            made, "order", name=f"{verb}_mcp", risk=risk, timeout=2.0, settle=_AT_ONCE,
            **({"effect": Effect("do_mcp", ("{order}",))} if risk == "write" else {}),
        )  # fmt: skip
    return made
