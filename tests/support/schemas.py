"""Generated argument schemas, put together in every way that JSON Schema has, and values that nearly fit them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "c")
_names = st.sampled_from(NAMES)
_leaves = st.sampled_from(
    [{"type": "string"}, {"type": "integer"}, {"type": ["boolean", "null"]}, {"enum": ["s", 1, {"b": 1}]}, {"const": "s"},
     {"type": "number", "minimum": 1}]
)  # fmt: skip
_references = st.sampled_from([{"$ref": "#/$defs/Tree"}, {"$ref": "#/$defs/Base"}, {"$ref": "#/$defs/Made"}])
_kinds = st.sampled_from([{"const": "s"}, {"const": 1}, {"enum": ["s", 2]}])

TREE = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/Tree"}}}
BASE = {"type": "object", "properties": {"a": {"type": "object", "properties": {"a": {"type": "string"}}}}}


def _fields(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An object's own words, with its type."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(_names, inner, max_size=3)},
        optional={
            "required": st.lists(_names, max_size=1),
            "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
        },
    )


def _part(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One of several that judge the same value: often without a type."""
    untyped = st.fixed_dictionaries(
        {"properties": st.dictionaries(_names, inner | st.just({}), min_size=1, max_size=2)},
        optional={"required": st.lists(_names, max_size=2, unique=True)},
    )
    told = st.tuples(_kinds, inner).map(
        lambda pair: {"type": "object", "required": ["c"], "properties": {"c": pair[0], "a": pair[1]}}
    )
    return untyped | told | inner | _references | st.sampled_from([{}, {"required": ["b"]}])


def _group(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    parts, one = st.lists(_part(inner), min_size=1, max_size=3), _part(inner)
    return (
        st.fixed_dictionaries({"allOf": parts})
        | st.fixed_dictionaries({"anyOf": parts})
        | st.fixed_dictionaries({"oneOf": parts})
        | st.fixed_dictionaries({"not": one})
        | st.fixed_dictionaries({"if": one}, optional={"then": one, "else": one})
        | st.fixed_dictionaries({"dependentSchemas": st.dictionaries(_names, one, min_size=1, max_size=2)})
    )


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    first = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"contains": _part(inner)}) | (
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": first}, optional={"items": inner})
    )


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    grouped = st.tuples(_fields(inner), _group(inner)).map(lambda pair: {**pair[0], **pair[1]})
    rest = st.tuples(_fields(inner), inner).map(lambda pair: {**pair[0], "additionalProperties": pair[1]})
    alternatives = st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts})
    return _fields(inner) | grouped | grouped | _arrays(inner) | rest | alternatives | _references


positions = st.recursive(_leaves | _references, _grown, max_leaves=7)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """The schema of some arguments."""
    top = draw(st.tuples(_fields(positions), st.just({}) | _group(positions)).map(lambda pair: {**pair[0], **pair[1]}))
    made = draw(_fields(positions))
    return {**top, "$defs": {"Tree": TREE, "Base": BASE, "Made": made}}


@st.composite
def values(draw: st.DrawFn, schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that take each member from one of its descriptions, and now and then one that nobody describes."""
    made = _value(draw, schema, schema, 5)
    return made if isinstance(made, dict) else {}


def _value(draw: st.DrawFn, schema: Any, root: dict[str, Any], depth: int) -> Any:
    parts = list(_parts(schema, root, 6))
    listed = [value for part in parts for value in part.get("enum", [part["const"]] if "const" in part else [])]
    if listed and draw(st.integers(0, 5)):
        return draw(st.sampled_from(listed))
    arrays = [part for part in parts if part.get("type") == "array"]
    if arrays and depth and draw(st.integers(0, 4)):
        items = [item for part in arrays for item in (*part.get("prefixItems", ()), part.get("items"), part.get("contains"))
                 if item is not None]  # fmt: skip
        return [_value(draw, draw(st.sampled_from(items)), root, depth - 1) for _ in range(draw(st.integers(0, 2)))]
    members: dict[str, list[Any]] = {}
    for part in parts:
        for name, inner in part.get("properties", {}).items():
            members.setdefault(name, []).append(inner)
        for inner in part.get("patternProperties", {}).values():
            members.setdefault("x1", []).append(inner)
        if "additionalProperties" in part:
            members.setdefault("d", []).append(part["additionalProperties"])
    if (members or any(part.get("type") == "object" for part in parts)) and depth and draw(st.integers(0, 6)):
        made = {
            name: _value(draw, draw(st.sampled_from(inner)), root, depth - 1)
            for name, inner in members.items() if draw(st.integers(0, 3))
        }  # fmt: skip
        if not draw(st.integers(0, 9)):
            made[draw(st.sampled_from(["d", "x1", *NAMES]))] = draw(st.sampled_from([1, "s", {}, {"a": 1}]))
        return made
    types = [part.get("type") for part in parts]
    if "string" in types and draw(st.booleans()):
        return "s"
    return draw(st.sampled_from(["s", 1, None, True, 2.5, {}, []])) if not draw(st.integers(0, 4)) else 1


def _parts(schema: Any, root: dict[str, Any], depth: int) -> Any:
    """The schema and everything in it that judges the same value."""
    if not isinstance(schema, dict) or not depth:
        return
    yield schema
    if "$ref" in schema:
        yield from _parts(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, depth - 1)
    inner = [part for word in ("allOf", "anyOf", "oneOf") for part in schema.get(word, ())]
    inner += [schema[word] for word in ("if", "then", "else") if word in schema]
    for part in (*inner, *schema.get("dependentSchemas", {}).values()):
        yield from _parts(part, root, depth - 1)
