"""What a person reads is what the call says: no number rounded, nothing left out, what has no shape named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.approval.service.presenting import difference, leaves, typed_fits


def shown(arguments: str, origins: tuple[dict[str, str], ...] = (), broken: tuple[str, ...] = ()) -> dict[str, Any]:
    breaches = [{"pointer": pointer} for pointer in broken]
    return {"arguments": arguments, "origins": list(origins), "why": {"breaches": breaches}}


NUMBERS = ["9007199254740993", "12345678901234567890", "0.1000", "1e400", "-0", "1E+2"]


@pytest.mark.parametrize("number", NUMBERS)
def test_number_stands_as_it_is_written(number: str) -> None:
    """A2, known way to get it wrong "big integers rounded on the card"."""
    (leaf,) = leaves(shown(f'{{"n":{number}}}'))
    assert (leaf.text, leaf.kind) == (number, "number")


def test_number_and_its_text_are_told_apart() -> None:
    """A2"""
    kinds = [(leaf.text, leaf.kind) for leaf in leaves(shown('[250,"250",true,"true",null,{},[]]'))]
    assert kinds == [("250", "number"), ("250", "text"), ("true", "word"), ("true", "text"), ("null", "word"),
                     ("{}", "empty"), ("[]", "empty")]  # fmt: skip


def test_value_is_shown_with_whose_word_it_is_and_whether_that_is_allowed() -> None:
    """A2, B4"""
    origins = (
        {"pointer": "/a~1b/0", "origin": "result:c1", "source": "read_notes", "quote": "pay him"},
        {"pointer": "/c", "origin": "user", "source": "", "quote": ""},
    )
    found = leaves(shown('{"a/b":["x","y"],"c":"z"}', origins, ("/a~1b",)))
    assert [(leaf.name, leaf.said, leaf.source, leaf.breach) for leaf in found] == [
        ("a/b › 0", "from a tool's result", "read_notes", True),
        ("a/b › 1", "", "", True),
        ("c", "said by the user", "", False),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


def _count(value: Any) -> int:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(_count, inner)) if inner else 1


@given(JSON)
def test_every_value_of_the_arguments_has_its_line(value: Any) -> None:
    """A2: and its pointer leads to it."""
    found = leaves(shown(json.dumps(value)))
    assert len(found) == _count(value)
    for leaf in found:
        at = value
        for step in leaf.pointer.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            at = at[int(key)] if isinstance(at, list) else at[key]
        assert leaf.text == (at if isinstance(at, str) else json.dumps(at))


def test_difference_goes_as_deep_as_both_have_fields() -> None:
    """A2"""
    rows = difference({"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": 2, "c": [1]}, "d": {"e": 1}})
    assert [(row.name, row.before, row.after, row.changed) for row in rows] == [
        ("a › b", "1", "2", True), ("a › c", "[\n  1\n]", "[\n  1\n]", False), ("d", "1", '{\n  "e": 1\n}', True),
    ]  # fmt: skip
    assert [row.changed for row in difference({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}})] == [False, False]


@given(JSON, JSON)
def test_what_differs_is_marked_and_nothing_else(before: Any, after: Any) -> None:
    """A2"""
    differs = json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    assert any(row.changed for row in difference(before, after)) is differs


@pytest.mark.parametrize(
    ("asked", "typed", "fits"),
    [
        ("1,204.50 EUR", "1,204.50 EUR", True), ("1,204.50 EUR", " 1,204.50eur ", True), ("1<U+202F>204 EUR", "1 204 EUR", True),
        ("1,204.50 EUR", "1,204.5 EUR", False), ("1,204.50 EUR", "", False), ("1,204.50 EUR", "yes", False),
        ("10.00<U+200B> EUR", "10.00 EUR", False),
    ],
)  # fmt: skip
def test_amount_is_typed_as_it_is_read(asked: str, typed: str, fits: bool) -> None:
    """A2: spaces that no keyboard has do not count; characters that hide something do."""
    assert typed_fits(asked, typed) is fits
