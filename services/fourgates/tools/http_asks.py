"""Questions over HTTP that change nothing: the facts of a call, and whether a call happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fourgates.catalog import Probed, ProbeVerdict, Tool, ToolContext, ToolError, ToolErrorKind
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Principal
from fourgates.tools.http import HttpTool, read_body
from fourgates.tools.sources import as_json, complaints_about


class HttpFacts:
    """`facts` of a tool: what a read-only request answers, as a JSON object. `@principal/...` is there, no other context."""

    def __init__(self, ask: HttpTool) -> None:
        if ask.request.method != "GET":
            raise ConfigurationError(f"facts are read-only: ask for them by GET, not {ask.request.method}")
        self._ask = ask

    @property
    def target(self) -> str:
        return self._ask.target

    def complaints(self, tool: Tool) -> Iterator[str]:
        yield from complaints_about(self._ask.request.sources(), tool)

    async def __call__(self, args: Any, principal: Principal) -> Mapping[str, Any]:
        """As `facts(args, principal)`."""
        found = (await self._ask(args, ToolContext("", -1, 0, principal))).content
        if not isinstance(found, Mapping):
            raise ToolError("facts_unreadable", "The facts are not readable.", ToolErrorKind.TRANSIENT)
        return found

    async def close(self) -> None:
        await self._ask.close()


class HttpProbe:
    """`probe` of a tool: asks by another request whether the call with this key happened.

    `committed`, `never` are statuses; `never` may only be one by which the other side says that it refuses the key from now on.
    Everything else, a 404 too, is unknown.
    """

    def __init__(self, ask: HttpTool, *, committed: tuple[int, ...] = (200,), never: tuple[int, ...] = ()) -> None:
        if not ask.request.sends("@key"):
            raise ConfigurationError("a probe asks for one key: its request must use @key")
        self._ask, self._committed, self._never = ask, committed, never

    @property
    def target(self) -> str:
        return f"{self._ask.target}/{self._committed}/{self._never}"

    def complaints(self, tool: Tool) -> Iterator[str]:
        yield from complaints_about(self._ask.request.sources(), tool)

    async def __call__(self, args: Any, ctx: ToolContext) -> Probed:
        """As `probe(args, ctx)`."""
        status, headers, raw = await self._ask.exchange(as_json(args), ctx)
        if status in self._committed:
            return Probed(ProbeVerdict.COMMITTED, self._ask.told(read_body(headers, raw)))
        return Probed(ProbeVerdict.NEVER if status in self._never else ProbeVerdict.UNKNOWN)

    async def close(self) -> None:
        await self._ask.close()
