"""The schema engine against the suite that every implementation is held to."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora import json_schema_suite
from support.packages import NotFetched


@pytest.fixture(scope="module")
def suite() -> Path:
    try:
        return json_schema_suite.fetched()
    except NotFetched as fault:
        pytest.skip(str(fault))


def test_the_engine_passes_with_the_suites_own_settings(suite: Path) -> None:
    """C6"""
    figures = json_schema_suite.with_the_suites_settings(suite, "*.json", formats=False)
    assert figures == {"tests": 1257, "passed": 1257, "failed": []}


def test_the_engine_passes_with_formats_asserted(suite: Path) -> None:
    """C6"""
    figures = json_schema_suite.with_the_suites_settings(suite, "optional/format/*.json", formats=True)
    assert figures == {"tests": 491, "passed": 491, "failed": []}


def test_what_our_settings_change_is_listed_test_by_test_with_the_reason(suite: Path) -> None:
    """C5, C6: written again by `json_schema_suite.py --stricter`; a change of the engine or of the closing shows here."""
    listed = json_schema_suite.STRICTER.read_text(encoding="utf-8").splitlines()
    assert listed == [json_schema_suite.HEAD, *json_schema_suite.changes(suite)]
    assert not [line for line in listed if "\t? " in line], "without a reason"


def test_no_setting_of_ours_accepts_what_the_suite_refuses() -> None:
    """C5, C6"""
    lines = json_schema_suite.STRICTER.read_text(encoding="utf-8").splitlines()[1:]
    assert [line for line in lines if line.split("\t")[5] == "valid"] == []
