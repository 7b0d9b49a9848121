"""What rules, policies and origin contracts see of a closed schema."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.catalog import Tool
from fourgates.catalog.schema import close_schema
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk
from fourgates.gates.shape import ANY, Field, Kind, Shape, arguments_shape, fits, free_keys
from support import schema_oracle
from support.schemas import schemas, values

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def shape_of(schema: dict[str, Any], **defs: Any) -> Shape:
    """The shape of the argument `a`."""
    return read({"type": "object", "properties": {"a": schema}, "$defs": defs}).fields["a"].shape


def read(schema: dict[str, Any]) -> Shape:
    closed = close_schema(schema)
    return arguments_shape(
        Tool(name="t", description="T.", risk=Risk.READ, schema=closed, model=None, run=print, timeout=timedelta(1))
    )


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def record(*always: str, **shapes: Shape) -> Shape:
    return Shape(Kind.RECORD, fields={name: Field(shape, name in always) for name, shape in shapes.items()})


STRING, INTEGER = Shape(Kind.STRING), Shape(Kind.INTEGER)


@pytest.mark.parametrize(
    ("schema", "shape"),
    [
        (fields(x=TEXT), record(x=STRING)),
        ({"allOf": [{**fields(x=TEXT), "required": ["x"]}, fields(y=WHOLE)]}, record("x", x=STRING, y=INTEGER)),
        ({**fields(x=TEXT), "anyOf": [{"properties": {"y": WHOLE}}, {"required": ["x"]}]}, record(x=STRING, y=INTEGER)),
        ({**fields(x=TEXT), "if": {"required": ["x"]}, "then": {"properties": {"y": WHOLE}}}, record(x=STRING, y=INTEGER)),
        ({**fields(x=TEXT), "dependentSchemas": {"x": {"properties": {"y": WHOLE}}}}, record(x=STRING, y=INTEGER)),
        ({"$ref": "#/$defs/Base", "properties": {"y": WHOLE}}, record(x=STRING, y=INTEGER)),
        ({**fields(x={"type": "number"}), "allOf": [{"properties": {"x": WHOLE}}]}, record(x=INTEGER)),
        ({"type": "object", "additionalProperties": WHOLE}, Shape(Kind.MAP, item=INTEGER)),
        ({**fields(x=TEXT), "patternProperties": {"^y": WHOLE}}, Shape(Kind.MAP, item=ANY)),
        ({"type": ["string", "null"]}, Shape(Kind.STRING, nullable=True)),
        ({"enum": [1, 2.5]}, Shape(Kind.NUMBER)),
        ({"const": "x"}, STRING),
        ({"type": "array", "items": TEXT}, Shape(Kind.LIST, item=STRING)),
        ({"anyOf": [{"type": "array", "items": TEXT}, {"type": "null"}]}, Shape(Kind.LIST, nullable=True, item=STRING)),
        ({"anyOf": [{"$ref": "#/$defs/Base"}, {"type": "null"}]}, replace(record(x=STRING), nullable=True)),
    ],
)  # fmt: skip
def test_the_parts_of_a_schema_make_one_shape(schema: dict[str, Any], shape: Shape) -> None:
    """B6, P2: a schema that is closed by `unevaluatedProperties` is a record of its fields, not a map of free keys."""
    assert shape_of(schema, Base=fields(x=TEXT)) == shape


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [fields(x=TEXT), fields(y=WHOLE)]},
        {"oneOf": [fields(x=TEXT), {**fields(y=WHOLE), "required": ["y"]}]},
        {"type": "object", "anyOf": [{"properties": {"x": TEXT}}, {"properties": {"y": WHOLE}}]},
        {"enum": ["x", 1]},
        {"type": ["string", "integer"]},
    ],
)
def test_alternatives_of_which_each_names_its_fields_have_no_free_keys(schema: dict[str, Any]) -> None:
    """B4: else an origin contract for the argument would be refused."""
    assert not free_keys(shape_of(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": TEXT},
        {"anyOf": [fields(x=TEXT), {"type": "object", "patternProperties": {"^y": TEXT}}]},
        {"type": "array", "items": {"type": "object", "additionalProperties": TEXT}},
        {**fields(x=TEXT), "allOf": [fields(y=TEXT)], "unevaluatedProperties": TEXT},
    ],
)
def test_a_map_has_free_keys_wherever_it_stands(schema: dict[str, Any]) -> None:
    """B4"""
    assert free_keys(shape_of(schema))


def test_a_schema_inside_itself_beside_other_words_has_an_end() -> None:
    """B6"""
    tree = fields(x={"$ref": "#/$defs/Tree", "required": ["x"]}, y=TEXT)
    assert read({**fields(a={"$ref": "#/$defs/Tree"}), "$defs": {"Tree": tree}}).fields["a"].shape.kind is Kind.RECORD


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])  # schemas are large to draw, machines busy
@given(st.data())
def test_what_passes_a_schema_has_its_shape(data: st.DataObject) -> None:
    """B3, P2: at any depth; a rule or a policy never meets a field or a type that it was not told of."""
    schema = data.draw(schemas())
    try:
        shape = read(schema)
    except ConfigurationError:
        return
    for _ in range(3):
        value = data.draw(values(schema))
        if schema_oracle.accepts(schema, value) and not schema_oracle.unknown_members(schema, value):
            assert holds(shape, value)


def holds(shape: Shape, value: Any) -> bool:
    if not fits(shape, value):
        return False
    if shape.kind is Kind.RECORD and value is not None:
        present = all(name in value for name, each in shape.fields.items() if each.always)
        return present and all(name in shape.fields and holds(shape.fields[name].shape, item) for name, item in value.items())
    if shape.kind in (Kind.LIST, Kind.MAP) and shape.item and value is not None:
        return all(holds(shape.item, item) for item in (value.values() if isinstance(value, dict) else value))
    return shape.kind is not Kind.ANY or not shape.variants or any(holds(each, value) for each in shape.variants) or value is None


@pytest.mark.parametrize("word", ["anyOf", "oneOf"])
def test_a_null_beside_several_types_lets_nobody_choose_keys(word: str) -> None:
    """B4: `str | list[str] | None` may be restricted by origin."""
    shape = shape_of({word: [TEXT, {"type": "array", "items": TEXT}, {"type": "null"}]})
    assert shape.nullable and not free_keys(shape)
    assert [each.kind for each in shape.variants] == [Kind.STRING, Kind.LIST]
