"""Where a JSON Schema 2020-12 keeps its subschemas, and which of its words decide nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

ONE = frozenset({
    "items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames",
    "not", "if", "then", "else",
})  # fmt: skip
"""Keywords whose value is a schema."""
MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is a mapping from names to schemas."""
ANNOTATIONS = frozenset({"title", "description", "examples", "$comment", "deprecated", "readOnly", "writeOnly"})
"""Words for readers; `default` is none of them, because normalisation fills it in."""
DECIDING = ONE | MANY | NAMED | frozenset({
    "$schema", "$id", "$ref", "$anchor", "$dynamicRef", "$dynamicAnchor", "$vocabulary", "type", "enum", "const", "required",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties", "dependentRequired",
    "default",
})  # fmt: skip
"""Words that say what is accepted, or what is filled in."""
KNOWN = DECIDING | ANNOTATIONS | frozenset({"contentEncoding", "contentMediaType", "contentSchema"})

Part = tuple[str, Any]
"""(JSON Pointer below the schema, subschema)."""


def step(pointer: str, *tokens: object) -> str:
    """A JSON Pointer, some tokens longer (RFC 6901)."""
    return pointer + "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)


def tokens_of(pointer: str) -> tuple[str, ...]:
    """The tokens of a JSON Pointer (RFC 6901)."""
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:])


def parts_of(key: str, value: Any) -> list[Part]:
    """The subschemas directly under one keyword."""
    if key in ONE:
        return [(step("", key), value)]
    if key in MANY and isinstance(value, list):
        return [(step("", key, at), part) for at, part in enumerate(value)]
    if key in NAMED and isinstance(value, Mapping):
        return [(step("", key, name), part) for name, part in value.items()]
    return []


def subschemas(schema: Any, pointer: str = "") -> Iterator[Part]:
    """The schema itself and everything below it, with pointers from its root; references are not followed."""
    yield pointer, schema
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            for below, part in parts_of(key, value):
                yield from subschemas(part, pointer + below)


def rebuild(key: str, value: Any, change: Callable[[str, Any], Any]) -> Any:
    """A keyword's value with `change(pointer, subschema)` put in place of each subschema directly under it."""
    if key in ONE:
        return change(step("", key), value)
    if key in MANY and isinstance(value, list):
        return [change(step("", key, at), part) for at, part in enumerate(value)]
    if key in NAMED and isinstance(value, Mapping):
        return {name: change(step("", key, name), part) for name, part in value.items()}
    return value


def deciding(schema: Any) -> Any:
    """The schema without annotations and unknown words: what is left is what accepts, refuses or fills in (C2)."""
    if not isinstance(schema, Mapping):
        return schema
    return {key: rebuild(key, value, lambda _, part: deciding(part)) for key, value in schema.items() if key in DECIDING}


def resolve(root: Mapping[str, Any], schema: Any) -> Any:
    """Follows `$ref` while a schema is nothing but a reference into `$defs` (with annotations); else the schema itself."""
    seen: set[str] = set()
    while isinstance(schema, Mapping) and "$ref" in schema and schema["$ref"] not in seen:
        ref = schema["$ref"]
        seen.add(ref)
        _, _, name = str(ref).partition("#/$defs/")
        if not name or set(schema) & DECIDING - {"$ref", "default"}:
            return schema
        schema = root.get("$defs", {}).get(name.replace("~1", "/").replace("~0", "~"), schema)
    return schema
