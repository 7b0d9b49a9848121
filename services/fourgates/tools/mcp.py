"""Tools of MCP servers: the server's definition as an operator accepted it, the risk from our contract alone."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types
import structlog
from mcp import MCPError

from fourgates.catalog import Catalog, Tool, ToolContext, ToolError, ToolErrorKind
from fourgates.catalog.acceptance import Definition
from fourgates.catalog.closing import close_schema
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.parts import Risk
from fourgates.tools.answers import Declared, away, done, silent
from fourgates.tools.mcp_pins import Pins, definition_digest
from fourgates.tools.mcp_server import McpServer
from fourgates.tools.second_check import SecondCheck
from fourgates.tools.sources import MISSING, Source, as_json, check_source, look

KEY_META: Final = "fourgates.dev/key"
FENCE_META: Final = "fourgates.dev/fence"
RECENT_SECONDS: Final = 5.0
"""How long a read believes what the server said of its tools; a write asks again each time."""
_OLD_DIALECTS: Final = ("http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-07/schema")
_OLD_WORDS: Final = frozenset({"additionalItems", "dependencies"})
_log = structlog.get_logger("fourgates.tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """A declared error, known by words that stand in what the server says (it has no codes of its own)."""

    contains: str
    means: Declared


class McpTools:
    """The tools of one server; `register` puts one into a catalog under our contract."""

    def __init__(self, server: McpServer, pins: Pins) -> None:
        self.server, self._pins = server, pins

    def register(
        self,
        catalog: Catalog,
        tool: str,
        *,
        timeout: float,
        risk: Risk | str = Risk.DESTRUCTIVE,
        fills: Mapping[str, Source] | None = None,
        errors: tuple[Says, ...] = (),
        **contract: Any,
    ) -> None:
        """Registers the server's `tool`, as it was accepted; until then it is only on offer, and unknown to every gate.

        `fills` are arguments that the runtime gives and no model sees (`{"idempotencyKey": "@key"}`). `name` and `description`
        of the contract go before the server's; the server's hints about its risk count for nothing. Raises ConfigurationError.
        """
        name = contract.pop("name", tool)
        if name in catalog.offers:
            raise ConfigurationError(f"tool {name!r} is registered twice in catalog {catalog.name!r}; give one another name")
        for source in (fills or {}).values():
            check_source(source)
        run = McpTool(self.server, tool, name, self._pins, fills or {}, errors)
        catalog.offers[name] = run
        definition = run.accepted()
        if definition is None:
            return  # `fourgates catalog check` tells
        contract.setdefault("description", definition.get("description") or definition.get("title") or "")
        arguments = _arguments(definition, run.fills)
        catalog.register(run, name=name, arguments=arguments, risk=risk, timeout=timeout, **contract)


class McpTool:
    """`run` of such a tool. Made by `McpTools.register`."""

    def __init__(
        self, server: McpServer, remote: str, name: str, pins: Pins, fills: Mapping[str, Source], errors: tuple[Says, ...]
    ) -> None:  # fmt: skip
        self._server, self._remote, self._name, self._pins = server, remote, name, pins
        self.fills, self._errors = dict(fills), errors
        found = pins.definition(name, f"{server.target}/{remote}")
        self._accepted = found
        self._digest = "" if found is None else definition_digest(found)
        self._second_check = SecondCheck({} if found is None else close_schema(_arguments(found, self.fills)))

    @property
    def target(self) -> str:
        """The server, the tool, its definition, what the runtime adds, and how errors are read."""
        errors = [[said.contains, said.means.words()] for said in self._errors]
        return f"mcp:{self._server.target}/{self._remote}#{self._digest}{sorted(map(str, self.fills.items()))}{errors}"

    def complaints(self, tool: Tool) -> Iterator[str]:
        """What its contract promises and this call does not keep."""
        if odd := [said for said in self._errors if not said.contains]:
            yield f"{len(odd)} of its errors is known by no words: everything that the server says would be taken for it"

    def accepted(self) -> Definition | None:
        return self._accepted

    async def offered(self) -> Definition:
        found = await self._server.definition(self._remote)
        if found is None:
            raise ConfigurationError(f"the MCP server has no tool {self._remote!r}")
        return found

    def accept(self, definition: Definition) -> None:
        trial = Catalog("trial")
        says = definition.get("description") or definition.get("title") or "nothing"
        trial.register(
            self,
            name=self._name,
            description=says,
            arguments=_arguments(definition, self.fills),
            risk=Risk.DESTRUCTIVE,
            timeout=1,
        )
        self._pins.accept(self._name, f"{self._server.target}/{self._remote}", definition)

    async def start(self) -> None:
        """Looks at once whether it is still what was accepted; a server that is away is asked again at the first call."""
        try:
            offered = await self._server.definition(self._remote)
        except Transient as fault:
            _log.warning("an MCP server is away", tool=self._name, fault=str(fault))
            return
        if offered is None or definition_digest(offered) != self._digest:
            _log.warning("a tool is not what was accepted, and refused", tool=self._name)

    async def close(self) -> None:
        await self._server.close()

    async def __call__(self, args: Any, ctx: ToolContext) -> Any:
        """As `run(args, ctx)`."""
        given = as_json(args)
        self._second_check(given)
        for name, source in self.fills.items():
            if (value := look(source, given, ctx)) is not MISSING:
                given[name] = value
        await self._still_accepted(0.0 if ctx.fence >= 0 else RECENT_SECONDS)
        try:
            answer = await self._server.call(self._remote, given, {KEY_META: ctx.key, FENCE_META: ctx.fence})
        except Transient as fault:
            raise away("not_reached") from fault
        except MCPError as fault:
            raise self._told(fault) from fault
        except RuntimeError as fault:  # the SDK's words for an answer that does not fit what the server declared
            raise silent("answer_unreadable") from fault
        if answer.is_error:
            raise self._declared("\n".join(block.text for block in answer.content if isinstance(block, mcp_types.TextContent)))
        return done(_content(answer))

    async def _still_accepted(self, recent: float) -> None:
        """Raises ToolError, with nothing sent, where the server offers something else than what was accepted."""
        try:
            offered = await self._server.definition(self._remote, recent)
        except (Transient, asyncio.CancelledError) as fault:  # stopped here, it is known that nothing happened
            raise away("not_reached") from fault
        if offered is None or definition_digest(offered) != self._digest:
            _log.warning("a tool is not what was accepted, and refused", tool=self._name)
            raise ToolError(
                "definition_changed", "The tool was changed and waits to be accepted.", ToolErrorKind.DISABLED, not_executed=True
            )

    def _told(self, fault: MCPError) -> ToolError:
        if fault.code in (mcp_types.CONNECTION_CLOSED, mcp_types.REQUEST_TIMEOUT):
            return silent("answer_lost")
        return self._declared(fault.message, f"mcp_{abs(fault.code)}")

    def _declared(self, said: str, otherwise: str = "mcp_error") -> ToolError:
        for known in self._errors:
            if known.contains.lower() in said.lower():
                return known.means.error()
        return ToolError(otherwise, "The tool failed.")


def _arguments(definition: Definition, fills: Mapping[str, Source]) -> dict[str, Any]:
    """The server's schema without what the runtime fills in. Raises ConfigurationError for a fill that it does not have."""
    schema: dict[str, Any] = copy.deepcopy(dict(definition["inputSchema"]))
    if schema.get("$schema") in _OLD_DIALECTS and not _OLD_WORDS & _words(schema):
        del schema["$schema"]  # what is left of draft 7 means the same in 2020-12
    schema.pop("title", None)
    for name in fills:
        if name not in schema.get("properties", {}):
            raise ConfigurationError(f"fills: the server's tool has no argument {name!r}")
        del schema["properties"][name]
        schema["required"] = [other for other in schema.get("required", []) if other != name]
    schema.setdefault("properties", {})
    return schema


def _words(schema: Any) -> set[str]:
    if isinstance(schema, Mapping):
        lists = {"additionalItems"} if isinstance(schema.get("items"), list) else set()
        return set(schema) | lists | {word for part in schema.values() for word in _words(part)}
    return {word for part in schema for word in _words(part)} if isinstance(schema, list) else set()


def _content(answer: mcp_types.CallToolResult) -> Any:
    """Structured content where there is some, else the text, else what kinds of blocks came; never their bytes."""
    if answer.structured_content is not None:
        return answer.structured_content
    told = [block.text if isinstance(block, mcp_types.TextContent) else {"type": block.type} for block in answer.content]
    if all(isinstance(block, str) for block in told):
        return "\n".join(str(block) for block in told)
    return told
