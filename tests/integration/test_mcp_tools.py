"""MCP servers as tools, over stdio and over streamable HTTP: what was accepted runs, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from fourgates.catalog import Catalog, Committed, Effect, Stopped, Stopping, ToolContext, ToolError, ToolErrorKind, invoke
from fourgates.catalog.export import export_mcp
from fourgates.cli.local import free_ports
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.parts import Risk
from fourgates.testing import Pipeline
from fourgates.tools.answers import Declared
from fourgates.tools.mcp import McpTools, Says
from fourgates.tools.mcp_pins import Pins, definition_digest
from fourgates.tools.mcp_server import McpServer
from support.eventually import eventually
from support.kinds import POLICIES
from support.samples import PRINCIPAL
from support.worlds import AGENT, FAST, OPTIONS, STAFF, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")
TESTS = Path(__file__).parents[1]
DECLINED = Says(
    contains="card declined", means=Declared(reason="card_declined", sentence="The card was declined.", not_executed=True)
)


@dataclass
class Place:
    """A server, what it noted, and where its definitions are pinned."""

    server: McpServer
    notes: Path
    pins: Pins

    def noted(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    async def accepted(self, tool: str = "pay") -> None:
        definition = await self.server.definition(tool)
        assert definition is not None
        self.pins.accept(tool, f"{self.server.target}/{tool}", definition)

    def catalog(self, tool: str = "pay", **contract: Any) -> Catalog:
        catalog = Catalog("mcp")
        if tool == "pay":
            contract.setdefault("fills", {"idempotency_key": "@key"})
        McpTools(self.server, self.pins).register(catalog, tool, **{"timeout": 10, **contract})
        return catalog


def run_of(catalog: Catalog, tool: str = "pay") -> Any:
    found = catalog.get(tool)
    assert found is not None
    return found.run


def context(fence: int = 3) -> ToolContext:
    return ToolContext("key-of-the-call", fence, 0, PRINCIPAL, stopping=Stopping())


def alive(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


def stdio_server(notes: Path) -> McpServer:
    return McpServer.stdio(
        (sys.executable, "-m", "support.mcp_server", "stdio", str(notes)), environment={"PYTHONPATH": str(TESTS)}
    )


@pytest_asyncio.fixture(loop_scope="module", scope="module", params=["stdio", "http"])
async def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("mcp")
    notes = folder / "notes"
    if request.param == "stdio":
        made = Place(stdio_server(notes), notes, Pins(folder / "mcp.lock.json"))
        yield made
        await made.server.close()
        return
    [port] = free_ports(1)
    argv = [sys.executable, "-m", "support.mcp_server", "http", str(notes), str(port)]
    process = await asyncio.create_subprocess_exec(
        *argv, env={**os.environ, "PYTHONPATH": str(TESTS)}, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await eventually(lambda: _listens(port))
        made = Place(McpServer.http(f"http://127.0.0.1:{port}/mcp"), notes, Pins(folder / "mcp.lock.json"))
        yield made
        await made.server.close()
    finally:
        process.kill()
        await process.wait()


async def _listens(port: int) -> bool:
    try:
        async with httpx.AsyncClient(trust_env=False) as http:
            await http.get(f"http://127.0.0.1:{port}/none")
    except httpx.TransportError:
        return False
    return True


async def test_what_nobody_accepted_is_unknown(place: Place) -> None:
    """C4"""
    nobody = Place(place.server, place.notes, Pins(place.pins.path.with_name("none.json")))
    catalog = nobody.catalog()
    assert catalog.get("pay") is None and list(catalog.offers) == ["pay"]
    assert catalog.offers["pay"].accepted() is None
    offered = await catalog.offers["pay"].offered()
    catalog.offers["pay"].accept(offered)
    assert nobody.catalog().get("pay") is not None


async def test_an_accepted_tool_is_closed_destructive_and_called_with_the_key(place: Place) -> None:
    """C2, C9, E12: the server's hints count for nothing, what the runtime fills in is no argument."""
    await place.accepted()
    with pytest.raises(ConfigurationError, match="no model sends them"):
        place.catalog(fills={})
    catalog = place.catalog()
    tool = catalog.get("pay")
    assert tool is not None
    assert tool.risk is Risk.DESTRUCTIVE
    assert tool.schema["additionalProperties"] is False
    assert set(tool.schema["properties"]) == {"order", "cents", "mode"}
    assert export_mcp(catalog)[0]["inputSchema"] == tool.schema
    answer = await tool.run({"order": "A-1", "cents": 5, "mode": "ok"}, context())
    assert answer == Committed("paid A-1")
    assert place.noted()[-1] == "pay A-1 5 key- key-"


async def test_structured_content_is_the_result(place: Place) -> None:
    await place.accepted("order_of")
    run = run_of(place.catalog("order_of", risk="read"), "order_of")
    assert await run({"order": "A-1"}, context(-1)) == Committed({"order": "A-1", "lines": [1, 2]})


async def test_errors_are_told_as_declared_and_never_in_the_servers_words(place: Place) -> None:
    """R5, R7, E6"""
    await place.accepted()
    run = run_of(place.catalog(errors=(DECLINED,)))
    with pytest.raises(ToolError) as told:
        await run({"order": "A-1", "cents": 5, "mode": "declined"}, context())
    assert (told.value.reason, told.value.not_executed) == ("card_declined", True)
    with pytest.raises(ToolError) as told:
        await run({"order": "A-1", "cents": 5, "mode": "boom"}, context())
    assert (told.value.reason, told.value.sentence, told.value.not_executed) == ("mcp_error", "The tool failed.", False)


@pytest.mark.parametrize("how", ["timeout", "stop"])
async def test_the_server_is_told_that_nobody_waits(place: Place, how: str) -> None:
    """E7: notifications/cancelled, or its stream is closed."""
    await place.accepted()
    run, stop, before = run_of(place.catalog()), asyncio.Event(), place.noted().count("cancelled")
    waiting = place.noted().count("waiting")
    timeout = 1.0 if how == "timeout" else 20.0
    call = asyncio.create_task(invoke(run, {"order": "B-1", "cents": 1, "mode": "slow"}, context(), timeout=timeout, stop=stop))
    await eventually(lambda: place.noted().count("waiting") > waiting, 10)
    if how == "stop":
        stop.set()
    with pytest.raises(TimeoutError if how == "timeout" else Stopped):
        await call
    await eventually(lambda: place.noted().count("cancelled") > before, 10)
    assert await run({"order": "B-2", "cents": 1, "mode": "ok"}, context()) == Committed("paid B-2")


async def test_a_definition_that_changed_is_refused_until_it_is_accepted(place: Place) -> None:
    """C4, B6: before anything is sent; also where only the description changed."""
    await place.accepted()
    first = place.catalog()
    await run_of(first)({"order": "C-1", "cents": 1, "mode": "announce"}, context())
    calls = len(place.noted())
    with pytest.raises(ToolError) as told:
        await run_of(first)({"order": "C-2", "cents": 1, "mode": "ok"}, context())
    assert (told.value.reason, told.value.kind, told.value.not_executed) == ("definition_changed", ToolErrorKind.DISABLED, True)
    assert len(place.noted()) == calls
    with pytest.raises(ToolError, match="definition_changed"):
        await run_of(place.catalog())({"order": "C-2", "cents": 1, "mode": "ok"}, context())
    await place.accepted()
    second = place.catalog()
    old, new = first.get("pay"), second.get("pay")
    assert old is not None and new is not None and old.version != new.version
    assert await run_of(second)({"order": "C-3", "cents": 1, "mode": "ok"}, context()) == Committed("paid C-3")


async def test_through_the_gates_a_changed_tool_is_disabled_and_nothing_runs(place: Place) -> None:
    """C4, S8: until its operator accepts it; a person's or a policy's yes does not help."""
    await place.accepted()
    catalog = Catalog("mcp", policies=POLICIES)
    McpTools(place.server, place.pins).register(
        catalog, "pay", timeout=10, risk="write", fills={"idempotency_key": "@key"}, effect=Effect("pay", ("{order}",))
    )
    async with Pipeline(catalog, settings=FAST, tenant=TENANT, options=OPTIONS) as gates:
        run = gates.run("anna", STAFF, agent=AGENT)
        first = await run.call("pay", {"order": "G-1", "cents": 1, "mode": "announce"}, tool_call_id="1")
        assert (first.code, first.content) == (Code.OK, "paid G-1")
        again = await run.call("pay", {"order": "G-2", "cents": 1, "mode": "ok"}, tool_call_id="2")
        assert (again.code, again.reason, again.final) == (Code.TOOL_DISABLED, "definition_changed", True)
        assert not any("G-2" in line for line in place.noted())


async def test_a_server_that_crashes_leaves_doubt_and_comes_back(tmp_path: Path) -> None:
    """E3, E5"""
    place = Place(stdio_server(tmp_path / "notes"), tmp_path / "notes", Pins(tmp_path / "mcp.lock.json"))
    await place.accepted()
    run = run_of(place.catalog())
    try:
        with pytest.raises(ToolError) as told:
            await run({"order": "A-1", "cents": 1, "mode": "crash"}, context())
        assert (told.value.reason, told.value.kind, told.value.not_executed) == ("answer_lost", ToolErrorKind.TRANSIENT, False)
        assert await run({"order": "A-2", "cents": 1, "mode": "ok"}, context()) == Committed("paid A-2")
        started = [line for line in place.noted() if line.startswith("started")]
        assert len(started) == 2
        os.kill(int(started[-1].split()[1]), signal.SIGKILL)
        with pytest.raises(ToolError) as told:  # asked for its tools right before: nothing was sent
            await run({"order": "A-3", "cents": 1, "mode": "ok"}, context())
        assert (told.value.reason, told.value.not_executed) == ("not_reached", True)
        assert not any("A-3" in line for line in place.noted())
    finally:
        await place.server.close()
    assert not [line for line in place.noted() if line.startswith("started") and alive(line.split()[1])]


async def test_a_server_that_is_not_there_is_away(tmp_path: Path) -> None:
    """E6"""
    [port] = free_ports(1)
    for server in (
        McpServer.http(f"http://127.0.0.1:{port}/mcp"),
        McpServer.stdio(("/opt/none/such",)),
        McpServer.stdio(("true",)),
    ):
        with pytest.raises(Transient):
            await server.definition("pay")
        await server.close()


async def test_a_server_that_never_answers_is_given_up_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6, E7: stopped while it is waited for, nothing was sent, and that is said."""
    monkeypatch.setattr("fourgates.tools.mcp_server.CONNECT_SECONDS", 1.0)
    told = tmp_path / "pid"
    deaf = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
    place = Place(McpServer.stdio((sys.executable, "-c", deaf, str(told))), tmp_path / "notes", Pins(tmp_path / "lock.json"))
    with pytest.raises(Transient, match="does not answer"):
        await place.server.definition("pay")
    await eventually(lambda: told.exists() and not alive(told.read_text()), 10)
    place.pins.accept("pay", f"{place.server.target}/pay", {"name": "pay", "inputSchema": {"type": "object", "properties": {}}})
    run = run_of(place.catalog(fills={}, description="Pays."))
    with pytest.raises(ToolError) as said:
        await invoke(run, {}, context(), timeout=0.3)
    assert (said.value.reason, said.value.not_executed) == ("not_reached", True)
    await place.server.close()
    await eventually(lambda: not alive(told.read_text()), 10)


async def test_secrets_reach_the_server_and_no_version(tmp_path: Path) -> None:
    """P1"""
    told = tmp_path / "told"
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['ISSUES_TOKEN'] + os.environ.get('SECRET_OF_OURS', ''))"
    servers = [
        McpServer.stdio((sys.executable, "-c", code, str(told)), secrets=lambda value=value: {"ISSUES_TOKEN": value})
        for value in ("one" * 3, "two" * 3)
    ]
    os.environ["SECRET_OF_OURS"] = "ours"
    try:
        with pytest.raises(Transient):
            await servers[0].definition("x")
    finally:
        del os.environ["SECRET_OF_OURS"]
        await servers[0].close()
    assert told.read_text() == "oneoneone"
    assert servers[0].target == servers[1].target


async def test_a_killed_worker_takes_its_server_with_it(tmp_path: Path) -> None:
    """E7"""
    server = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(1000)"
    code = (
        "import asyncio, sys\nfrom fourgates.tools.mcp_server import McpServer\n"
        f"server = McpServer.stdio((sys.executable, '-c', {server!r}, sys.argv[1]))\nasyncio.run(server.definition('x'))"
    )
    told = tmp_path / "pid"
    env = {**os.environ, "PYTHONPATH": str(TESTS.parent / "services")}
    worker = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(told), env=env)
    pid = await eventually(lambda: told.exists() and told.read_text(), 20)
    worker.kill()
    await worker.wait()
    await eventually(lambda: not alive(pid), 5)


async def test_pins_are_read_strictly(tmp_path: Path) -> None:
    """B6"""
    pins = Pins(tmp_path / "mcp.lock.json")
    definition = {"name": "pay", "inputSchema": {"type": "object"}}
    pins.accept("pay", "stdio:x/pay", definition)
    assert pins.definition("pay", "stdio:x/pay") == definition
    assert pins.definition("pay", "stdio:other/pay") is None
    text = pins.path.read_text()
    pins.path.write_text(text.replace('"object"', '"array"'))
    with pytest.raises(ConfigurationError, match="does not fit its digest"):
        pins.definition("pay", "stdio:x/pay")
    for broken in ("[]", "{", '{"pay": {}}'):
        pins.path.write_text(broken)
        with pytest.raises(ConfigurationError, match="no file of accepted"):
            pins.definition("pay", "stdio:x/pay")
    assert definition_digest(definition) != definition_digest({**definition, "description": "x"})


async def test_a_schema_that_cannot_be_closed_is_not_accepted(place: Place, tmp_path: Path) -> None:
    """C2"""
    pins = Pins(tmp_path / "mcp.lock.json")
    catalog = Place(place.server, place.notes, pins).catalog()
    key = {"type": "string"}
    offer = catalog.offers["pay"]
    open_ = {"name": "pay", "inputSchema": {"type": "object", "properties": {"x": {}, "idempotency_key": key}}}
    with pytest.raises(ConfigurationError, match="/properties/x"):
        offer.accept(open_)
    assert not pins.path.exists()
    properties = {"x": {"type": "string"}, "idempotency_key": key}
    old = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties}
    offer.accept({"name": "pay", "inputSchema": old})
    strange = {**old, "dependencies": {"x": ["x"]}}
    with pytest.raises(ConfigurationError, match="2020-12"):
        offer.accept({"name": "pay", "inputSchema": strange})
