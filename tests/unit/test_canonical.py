"""The canonical form is RFC 8785's, so that one value has one digest."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract.canonical import canonical, digest, digest_bytes

# Whole floats from 2^53 up to 1e21 are written without a point, so they read back as integers that have no canonical form.
# Gate 1 refuses them as it refuses the integers.
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not (2**53 <= abs(number) < 1e21)
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e21, "1e+21"), (1e20, "100000000000000000000"), (1e-7, "1e-7"), (1e-6, "0.000001"), (-0.0, "0"), (1.0, "1"),
        (0.1 + 0.2, "0.30000000000000004"), (5e-324, "5e-324"), (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740991, "9007199254740991"), (333333333.33333329, "333333333.3333333"), (4.50, "4.5"),
        ("\u20ac$\u000f\nA'\u0042\u0022\u005c\\\"/", '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        ([None, True, False], "[null,true,false]"),
        ({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}'),
    ],
)  # fmt: skip
def test_value_has_the_form_of_rfc8785(value: Any, text: str) -> None:
    """C8"""
    assert canonical(value).decode() == text


def test_keys_are_ordered_by_utf16_units_not_by_code_points() -> None:
    """C8"""
    keys = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}
    # U+1F600 is written as D83D DE00 and so comes before U+FB33, though its code point is larger.
    assert list(json.loads(canonical(keys))) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 2**53, -(2**53), {1: "a"}, "\ud800"], ids=repr)
def test_what_json_cannot_carry_exactly_has_no_canonical_form(value: Any) -> None:
    """C8"""
    with pytest.raises((rfc8785.CanonicalizationError, UnicodeEncodeError)):
        canonical(value)


@given(json_values)
def test_canonical_form_of_what_it_reads_back_is_itself(value: Any) -> None:
    """C8"""
    once = canonical(value)
    assert canonical(json.loads(once)) == once
    assert digest(value) == hashlib.sha256(once).hexdigest() == digest_bytes(once)
