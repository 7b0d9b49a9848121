"""The strict decode of raw argument text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract.codes import Code
from fourgates.gates.format import Limits, strict_parse
from fourgates.gates.refusal import Refusal
from fourgates.gates.strict_json import SENTENCES

SUITE = Path(__file__).parents[3] / "shared" / "data" / "json-test-suite" / "test_parsing"
"""JSONTestSuite lies beside the repository, not in it."""
DUPLICATE_KEYS = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}

suite = pytest.mark.skipif(not SUITE.is_dir(), reason="JSONTestSuite is not laid out beside this repository")


def files(kind: str) -> list[Path]:
    return sorted(SUITE.glob(f"{kind}_*.json"))


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def refusal(text: str, limits: Limits | None = None) -> tuple[str, str]:
    found = strict_parse(text, limits or Limits())
    assert isinstance(found, Refusal), found
    assert found.code is Code.INVALID_ARGUMENTS
    assert found.sentence == SENTENCES[found.reason]
    assert [(fault.field, fault.reason) for fault in found.faults] == [(found.field, found.reason)]
    return found.reason, found.field


@suite
@pytest.mark.parametrize("path", files("n"), ids=lambda path: path.stem)
def test_every_invalid_file_of_the_suite_is_refused(path: Path) -> None:
    """C5"""
    refusal(read(path))


@suite
@pytest.mark.parametrize("path", [p for p in files("y") if p.name not in DUPLICATE_KEYS], ids=lambda path: path.stem)
def test_every_valid_file_of_the_suite_is_accepted(path: Path) -> None:
    """C5"""
    assert strict_parse(read(path)) == json.loads(read(path))


@suite
@pytest.mark.parametrize("name", sorted(DUPLICATE_KEYS))
def test_the_two_duplicate_key_files_of_the_suite_are_refused(name: str) -> None:
    """C5"""
    assert refusal(read(SUITE / name)) == ("duplicate_key", "/a")


@suite
@pytest.mark.parametrize("path", files("i"), ids=lambda path: path.stem)
def test_no_file_that_is_open_to_either_crashes(path: Path) -> None:
    """C5"""
    found = strict_parse(read(path))
    if not isinstance(found, Refusal):
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


@suite
def test_the_suite_is_whole() -> None:
    """C5: an empty folder would make the tests above say nothing."""
    assert (len(files("n")), len(files("y")), len(files("i"))) == (188, 95, 35)


@pytest.mark.parametrize(
    ("text", "reason", "field"),
    [
        ('{"a":1,"a":1}', "duplicate_key", "/a"),
        ('{"a":{"b":[{},{"c":1,"d":2,"c":3}]}}', "duplicate_key", "/a/b/1/c"),
        ('{"a":1,"\\u0061":2}', "duplicate_key", "/a"),
        ('{"x/y~":{"k":1,"k":2}}', "duplicate_key", "/x~1y~0/k"),
        ("{}{}", "two_values", ""),
        ('{"a":1} 2', "two_values", ""),
        ("{} " + "9" * 5000, "trailing_text", ""),
        ('{"a":1} please', "trailing_text", ""),
        ('{"a":1}]', "trailing_text", ""),
        ('{"a":NaN}', "not_finite", "/a"),
        ('{"a":[0,-Infinity]}', "not_finite", "/a/1"),
        ('{"a":1e999}', "number_overflow", "/a"),
        ('{"a":-1e400}', "number_overflow", "/a"),
        ('{"a":9007199254740992}', "integer_out_of_range", "/a"),
        ('{"a":-9007199254740992}', "integer_out_of_range", "/a"),
        ('{"a":' + "1" * 100_000 + "}", "integer_out_of_range", "/a"),
        ('{"a":1e20}', "integer_out_of_range", "/a"),
        ('{"a":9007199254740993.0}', "integer_out_of_range", "/a"),
        ('{"a":"\\ud800"}', "lone_surrogate", "/a"),
        ('{"a":["x","\\udc00\\ud800"]}', "lone_surrogate", "/a/1"),
        ('{"a":{"\\udfff":1}}', "lone_surrogate", "/a/�"),
        ('{"a":"\ud83d"}', "lone_surrogate", "/a"),
        ('\ufeff{"a":1}', "byte_order_mark", ""),
        ("", "malformed_json", ""),
        ("   ", "malformed_json", ""),
        ("{'a':1}", "malformed_json", ""),
        ('{"a":1,}', "malformed_json", ""),
        ('{"a":01}', "malformed_json", ""),
        ('{"a":"line\nbreak"}', "malformed_json", ""),
        ('```json\n{"a":1}\n```', "malformed_json", ""),
        ('\u00a0{"a":1}', "malformed_json", ""),
    ],
)
def test_what_parsers_differ_about_is_refused_with_its_place(text: str, reason: str, field: str) -> None:
    """C5"""
    assert refusal(text) == (reason, field)


@pytest.mark.parametrize(
    "text",
    ['{"a":9007199254740991}', '{"a":-9007199254740991}', '{"a":"\\ud83d\\ude00"}', '{"a":1e21}', '{"a":1e-400}', ' {"a":-0}\n'],
)
def test_the_edge_inside_is_accepted(text: str) -> None:
    """C5"""
    assert strict_parse(text) == json.loads(text)


def test_size_is_counted_in_bytes() -> None:
    """C5"""
    assert refusal('"' + "ä" * 50 + '"', Limits(bytes=101)) == ("too_large", "")
    assert strict_parse('"' + "ä" * 50 + '"', Limits(bytes=102)) == "ä" * 50
    assert refusal(" " * 262_145) == ("too_large", "")
    assert refusal("\ud800" * 100, Limits(bytes=200)) == ("too_large", "")


def test_depth_is_counted_outside_of_texts_only() -> None:
    """C5"""
    assert strict_parse("[" * 32 + "]" * 32) is not None
    assert refusal("[" * 33 + "]" * 33) == ("too_deep", "")
    assert refusal('{"a":' * 100_000) == ("too_large", "")
    assert refusal("[" * 200_000) == ("too_deep", "")
    assert strict_parse(json.dumps(["[" * 100, '"[{\\'])) == ["[" * 100, '"[{\\']
    assert strict_parse("[" + "[]," * 100 + "[]]") == [[]] * 101


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ['"' + '\\"' * 130_000, "[" * 33 + '"\\' * 60_000, '{"a":0.' + "1" * 262_000, "1" * 262_000, '["' * 80_000]
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """C5: the size limit alone must bound the work."""
    strict_parse(text)


def test_a_long_key_does_not_make_a_long_pointer() -> None:
    """C5: the pointer holds the model's words and travels in records."""
    reason, field = refusal('{"' + "k" * 10_000 + '":NaN}')
    assert reason == "not_finite"
    assert len(field) == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(json_values, st.booleans())
def test_what_json_writes_is_read_back(value: Any, ascii_only: bool) -> None:
    """C5"""
    assert strict_parse(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(st.text(alphabet=st.sampled_from('[]{}",:\\u019-+.eE \ntfnaINd\ud800'), max_size=60))
def test_it_accepts_nothing_that_the_standard_library_refuses(text: str) -> None:
    """C5: and what it accepts, it reads alike."""
    found = strict_parse(text)
    if not isinstance(found, Refusal):
        assert found == json.loads(text)
