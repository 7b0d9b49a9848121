"""8,726 function documents that others wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corpora import bfcl
from support.packages import NotFetched


@pytest.fixture(scope="module")
def data() -> Path:
    try:
        return bfcl.fetched()
    except NotFetched as fault:
        pytest.skip(str(fault))


@pytest.mark.timeout(180)
def test_each_document_registers_or_is_refused_with_a_reason(data: Path) -> None:
    """C1, C5"""
    figures = bfcl.measure(data)
    assert figures["documents"] == 8_726
    assert figures["registered"] + sum(figures["refused"].values()) == figures["documents"]
    assert "other" not in figures["refused"], figures["examples"].get("other")
    assert figures["registered"] > 7_800, figures["refused"]


@pytest.mark.parametrize(
    ("document", "schema"),
    [
        ({"type": "dict", "properties": {"a": {"type": "float", "default": None}}},
         {"type": "object", "properties": {"a": {"type": "number"}}}),
        ({"type": "tuple", "items": {"type": "String"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "boolean", "enum": ["True", "False"], "default": "false"},
         {"type": "boolean", "enum": [True, False], "default": False}),
        ({"type": "integer", "enum": ["1", "2"]}, {"type": "integer", "enum": [1, 2]}),
        ({"type": "array", "items": {"type": "string"}, "enum": ["x", "y"]},
         {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}),
        ({"type": "string", "default": "5", "optional": True}, {"type": "string", "default": "5"}),
    ],
)  # fmt: skip
def test_words_of_other_languages_become_json_schema(document: dict[str, Any], schema: dict[str, Any]) -> None:
    """C1"""
    assert bfcl.mapped(document) == schema


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"type": "dict", "properties": {"a": {"type": "any"}}}, "any_value"),
        ({"type": "dict", "properties": {"a": {"type": "dict"}}}, "free_object"),
        ({"type": "dict", "properties": {"a": {"type": ""}}}, "unknown_type"),
        ({"type": "array", "items": "string"}, "not_a_schema"),
    ],
)
def test_what_has_no_meaning_is_refused_and_not_guessed(document: dict[str, Any], reason: str) -> None:
    """C1"""
    with pytest.raises(bfcl.Unmapped) as refused:
        bfcl.mapped(document)
    assert refused.value.reason == reason
