"""What a model is told of arguments that do not fit: where, and why, up to ten at once."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.catalog.keywords import step, tokens_of
from fourgates.catalog.schema import close_schema, compile_schema
from fourgates.contract.errors import ConfigurationError
from fourgates.gates.faults import MOST_FAULTS, refusal_of, schema_faults
from fourgates.gates.refusal import Refusal
from support import schema_oracle
from support.schemas import schemas, values


def refusal(schema: dict[str, Any], value: Any) -> Refusal:
    return refusal_of(schema_faults(compile_schema(close_schema(schema)).iter_errors(value)))


def told(schema: dict[str, Any], value: Any) -> list[tuple[str, str]]:
    return [(fault.field, fault.reason) for fault in refusal(schema, value).faults]


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_ten_faults_of_a_call_are_told_in_one_go() -> None:
    """C5: each once, with its place; the first speaks for the refusal."""
    limits: dict[str, Any] = {
        "number": {"type": "integer", "minimum": 1}, "text": {"type": "string", "maxLength": 2}, "one": {"enum": ["a", "b"]},
        "code": {"type": "string", "pattern": "^[A-Z]+$"}, "day": {"type": "string", "format": "date"},
        "set": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "path": {"type": "string", "format": "workspace-path"},
        "inner": {**fields(x={"type": "boolean"}), "required": ["x"]}, "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }  # fmt: skip
    schema = {**fields(**limits), "required": ["must", *limits]} | {"properties": {**limits, "must": {"type": "string"}}}
    value = {
        "number": 0, "text": "abc", "one": "c", "code": "a", "day": "2026-02-30", "set": ["x", "x"], "path": "../x",
        "inner": {}, "maybe": 5, "unknown": 1,
    }  # fmt: skip
    found = refusal(schema, value)
    faults = [(fault.field, fault.reason) for fault in found.faults]
    every = {
        ("/number", "out_of_range"), ("/text", "wrong_length"), ("/one", "not_allowed"), ("/code", "wrong_pattern"),
        ("/day", "wrong_format"), ("/set", "not_unique"), ("/path", "outside_workspace"), ("/inner/x", "missing_field"),
        ("/maybe", "fits_no_alternative"), ("/unknown", "unknown_field"), ("/must", "missing_field"),
    }  # fmt: skip
    assert len(faults) == len(set(faults)) == MOST_FAULTS
    assert set(faults) < every
    assert (found.field, found.reason) == faults[0]


def test_an_alternative_that_is_told_from_others_by_what_must_not_fit_still_names_the_field() -> None:
    """C5: closing alternatives that are not told apart does not make their faults vaguer."""
    text = {"type": "string"}
    schema = fields(a={"oneOf": [fields(b=fields(c=text)), {**fields(b=fields(d=text), n=text), "required": ["n"]}]})
    assert told(schema, {"a": {"b": {"c": "1", "z": 2}}}) == [("/a/b/z", "unknown_field")]


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])  # schemas are large to draw, machines busy
@given(st.data())
def test_each_fault_has_a_place_in_the_arguments(data: st.DataObject) -> None:
    """C5: and where unknown fields are all that is wrong, one of them is named, or what it stands in."""
    schema = data.draw(schemas())
    try:
        validator = compile_schema(close_schema(schema))
    except ConfigurationError:
        return
    for _ in range(3):
        value = data.draw(values(schema))
        if validator.is_valid(value):
            continue
        found = refusal_of(schema_faults(validator.iter_errors(value)))
        assert 1 <= len(found.faults) <= MOST_FAULTS
        for fault in found.faults:
            assert exists(value, tokens_of(fault.field)[: None if fault.reason != "missing_field" else -1])
        if schema_oracle.accepts(schema, value):
            unknown = {step("", *path) for path in schema_oracle.unknown_members(schema, value)}
            assert any(f"{each}/".startswith(f"{fault.field}/") for each in unknown for fault in found.faults)


def exists(value: Any, tokens: tuple[str, ...]) -> bool:
    for token in tokens:
        if isinstance(value, list) and token.isdecimal() and int(token) < len(value):
            value = value[int(token)]
        elif isinstance(value, dict) and token in value:
            value = value[token]
        else:
            return False
    return True
