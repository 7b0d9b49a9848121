"""The catalog: tools by name, and the decorator that registers them."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk

from .acceptance import Offer
from .registration import refuse_contradictions
from .schema import close_schema, compile_schema, open_place
from .tool import Tool

Function = typing.TypeVar("Function", bound=Callable[..., Any])


class Catalog:
    """A named set of tools. A name belongs to one tool; registering it twice is refused."""

    def __init__(self, name: str, policies: str = "") -> None:
        self.name = name
        self.policies = policies
        """Cedar text that ships with the catalog; an operator's own policies replace it."""
        self._tools: dict[str, Tool] = {}
        self._earlier: dict[tuple[str, str], Tool] = {}
        self.offers: dict[str, Offer] = {}
        """Tools whose definition is somebody else's, accepted or not; see `fourgates catalog accept`."""

    def tool(
        self,
        *,
        risk: Risk | str,
        timeout: float,
        name: str | None = None,
        description: str | None = None,
        facts_timeout: float = 2.0,
        origins: Mapping[str, set[str] | frozenset[str]] | None = None,
        **contract: Any,
    ) -> Callable[[Function], Function]:
        """Registers `run(args: Model, ctx: ToolContext)`. Seconds for times; the rest as the fields of `Tool`.

        Raises ConfigurationError, saying what would go wrong, where the contract contradicts itself.
        """

        def register(function: Function) -> Function:
            own_name = name or function.__name__
            self.register(
                function, name=own_name, description=description or inspect.getdoc(function) or "",
                arguments=_argument_model(function, own_name), risk=risk, timeout=timeout, facts_timeout=facts_timeout,
                origins=origins, **contract,
            )  # fmt: skip
            return function

        return register

    def register(
        self,
        run: Callable[..., Any],
        *,
        name: str,
        description: str,
        arguments: type[BaseModel] | Mapping[str, Any],
        risk: Risk | str,
        timeout: float,
        facts_timeout: float = 2.0,
        origins: Mapping[str, set[str] | frozenset[str]] | None = None,
        **contract: Any,
    ) -> None:
        """Registers `run(args, ctx)`, such as an HttpTool or a CommandTool, under the same contract as a function.

        `arguments` is a strict pydantic model, or a JSON Schema where there is none (`args` is then a dict). Raises
        ConfigurationError as `tool` does.
        """
        if odd := sorted(contract.keys() - _CONTRACT_FIELDS):
            allowed_words = ", ".join(sorted(_CONTRACT_FIELDS))
            raise ConfigurationError(f"tool {name!r}: a contract has no {', '.join(odd)}; it may have {allowed_words}")
        model = None if isinstance(arguments, Mapping) else arguments
        self.add(Tool(
            name=name, description=description.strip(), risk=_risk(name, risk),
            schema=arguments if isinstance(arguments, Mapping) else arguments.model_json_schema(), model=model, run=run,
            timeout=timedelta(seconds=timeout), facts_timeout=timedelta(seconds=facts_timeout),
            origins={argument: frozenset(allowed) for argument, allowed in (origins or {}).items()}, **contract,
        ))  # fmt: skip

    def add(self, tool: Tool) -> None:
        """Registers a tool that was built otherwise (HTTP, MCP, command). Same refusals."""
        if tool.name in self._tools:
            raise ConfigurationError(f"tool {tool.name!r} is registered twice in catalog {self.name!r}; give one another name")
        try:
            closed = close_schema(tool.schema)
            compile_schema(closed)
            _same_in_the_model(tool)
        except ConfigurationError as fault:
            raise ConfigurationError(f"tool {tool.name!r}: {fault}") from fault
        tool = dataclasses.replace(tool, schema=closed)
        refuse_contradictions(tool)
        self._tools[tool.name] = tool

    def keep(self, earlier: Iterable[Tool]) -> None:
        """Goes on serving the versions of an earlier catalog beside those of this one, for calls that were judged by them.

        New calls get this catalog's version. A tool that is not in it is withdrawn and not kept: what waits for it ends as
        `tool_changed`. Policies read a call's arguments as this catalog declares them.
        """
        for tool in earlier:
            current = self._tools.get(tool.name)
            if current is not None and current.version != tool.version:
                self._earlier[tool.name, tool.version] = tool

    def get(self, name: str, version: str = "") -> Tool | None:
        """The tool as new calls get it; with `version`, as that version's calls do, where it is kept."""
        return self._earlier.get((name, version)) or self._tools.get(name)

    def served(self) -> Iterator[Tool]:
        """Every version that calls may run by, the earlier ones included."""
        yield from self._tools.values()
        yield from self._earlier.values()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


_CONTRACT_FIELDS = frozenset(field.name for field in dataclasses.fields(Tool)) - {
    "name", "description", "risk", "schema", "model", "run", "timeout", "facts_timeout", "origins",
}  # fmt: skip


def _risk(name: str, risk: Risk | str) -> Risk:
    try:
        return Risk(risk)
    except ValueError:
        words = ", ".join(Risk)
        raise ConfigurationError(
            f"tool {name!r}: risk {risk!r} is unknown, so nobody would know what to guard; there are {words}"
        ) from None


def _argument_model(function: Callable[..., Any], name: str) -> type[BaseModel]:
    hints = typing.get_type_hints(function)
    first = next(iter(inspect.signature(function).parameters), None)
    model = hints.get(first) if first else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigurationError(f"tool {name!r}: its first parameter must be annotated with a pydantic model of its arguments")
    return model


def _same_in_the_model(tool: Tool) -> None:
    """A typed model must be as closed and as strict as the schema, else the two independent checks would be one (C7)."""
    model = tool.model
    if model is None:
        return
    if model.model_config.get("extra") != "forbid" or not model.model_config.get("strict"):
        raise ConfigurationError(f"{model.__name__}: set model_config = ConfigDict(strict=True, extra='forbid')")
    if (place := open_place(tool.schema)) is not None:
        raise ConfigurationError(
            f"{model.__name__}: the part at {place} takes unknown fields; set extra='forbid' there too, or name what it holds"
        )
