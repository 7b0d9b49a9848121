"""The catalog: tools by name, and the decorator that registers them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk

from .tool import Tool

Function = typing.TypeVar("Function", bound=Callable[..., Any])


class Catalog:
    """A named set of tools. A name belongs to one tool; registering it twice is refused."""

    def __init__(self, name: str, policies: str = "") -> None:
        self.name = name
        self.policies = policies
        """Cedar text that ships with the catalog; an operator's own policies replace it."""
        self._tools: dict[str, Tool] = {}

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
            model = _argument_model(function)
            self.add(
                Tool(
                    name=name or function.__name__,
                    description=(description or inspect.getdoc(function) or "").strip(),
                    risk=Risk(risk),
                    schema=closed_schema_of(model),
                    model=model,
                    run=function,
                    timeout=timedelta(seconds=timeout),
                    facts_timeout=timedelta(seconds=facts_timeout),
                    origins={k: frozenset(v) for k, v in (origins or {}).items()},
                    **contract,
                )
            )
            return function

        return register

    def add(self, tool: Tool) -> None:
        """Registers a tool that was built otherwise (HTTP, MCP, command). Same refusals."""
        if tool.name in self._tools:
            raise ConfigurationError(f"tool {tool.name!r} is registered twice in catalog {self.name!r}; give one another name")
        self._tools[tool.name] = tool

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _argument_model(function: Callable[..., Any]) -> type[BaseModel]:
    hints = typing.get_type_hints(function)
    first = next(iter(inspect.signature(function).parameters), None)
    model = hints.get(first) if first else None
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise ConfigurationError(
            f"tool {function.__name__!r}: its first parameter must be annotated with a pydantic model of its arguments"
        )
    return model


def closed_schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON Schema in validation mode. A model must forbid extra fields, else the two checks would differ."""
    if model.model_config.get("extra") != "forbid" or not model.model_config.get("strict"):
        raise ConfigurationError(f"{model.__name__}: set model_config = ConfigDict(strict=True, extra='forbid')")
    return model.model_json_schema()
