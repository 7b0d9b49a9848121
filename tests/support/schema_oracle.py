"""What "closed" means, said a second time: judges a value by a schema and collects which of its members some part knows.

Written from JSON Schema 2020-12's own account of annotations, with no code of ours: a member is known where a subschema that the
value passes is applied to it by name, pattern, rest, index or `contains`; what `enum` and `const` list is known whole.
"""

from __future__ import annotations

import re
from typing import Any

Known = frozenset[tuple[Any, ...]]
_TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int, "number": (int, float),
}  # fmt: skip


def accepts(schema: Any, value: Any) -> bool:
    """Whether the schema, as its author wrote it, accepts the value."""
    return _judge(schema, value, schema, ()) is not None


def unknown_members(schema: Any, value: Any) -> list[tuple[Any, ...]]:
    """Paths of the members that no part knows, in a value that the schema accepts."""
    known = _judge(schema, value, schema, ())
    assert known is not None
    return [path for path in _members(value, ()) if path not in known]


def _members(value: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, item in inner for each in ((*path, key), *_members(item, (*path, key)))]


def _judge(schema: Any, value: Any, root: Any, path: tuple[Any, ...]) -> Known | None:
    """The known members at and below `path`; None where the value does not pass."""
    if isinstance(schema, bool):
        return frozenset() if schema else None
    known: set[tuple[Any, ...]] = set()

    def part(inner: Any) -> Known | None:
        return _judge(inner, value, root, path)

    def member(key: Any, inner: Any) -> bool:
        found = _judge(inner, value[key], root, (*path, key))
        if found is not None:
            known.update(found, {(*path, key)})
        return found is not None

    if "$ref" in schema:
        target = root if schema["$ref"] == "#" else root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        if (found := part(target)) is None:
            return None
        known |= found
    if not _plain(schema, value):
        return None
    if any(word in schema for word in ("enum", "const")):
        known.update(_members(value, path))
    for inner in schema.get("allOf", ()):
        if (found := part(inner)) is None:
            return None
        known |= found
    for word, fitting in (("anyOf", lambda count: count >= 1), ("oneOf", lambda count: count == 1)):
        if word in schema:
            passed = [found for inner in schema[word] if (found := part(inner)) is not None]
            if not fitting(len(passed)):
                return None
            known.update(*passed)
    if "not" in schema and part(schema["not"]) is not None:
        return None
    if "if" in schema:
        condition = part(schema["if"])
        known |= condition or set()
        branch = part(schema.get("else" if condition is None else "then", True))
        if branch is None:
            return None
        known |= branch
    if isinstance(value, dict):
        for name, inner in schema.get("dependentSchemas", {}).items():
            if name in value:
                if (found := part(inner)) is None:
                    return None
                known |= found
        for name, inner in schema.get("properties", {}).items():
            if name in value and not member(name, inner):
                return None
        for pattern, inner in schema.get("patternProperties", {}).items():
            if not all(member(name, inner) for name in value if re.search(pattern, name)):
                return None
        if "additionalProperties" in schema:
            rest = [name for name in value if name not in schema.get("properties", {})
                    and not any(re.search(pattern, name) for pattern in schema.get("patternProperties", {}))]  # fmt: skip
            if not all(member(name, schema["additionalProperties"]) for name in rest):
                return None
        if "unevaluatedProperties" in schema:
            rest = [name for name in value if (*path, name) not in known]
            if not all(member(name, schema["unevaluatedProperties"]) for name in rest):
                return None
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        if not all(member(at, inner) for at, inner in enumerate(first) if at < len(value)):
            return None
        if "items" in schema and not all(member(at, schema["items"]) for at in range(len(first), len(value))):
            return None
        if "contains" in schema and not [at for at in range(len(value)) if member(at, schema["contains"])]:
            return None
        if "unevaluatedItems" in schema:
            rest_items = [at for at in range(len(value)) if (*path, at) not in known]
            if not all(member(at, schema["unevaluatedItems"]) for at in rest_items):
                return None
    return frozenset(known)


def _plain(schema: dict[str, Any], value: Any) -> bool:
    """The keywords that hold no schemas."""
    if "type" in schema:
        said = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
        if not any(_is(value, name) for name in said):
            return False
    if "const" in schema and not _equal(schema["const"], value):
        return False
    if "enum" in schema and not any(_equal(each, value) for each in schema["enum"]):
        return False
    if "minimum" in schema and _is(value, "number") and value < schema["minimum"]:
        return False
    if isinstance(value, dict) and not all(name in value for name in schema.get("required", ())):
        return False
    return not (
        isinstance(value, dict | list) and len(value) > schema.get("maxProperties" if isinstance(value, dict) else "maxItems", 99)
    )


def _is(value: Any, name: str) -> bool:
    return isinstance(value, _TYPES[name]) and not (isinstance(value, bool) and name != "boolean")


def _equal(one: Any, other: Any) -> bool:
    """True and 1 are two values in JSON."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
