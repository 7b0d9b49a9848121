"""Where a value of a request or a command comes from: an argument, what the runtime hands over, or a constant.

`/order_id` is a JSON Pointer into the arguments, the empty string all of them. `@key`, `@fence`, `@deadline_ms`, `@attempt`,
`@principal/subject` and `@precondition/etag` come from the context, which no model writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from fourgates.catalog import Tool, ToolContext
from fourgates.contract.canonical import canonical
from fourgates.contract.errors import ConfigurationError

CONTEXT: Final = ("key", "fence", "deadline_ms", "attempt", "principal", "precondition")
_PRINCIPAL: Final = ("issuer", "subject", "tenant", "person", "agent")
_HOLE: Final = re.compile(r"\{([/@][^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the contract gives."""

    value: Any


Source: TypeAlias = str | Constant
MISSING: Final = Constant("nothing is there")
"""What a lookup gives where there is no such value."""


def as_json(args: Any) -> dict[str, Any]:
    """The landed arguments as plain JSON."""
    if isinstance(args, BaseModel):
        return args.model_dump(mode="json", by_alias=True)
    return dict(args)


def look(source: Source, args: Mapping[str, Any], ctx: ToolContext | None) -> Any:
    """The value, or MISSING."""
    if isinstance(source, Constant):
        return source.value
    if not source.startswith("@"):
        return point(source, args)
    name, _, rest = source[1:].partition("/")
    if ctx is None:
        return MISSING
    if name == "principal":
        return getattr(ctx.principal, rest)
    if name == "precondition":
        return point(f"/{rest}", ctx.precondition)
    return getattr(ctx, name)


def point(pointer: str, value: Any) -> Any:
    """What the JSON Pointer (RFC 6901) names in `value`, or MISSING."""
    for token in pointer.split("/")[1:]:
        token = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isascii() and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return MISSING
    return value


def text_of(value: Any) -> str:
    """A plain value as text: a string as it is, other scalars in canonical JSON. Raises TypeError for lists and objects."""
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool | int | float):
        return canonical(value).decode()
    raise TypeError(type(value).__name__)


@dataclass(frozen=True, slots=True)
class Template:
    """Text with holes such as `{/order_id}`."""

    texts: tuple[str, ...]
    """One more than there are holes."""
    holes: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Raises ConfigurationError for a brace that opens no hole."""
        parts = _HOLE.split(text)
        found = cls(tuple(parts[::2]), tuple(parts[1::2]))
        if any(brace in piece for piece in found.texts for brace in "{}"):
            raise ConfigurationError(f"template {text!r} has a brace that names no value; write {{/argument}} or {{@key}}")
        for hole in found.holes:
            check_source(hole)
        return found


def check_source(source: Source) -> None:
    """Raises ConfigurationError for a source that could never be found."""
    if isinstance(source, Constant) or source == "" or source.startswith("/"):
        return
    name, _, rest = source.removeprefix("@").partition("/")
    fits = {"principal": rest in _PRINCIPAL, "precondition": bool(rest)}.get(name, name in CONTEXT and not rest)
    if not source.startswith("@") or not fits:
        known = ", ".join(f"@{word}" for word in CONTEXT[:4])
        raise ConfigurationError(
            f"source {source!r} names nothing; write a JSON Pointer such as /order_id, or {known}, @principal/subject "
            "(or another of its fields), @precondition/NAME"
        )


def complaints_about(sources: Iterator[Source], tool: Tool) -> Iterator[str]:
    """Arguments that the contract does not have: the value would be missing in every call."""
    properties = tool.schema.get("properties", {})
    for source in sources:
        if isinstance(source, str) and source.startswith("/") and source.split("/")[1] not in properties:
            yield f"its target uses {source}, which is no argument: it would be missing in every call"
