"""docs/tools.md says what is so: its code is run, its table is shown."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

import fourgates.catalog
from fourgates.catalog import Catalog, Committed, NotExecuted, ToolContext, ToolError
from fourgates.contract.codes import Code
from fourgates.executor.attempts import Ended, run_tool
from fourgates.tools.answers import Declared
from fourgates.tools.command import CommandTool
from fourgates.tools.http import Answer, HttpTool
from fourgates.tools.http_asks import HttpProbe
from fourgates.tools.http_request import HttpRequest
from fourgates.tools.mcp import McpTools
from fourgates.tools.mcp_pins import Pins
from fourgates.tools.mcp_server import McpServer
from fourgates.tools.sandbox import Sandbox
from fourgates.tools.sql_recipe import Once
from fourgates.tools.workspace import Workspace
from support.samples import PRINCIPAL

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"


class History(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    path: str
    count: int = 10


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    """C1: each kind is registered as the page says."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) >= 7
    database = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("CREATE TABLE orders (id TEXT, state TEXT)")
        db.execute("INSERT INTO orders VALUES ('A-1', 'open')")
    (tmp_path / "notes").mkdir()
    catalog = Catalog("page")
    names: dict[str, Any] = globals() | {
        **vars(fourgates.catalog), "BaseModel": BaseModel, "ConfigDict": ConfigDict, "Annotated": Annotated, "Field": Field,
        "Answer": Answer, "Declared": Declared, "HttpTool": HttpTool, "HttpRequest": HttpRequest, "HttpProbe": HttpProbe,
        "McpServer": McpServer, "McpTools": McpTools, "Pins": Pins, "CommandTool": CommandTool, "Sandbox": Sandbox, "Once": Once,
        "Workspace": Workspace, "catalog": catalog, "sqlite3": sqlite3, "closing": closing, "DATABASE": database,
        "HERE": tmp_path, "REPOSITORY": tmp_path, "History": History, "secret": lambda: "s", "__name__": __name__,
    }  # fmt: skip
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert {tool.name for tool in catalog} == {"refund", "cancel_order", "refund_card", "history"}
    assert list(catalog.offers) == ["create_issue"]
    args, ctx = names["Refund"](order_id="A-1"), ToolContext("k", 1, 0, PRINCIPAL)
    assert names["count_orders"](args, ctx) == 1
    assert names["cancel_order"](args, ctx) == Committed()
    assert isinstance(names["cancel_order"](args, ToolContext("other", 1, 0, PRINCIPAL)), NotExecuted)
    assert names["notes"].read_text("today.md") == "..."


async def _hangs(args: Any, ctx: ToolContext) -> None:
    await asyncio.Event().wait()


def _saying(answer: Any) -> Any:
    def says(args: Any, ctx: ToolContext) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return says


SAID = ToolError("declared", "It is so.")
ASSERTED = ToolError("declared", "It is so.", not_executed=True)
TABLE = [
    (_saying(Committed("x")), (Ended.COMMITTED, Code.OK), (Ended.COMMITTED, Code.OK)),
    (_saying("x"), (Ended.COMMITTED, Code.OK), (Ended.LOST, Code.IN_DOUBT)),
    (_saying(NotExecuted("no", "No.")), (Ended.NOT_EXECUTED, Code.TOOL_FAILED), (Ended.NOT_EXECUTED, Code.TOOL_FAILED)),
    (_saying(ASSERTED), (Ended.NOT_EXECUTED, Code.TOOL_FAILED), (Ended.NOT_EXECUTED, Code.TOOL_FAILED)),
    (_saying(SAID), (Ended.NOT_EXECUTED, Code.TOOL_FAILED), (Ended.LOST, Code.TOOL_FAILED)),
    (_hangs, (Ended.NOT_EXECUTED, Code.TIMEOUT), (Ended.LOST, Code.IN_DOUBT)),
    (_saying(OSError("x")), (Ended.NOT_EXECUTED, Code.INTERNAL), (Ended.LOST, Code.IN_DOUBT)),
]


@pytest.mark.parametrize(("run", "read", "write"), TABLE)
async def test_what_a_tool_says_is_taken_as_the_page_says(run: Any, read: tuple[Ended, Code], write: tuple[Ended, Code]) -> None:
    """E6, R7"""
    for risk, expected in (("read", read), ("write", write)):
        catalog = Catalog("kinds")
        catalog.register(run, name="tool", description="Does it.", arguments=History, risk=risk, timeout=1)
        [tool] = catalog
        done = await run_tool(tool, None, ToolContext("k", 1, 0, PRINCIPAL), 0.05, None)
        assert (done.ended, done.code) == expected, risk
