"""Closing argument schemas."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog.schema import close_schema, compile_schema, open_place
from fourgates.contract.errors import ConfigurationError
from support import schema_oracle
from support.schemas import schemas, values


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
STRING = {"type": "string"}


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
        (top(a={"$ref": "#/$defs/Missing"}), "no schema inside it"),
        (top(a={"$ref": "#/properties"}, b=BASE), "no schema inside it"),
        (top(a={"$ref": "#/properties/b/enum/0"}, b={"enum": [{}]}), "no schema inside it"),
        (top(a={"$ref": "#anchor"}), "no schema inside it"),
        ({**top(a={"$ref": "#/$defs/A"}), "$defs": LOOP}, "back to itself"),
        (top(a={"$dynamicRef": "#x"}), "$dynamicRef"),
        (top(a={"$id": "https://example.com/a", "type": "string"}), "$id"),
        (top(a={"allOf": [{"$ref": "#"}, {"type": "object"}]}), "puts the whole schema inside"),
        (
            top(a={"type": "object", "if": {"properties": {"id": {}}}}),
            "/properties/a/if/properties/id stands open inside a condition",
        ),
        (
            top(a={"type": "object", "if": top(b=top(c=STRING)), "then": {"properties": {"c": STRING}}}),
            "stands open inside a condition",
        ),
        (top(a={**top(b=top(c=STRING)), "allOf": [top(b=top(d=STRING))]}), "describe the same value"),
        (top(a={"anyOf": [top(b=top(c=STRING)), top(b=top(d=STRING))]}), "/properties/a/anyOf/1/properties/b and"),
        (top(a={**top(x_1=top(c=STRING)), "patternProperties": {"^x_": top(d=STRING)}}), "describe the same value"),
        (top(a={"type": "array", "items": top(c=STRING), "contains": top(d=STRING)}), "stands open inside a condition"),
        (top(a={"oneOf": [{"properties": {"b": {}}}, {"type": "string"}]}), "/oneOf/0/properties/b takes any value"),
        ({"type": "array", "items": {"type": "string"}}, "type object at the top"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "write it in JSON Schema 2020-12"),
        ({"type": "objekt"}, "not JSON Schema 2020-12"),
        ({"type": "object", "allOf": {}}, "not JSON Schema 2020-12"),
    ],
)
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


def kind(name: str, **properties: Any) -> dict[str, Any]:
    """An alternative that says which it is."""
    return {**top(kind={"const": name}, **properties), "required": ["kind"]}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        # alternatives that are told apart may each have an object of the same name
        (
            {"anyOf": [kind("x", of=top(b=STRING)), kind("y", of=top(c=STRING))]},
            {"kind": "y", "of": {"c": "1"}},
            {"kind": "y", "of": {"b": "1"}},
        ),
        (
            {"oneOf": [kind("x", of=top(b=STRING)), kind("y", of=top(c=STRING))]},
            {"kind": "x", "of": {"b": "1"}},
            {"kind": "x", "of": {"z": 1}},
        ),
        # alternatives that are not: exactly one may fit, as its author wrote them
        ({"oneOf": [top(b=top(c=STRING)), {**top(b=top(d=STRING)), "required": ["n"]}]}, {"b": {"c": "1"}}, {"b": {"z": "1"}}),
        (
            {"oneOf": [top(b=top(c=STRING)), {**top(b=top(d=STRING)), "required": ["n"]}], "anyOf": [{"required": ["b"]}]},
            {"b": {}},
            {"b": {"d": "1"}},
        ),
        # a condition may look into what is described beside it
        (
            {**top(b=top(c=STRING)), "if": {"properties": {"b": {"required": ["c"]}}}, "then": {"required": ["b"]}},
            {"b": {}},
            {"b": {"z": 1}},
        ),
        (
            {**top(b=top(c=STRING)), "not": {"properties": {"b": {"properties": {"c": {"const": "no"}}}}, "required": ["b"]}},
            {"b": {"c": "x"}},
            {"b": {"z": 1}},
        ),
        (
            {
                "if": {"required": ["k"], "properties": {"b": {}}},
                "then": top(k=STRING, b=top(c=STRING)),
                "else": top(b=top(d=STRING)),
            },
            {"k": "1", "b": {"c": "1"}},
            {"k": "1", "b": {"d": "1"}},
        ),
        # a part that only narrows what another one describes
        (
            {**top(b=top(c=STRING, d=STRING)), "allOf": [{"properties": {"b": {"required": ["c"]}}}]},
            {"b": {"c": "1", "d": "1"}},
            {"b": {"c": "1", "z": 1}},
        ),
        ({**top(b=top(c=STRING)), "patternProperties": {"^b": top(c=STRING)}}, {"b": {"c": "1"}}, {"b": {"z": 1}}),
        ({"type": "array", "items": top(c=STRING), "contains": {"required": ["c"]}}, [{}, {"c": "1"}], [{"c": "1"}, {"z": 1}]),
        # references anywhere into the document
        ({"$ref": "#/$defs/Outer/$defs/Inner"}, {"id": "1"}, {"z": 1}),
        ({"$ref": "#/$defs/Outer/properties/in%7E1side"}, {"n": 1}, {"z": 1}),
        (
            {"allOf": [{"$ref": "#/$defs/Outer/$defs/Inner"}, {"$ref": "#/$defs/Outer/properties/in~1side"}]},
            {"id": "1", "n": 1},
            {"z": 1},
        ),
        # what the author closed stays as it was
        ({"type": "object", "properties": {"b": BASE}, "unevaluatedProperties": False}, {"b": {"id": "1"}}, {"b": {"z": 1}}),
        (
            {**top(b=STRING), "allOf": [top(c=STRING)], "unevaluatedProperties": BASE},
            {"b": "1", "z": {"id": "1"}},
            {"z": {"z": 1}},
        ),
        (
            {"type": "array", "prefixItems": [BASE], "unevaluatedItems": top(n=STRING)},
            [{"id": "1"}, {"n": "1"}],
            [{"id": "1"}, {"id": "1"}],
        ),
    ],
)
def test_parts_that_judge_one_value_are_closed_together(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """C5: no field that a counting part names is refused, and no other passes."""
    outer = {"$defs": {"Inner": BASE}, "properties": {"in/side": {"type": "object", "properties": NUMBER}}}
    whole = {**top(a=schema), "$defs": {"Outer": outer}}
    assert compile_schema(whole).is_valid({"a": good})
    assert accepts(whole, {"a": good})
    assert not accepts(whole, {"a": bad})
    assert close_schema(close_schema(whole)) == close_schema(whole)


def test_a_pattern_that_takes_long_elsewhere_takes_no_time_here() -> None:
    """C5, C1: which names a pattern fits is asked of the engine that will judge them."""
    named = {"a" * 60 + "!": BASE}
    schema = top(a={"type": "object", "properties": named, "patternProperties": {"^(a+)+$": top(n=STRING)}})
    assert accepts(schema, {"a": {"aaa": {"n": "1"}}})


def doubled(depth: int) -> dict[str, Any]:
    """Small to write and 2^depth parts to look at."""
    twice = {f"D{at}": {"allOf": [{"$ref": f"#/$defs/D{at + 1}"}] * 2} for at in range(depth)}
    return {**top(a={"$ref": "#/$defs/D0"}), "$defs": {**twice, f"D{depth}": BASE}}


def test_a_schema_that_doubles_itself_is_refused_and_not_followed() -> None:
    """C1, C5: nor is it handed to the engine, which would follow it at each call."""
    assert accepts(doubled(3), {"a": {"id": "1"}})
    with pytest.raises(ConfigurationError, match="too many parts"):
        close_schema(doubled(40))


def test_a_schema_deeper_than_anything_can_follow_is_refused() -> None:
    """C1"""
    deep: dict[str, Any] = BASE
    for _ in range(5_000):
        deep = top(a=deep)
    with pytest.raises(ConfigurationError):
        close_schema(deep)


def test_many_fields_are_not_too_many() -> None:
    """C1"""
    many = {f"field_{number}": top(a=STRING, b=STRING) for number in range(1_000)}
    schema = top(a={**top(**many), "allOf": [{"properties": {name: {"required": ["a"]} for name in many}}]})
    assert accepts(schema, {"a": {"field_7": {"a": "1"}}})


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])  # schemas are large to draw, machines busy
@given(st.data())
def test_closed_accepts_what_the_schema_accepts_without_an_unknown_field(data: st.DataObject) -> None:
    """C5: judged by an oracle of its own, which shares no code with the closing or with the engine."""
    schema = data.draw(schemas())
    before = copy.deepcopy(schema)
    try:
        closed = close_schema(schema)
    except ConfigurationError:
        event("refused")
        return
    assert schema == before
    engine, validator = compile_schema(schema), compile_schema(closed)
    for _ in range(3):
        value = data.draw(values(schema))
        accepted = schema_oracle.accepts(schema, value)
        assert engine.is_valid(value) == accepted
        known = accepted and not schema_oracle.unknown_members(schema, value)
        event(f"accepted {accepted}, all known {known}")
        assert validator.is_valid(value) == known


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(schemas())
def test_closing_twice_is_closing_once(schema: dict[str, Any]) -> None:
    """C2: what is exported can be registered again, as the same."""
    try:
        once = close_schema(schema)
    except ConfigurationError:
        return
    assert close_schema(once) == once
    assert open_place(once) is None
