"""Closing argument schemas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog.schema import close_schema, compile_schema, open_place
from fourgates.contract.errors import ConfigurationError


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return bool(compile_schema(close_schema(schema)).is_valid(value))


def top(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


NUMBER = {"n": {"type": "integer"}}
WITH_THEN = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "if": {"required": ["id"]},
    "then": {"properties": NUMBER},
}
WITH_DEPENDENT = {
    "type": "object",
    "properties": {"id": {"type": "string"}},
    "dependentSchemas": {"id": {"properties": {"n": {"type": "object"}}}},
}
LOOP = {"A": {"anyOf": [{"$ref": "#/$defs/B"}, {"type": "string"}]}, "B": {"$ref": "#/$defs/A"}}
NODE = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
BASE = {"type": "object", "properties": {"id": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (top(a={"type": "integer"}), {"a": 1}, {"a": 1, "b": 2}),
        (top(a=top(b={"type": "integer"})), {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}),
        (top(a={"type": "array", "items": top(b={"type": "integer"})}), {"a": [{"b": 1}]}, {"a": [{}, {"c": 1}]}),
        (top(a={"type": "array", "prefixItems": [{"type": "integer"}]}), {"a": [1]}, {"a": [1, {"x": 1}]}),
        (top(a={"type": "object"}), {"a": {}}, {"a": {"x": 1}}),
        (top(a={"properties": {"b": {"type": "integer"}}}), {"a": {"b": 1}}, {"a": [{"x": 1}]}),
        (top(a={"anyOf": [BASE, {"type": "null"}]}), {"a": {"id": "1"}}, {"a": {"id": "1", "x": 1}}),
        (top(a={"anyOf": [BASE, top(n={"type": "integer"})]}), {"a": {"id": "1", "n": 1}}, {"a": {"id": "1", "x": 1}}),
        (top(a={"allOf": [BASE, top(n={"type": "integer"})]}), {"a": {"id": "1", "n": 1}}, {"a": {"id": "1", "n": 1, "x": 1}}),
        (top(a={"oneOf": [top(k={"const": 1}), {"type": "string"}]}), {"a": {"k": 1}}, {"a": {"k": 1, "x": 1}}),
        ({**top(a={"$ref": "#/$defs/Base"}), "$defs": {"Base": BASE}}, {"a": {"id": "1"}}, {"a": {"x": 1}}),
        ({**top(a={"$ref": "#/definitions/B"}), "definitions": {"B": BASE}}, {"a": {"id": "1"}}, {"a": {"x": 1}}),
        (
            {**top(a={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}},
            {"a": {"next": {"name": "x"}}}, {"a": {"next": {"next": {"x": 1}}}},
        ),
        (top(a={"type": "integer"}, self={"$ref": "#"}), {"self": {"self": {"a": 1}}}, {"self": {"self": {"x": 1}}}),
        ({**top(a=BASE), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": {"id": "1"}}, {"a": {"id": "1"}, "x": 1}),
        (top(a={**BASE, "patternProperties": {"^x_": {"type": "integer"}}}), {"a": {"x_1": 1}}, {"a": {"y": 1}}),
        (top(a={"type": "object", "additionalProperties": BASE}), {"a": {"any": {"id": "1"}}}, {"a": {"any": {"x": 1}}}),
        (top(a=WITH_THEN), {"a": {"id": "1", "n": 1}}, {"a": {"n": 1}}),
        (top(a=WITH_DEPENDENT), {"a": {"id": "1", "n": {}}}, {"a": {"id": "1", "n": {"x": 1}}}),
        (top(a={"enum": [{"x": 1}, "y"]}), {"a": {"x": 1}}, {"a": {"x": 2}}),
    ],
)  # fmt: skip
def test_unknown_fields_are_refused_where_the_schema_is_silent(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """C5"""
    assert compile_schema(schema).is_valid(good)
    assert compile_schema(schema).is_valid(bad) or "enum" in str(schema)
    assert accepts(schema, good)
    assert not accepts(schema, bad)


def test_a_definition_used_as_a_part_and_alone_is_closed_in_each_place() -> None:
    """C5: closed once for all, it would refuse its neighbours' fields; left open once for all, it would let unknown ones pass."""
    schema = {
        **top(alone={"$ref": "#/$defs/Base"}, part={"allOf": [{"$ref": "#/$defs/Base"}, top(n={"type": "integer"})]}),
        "$defs": {"Base": BASE, "Base.open": {"type": "integer"}, "Unused": {}},
    }
    assert accepts(schema, {"alone": {"id": "1"}, "part": {"id": "1", "n": 2}})
    assert not accepts(schema, {"alone": {"id": "1", "n": 2}})
    assert not accepts(schema, {"part": {"id": "1", "n": 2, "x": 3}})


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (top(a={}), "/properties/a takes any value"),
        (top(a={"description": "anything"}), "takes any value"),
        (top(a=True), "takes any value"),
        (top(a={"type": "array"}), "array of anything"),
        (top(a={"type": "array", "items": {}}), "/properties/a/items takes any value"),
        (top(a={"type": "object", "additionalProperties": True}), "/properties/a/additionalProperties takes any value"),
        ({"type": "object", "additionalProperties": True}, "/additionalProperties takes any value"),
        (top(a={"minimum": 1, "minLength": 1}), "does not say its type"),
        ({**top(a={"$ref": "#/$defs/Any"}), "$defs": {"Any": {}}}, "/$defs/Any takes any value"),
        (top(a={"$ref": "https://example.com/schema"}), "outside the schema"),
        (top(a={"$ref": "file:///tmp/x"}), "outside the schema"),
        (top(a={"$ref": "other.json#/$defs/X"}), "outside the schema"),
        (top(a={"$ref": "#/$defs/Missing"}), "no name under $defs"),
        (top(a={"$ref": "#/properties/b"}, b=BASE), "no name under $defs"),
        ({**top(a={"$ref": "#/$defs/A"}), "$defs": LOOP}, "back to itself"),
        (top(a={"$dynamicRef": "#x"}), "$dynamicRef"),
        (top(a={"$id": "https://example.com/a", "type": "string"}), "$id"),
        (top(a={"allOf": [{"$ref": "#"}, {"type": "object"}]}), "puts the whole schema inside"),
        (top(a={"oneOf": [top(b=top(c={"type": "string"})), {"type": "string"}]}), "stands open inside oneOf"),
        (top(a={**BASE, "if": {"properties": {"id": {}}}}), "stands open inside if"),
        (top(a={"type": "array", "items": {"type": "object", "not": {"properties": {"x": {}}}}}), "stands open inside not"),
        ({"type": "array", "items": {"type": "string"}}, "type object at the top"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "write it in JSON Schema 2020-12"),
        ({"type": "objekt"}, "not JSON Schema 2020-12"),
        ({"type": "object", "allOf": {}}, "not JSON Schema 2020-12"),
    ],
)  # fmt: skip
def test_what_cannot_be_closed_is_refused_with_its_place(schema: dict[str, Any], words: str) -> None:
    """C5, C1"""
    with pytest.raises(ConfigurationError) as refused:
        close_schema(schema)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (top(a={"type": "string", "pattern": "(?=x)"}), "linear-time"),
        (top(a={"type": "string", "pattern": r"(a)\1"}), "linear-time"),
        (top(a={"type": "object", "patternProperties": {"(?=x)": {"type": "string"}}}), "linear-time"),
        (top(a={"type": "string", "format": "colour"}), "workspace-path"),
    ],
)
def test_a_constraint_that_nobody_could_check_is_refused(schema: dict[str, Any], words: str) -> None:
    """C1, C6"""
    with pytest.raises(ConfigurationError) as refused:
        compile_schema(close_schema(schema))
    assert words in str(refused.value)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Cat(Strict):
    kind: str = "cat"
    lives: int | None = None


class Tree(Strict):
    """Nested, optional, recursive, tuple, mapping."""

    cat: Cat
    maybe: Cat | None = None
    either: Cat | list[Cat] | str = "x"
    pair: tuple[int, Cat] | None = None
    named: dict[str, Cat] = {}
    below: list[Tree] = []


def test_a_closed_model_s_schema_stays_as_it_is() -> None:
    """C2: nothing is added where nothing is open."""
    schema = Tree.model_json_schema()
    assert open_place(schema) is None
    closed = close_schema(schema)
    assert closed == {"type": "object", **schema}
    assert close_schema(closed) == closed


LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer"}, {"type": ["boolean", "null"]}, {"enum": ["a", {"b": 1}]}])
NAMES = st.sampled_from(["a", "b", "c"])


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(NAMES, inner, max_size=3).map(lambda properties: {"type": "object", "properties": properties})
    arrays = inner.map(lambda items: {"type": "array", "items": items})
    groups = st.tuples(st.sampled_from(["allOf", "anyOf"]), st.lists(inner, min_size=1, max_size=2)).map(
        lambda pair: {pair[0]: pair[1]}
    )
    grown = st.tuples(objects, groups).map(lambda pair: {**pair[0], **pair[1]})
    return objects | arrays | groups | grown | st.just({"$ref": "#/$defs/D"})


DEFINED = {"type": "object", "properties": {"a": {"type": "integer"}, "d": {"$ref": "#/$defs/D"}}}
SCHEMAS = st.dictionaries(NAMES, st.recursive(LEAVES, nested, max_leaves=8)).map(
    lambda properties: {"type": "object", "properties": properties, "$defs": {"D": copy.deepcopy(DEFINED)}}
)
VALUES = st.recursive(
    st.sampled_from(["a", 1, None, True]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), inner, max_size=3),
    max_leaves=8,
)


def with_unknown(value: Any) -> list[Any]:
    """The value with a field that no schema names, in each of its objects in turn."""
    found: list[Any] = []
    if isinstance(value, dict):
        found.append({**value, "unknown": 1})
        found += [{**value, key: changed} for key, item in value.items() for changed in with_unknown(item)]
    if isinstance(value, list):
        found += [[*value[:at], changed, *value[at + 1 :]] for at, item in enumerate(value) for changed in with_unknown(item)]
    return found


@given(SCHEMAS, st.dictionaries(NAMES, VALUES, max_size=3))
def test_closing_only_narrows_and_leaves_no_room_for_unknown_fields(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """C5"""
    before = copy.deepcopy(schema)
    validator = compile_schema(close_schema(schema))
    assert schema == before
    if validator.is_valid(value):
        assert compile_schema(schema).is_valid(value)
        assert not any(validator.is_valid(changed) for changed in with_unknown(value))


@given(SCHEMAS)
def test_closing_twice_is_closing_once(schema: dict[str, Any]) -> None:
    """C2: what is exported can be registered again, as the same."""
    once = close_schema(schema)
    assert close_schema(once) == once
    assert open_place(once) is None
