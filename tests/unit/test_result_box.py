"""A raw result travels encrypted and opens only for its own call."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from fourgates.gates.result_box import UnreadableResult, open_result, seal_result

KEY, KEYS = b"k" * 32, {"result:1": b"k" * 32}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(_JSON)
def test_content_comes_back_and_cannot_be_read_on_the_way(content: Any) -> None:
    """R3"""
    box = seal_result(content, "result:1", KEY, "call-1")
    assert open_result(box, KEYS, "call-1") == content
    plain = json.dumps(content).encode()
    assert box.size == len(plain)
    assert len(plain) < 8 or plain not in box.ciphertext


def test_two_boxes_of_the_same_content_differ() -> None:
    """R3"""
    assert seal_result("x", "result:1", KEY, "c").ciphertext != seal_result("x", "result:1", KEY, "c").ciphertext


@pytest.mark.parametrize(
    "change",
    [
        {"key_id": "result:2"},
        {"nonce": b"0" * 12},
        {"nonce": b""},
        {"ciphertext": b""},
        {"ciphertext": b"x" * 40},
    ],
    ids=str,
)
def test_an_altered_box_does_not_open(change: dict[str, Any]) -> None:
    """P6"""
    box = dataclasses.replace(seal_result("x", "result:1", KEY, "call-1"), **change)
    with pytest.raises(UnreadableResult):
        open_result(box, {**KEYS, "result:2": b"k" * 32}, "call-1")


def test_another_calls_box_does_not_open() -> None:
    """P6"""
    with pytest.raises(UnreadableResult):
        open_result(seal_result("x", "result:1", KEY, "call-1"), KEYS, "call-2")


class _Model(BaseModel):
    at: datetime.date
    password: SecretStr


def _cycle() -> list[Any]:
    around: list[Any] = []
    around.append(around)
    return around


@pytest.mark.parametrize(
    ("content", "form"),
    [
        ({"at": datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), "sum": decimal.Decimal("1.50")}, None),
        (_Model(at=datetime.date(2024, 1, 2), password=SecretStr("x")), {"at": "2024-01-02", "password": "**********"}),
        ({"raw": b"\xff\x00", "text": b"abc"}, None),
        ({1: 2, (1, 2): 3}, None),
        (object(), "<object>"),
        (_cycle(), "<list>"),
        ("\ud800", "\ud800"),
    ],
    ids=["time and sum", "model", "bytes", "odd keys", "object", "cycle", "lone surrogate"],
)
def test_whatever_a_tool_returns_after_it_has_committed_can_be_boxed(content: Any, form: Any) -> None:
    """E6"""
    opened = open_result(seal_result(content, "result:1", KEY, "c"), KEYS, "c")
    assert form is None or opened == form
