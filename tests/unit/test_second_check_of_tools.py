"""Arguments without a typed model are checked twice, by two implementations."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fourgates.catalog import ToolError
from fourgates.catalog.schema import close_schema, compile_schema
from fourgates.tools.second_check import SecondCheck

SCHEMA = {
    "type": "object",
    "properties": {
        "order": {"type": "string", "pattern": "^[A-Z]-[0-9]+$", "maxLength": 8},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "maxItems": 2},
        "mode": {"enum": ["a", "b"]},
    },
    "required": ["order"],
    "$defs": {"line": {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}},
}


@pytest.mark.parametrize(
    ("value", "fits"),
    [({"order": "A-1"}, True), ({"order": "A-1", "lines": [{"n": 1}], "mode": "a"}, True), ({}, False), ({"order": "a-1"}, False),
     ({"order": "A-1234567"}, False), ({"order": 1}, False), ({"order": "A-1", "more": 1}, False),
     ({"order": "A-1", "mode": "c"}, False),
     ({"order": "A-1", "lines": [{"n": 0}]}, False), ({"order": "A-1", "lines": [{"n": 1, "x": 1}]}, False),
     ({"order": "A-1", "lines": [{"n": True}]}, False), ({"order": "A-1", "lines": [{"n": 1}] * 3}, False)],
)  # fmt: skip
def test_both_checks_say_the_same(value: dict[str, Any], fits: bool) -> None:
    """C7"""
    closed = close_schema(SCHEMA)
    assert compile_schema(closed).is_valid(value) is fits
    check = SecondCheck(closed)
    if fits:
        check(value)
        return
    with pytest.raises(ToolError) as told:
        check(value)
    assert (told.value.reason, told.value.not_executed) == ("second_check", True)


def test_a_servers_pattern_cannot_hold_the_executor_up() -> None:
    """C6, C7"""
    check = SecondCheck({"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}})
    began = time.process_time()
    with pytest.raises(ToolError):
        check({"x": "a" * 5_000 + "b"})
    assert time.process_time() - began < 1


def test_what_only_the_first_check_knows_is_left_to_it() -> None:
    """C7"""
    SecondCheck({"properties": {"x": {"pattern": r"\p{Script=Greek}&&[a-z]("}}})({"x": "y"})
    SecondCheck({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False})({"b": 1})
