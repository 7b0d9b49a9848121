"""The canonical form is RFC 8785's, so that one value has one digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.contract.canonical import canonical, digest, digest_bytes
from support.node import NODE, Node, running

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


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1e21}, "a18fbc0bcef4f91fedea4a6ff70089101462846a93a65795324a14b10cb5c4d9"),
        ({"a": 1e-7}, "b248271d18d09a840564eafaaeb935f11a4d44d6d90ac5b3baa9714420782816"),
        ({"a": -0.0}, "45b619e97b5d9b029af4522e9ffb02fa99ff2bf226c82ee22a7cc10269a557e8"),
        ({"a": 0}, "45b619e97b5d9b029af4522e9ffb02fa99ff2bf226c82ee22a7cc10269a557e8"),
        ({"\ufb33": 2, "\U0001f600": 1}, "2aa3f5086e32bb90ce39c508a6f40fd72e792684f130d0f3b896ea191368f1e3"),
        ({"b": [1, 1.5, None, True, "é"], "a": 1.0}, "4ce9fd58c3841732902576bd0cbfe36c4426de045856b1936948c118624167c8"),
    ],
)  # fmt: skip
def test_digests_stay_what_they_are(value: Any, expected: str) -> None:
    """C8: a digest of today must be found again tomorrow, in another version and in another language."""
    assert digest(value) == expected


@given(json_values)
def test_the_quick_form_is_the_written_out_one(value: Any) -> None:
    """C8"""
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value",
    [True, 2**53 - 1, -(2**53) + 1, 2.0**53 - 1, -1e-4, 0.0001, 9.9e-5, 1e-6, 1e-7, 1.5e15 + 0.5, 1e16, 123456789012345680000.0,
     {"\ud7ff": 1, "a": 2}, {"\ue000": 1, "\U00010000": 2}, {"": 0}, (1, 2), [[]], {}],
    ids=repr,
)  # fmt: skip
def test_the_quick_form_changes_at_no_edge(value: Any) -> None:
    """C8"""
    try:
        expected = rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as fault:
        with pytest.raises(type(fault)):
            canonical(value)
    else:
        assert canonical(value) == expected


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    if NODE is None:
        pytest.skip("node, the independent writer of canonical JSON, is not installed")
    with running() as process:
        yield process


edges = st.sampled_from([1e21, 1e-7, -0.0, 9.999999999999999e20, 1e22, 1e-6, 1.1e-7, 5e-324, 2.0**53 - 1, -1e23, 4.35, 0.1 + 0.2])
odd_keys = st.sampled_from(
    ["\U0001f600", "\ufb33", "\ue000", "\ud7ff", "\uffff", "\U0010ffff", "__proto__", "1", "10", "2", "", "é"]
)
node_values = st.recursive(
    st.none() | st.booleans() | numbers | edges | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd_keys | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300)
@given(value=node_values)
def test_node_writes_the_same_text_and_digest(node: Node, value: Any) -> None:
    """C8: an oracle that shares no code with ours."""
    assert node.canonical(value) == (canonical(value).decode(), digest(value))


@given(json_values)
def test_canonical_form_of_what_it_reads_back_is_itself(value: Any) -> None:
    """C8"""
    once = canonical(value)
    assert canonical(json.loads(once)) == once
    assert digest(value) == hashlib.sha256(once).hexdigest() == digest_bytes(once)
