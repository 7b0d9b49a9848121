"""The strict decode of raw argument text."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import json_test_suite
from fourgates.contract.canonical import canonical
from fourgates.contract.codes import Code
from fourgates.gates.format import Limits, strict_parse
from fourgates.gates.refusal import Refusal
from fourgates.gates.strict_json import SENTENCES
from support.hostile import FULL, hostile_texts, mutated
from support.shared import SHARED

SUITE = SHARED / "data" / "json-test-suite"
"""JSONTestSuite lies beside the repository, not in it."""
FILES = sorted((SUITE / "test_parsing").glob("*.json"))

suite = pytest.mark.skipif(not FILES, reason="JSONTestSuite is not laid out beside this repository")


def refusal(text: str, limits: Limits | None = None) -> tuple[str, str]:
    found = strict_parse(text, limits or Limits())
    assert isinstance(found, Refusal), found
    assert found.code is Code.INVALID_ARGUMENTS
    assert found.sentence == SENTENCES[found.reason]
    assert [(fault.field, fault.reason) for fault in found.faults] == [(found.field, found.reason)]
    return found.reason, found.field


@suite
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_of_the_suite_has_its_verdict(path: Path) -> None:
    """C5: n_ refused, y_ read save the two with a key twice, i_ as the table of decisions says."""
    wanted = json_test_suite.expected(path.name)
    assert wanted is not None, "nobody decided about this file"
    text = json_test_suite.read(path)
    found = strict_parse(text)
    if wanted == json_test_suite.READ:
        assert found == json.loads(text)
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()
    else:
        reason, _ = refusal(text)
        assert wanted in ("refused", reason)


@suite
def test_the_suite_is_whole_and_each_open_file_is_decided_with_a_reason() -> None:
    """C5: an empty folder would make the tests above say nothing."""
    kinds = [path.name[0] for path in FILES]
    assert (kinds.count("n"), kinds.count("y"), kinds.count("i")) == (188, 95, 35)
    assert {path.name for path in FILES if path.name[0] == "i"} == json_test_suite.DECISIONS.keys()
    assert all(why for _, why in json_test_suite.DECISIONS.values())


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


@pytest.mark.parametrize("name", hostile_texts(1))
def test_hostile_texts_cost_no_more_than_ten_times_their_limit(name: str) -> None:
    """C5: the size limit alone must bound the work. What it costs exactly is the bench's to say; a reader that is quadratic
    in something takes seconds."""
    text = hostile_texts()[name]
    assert len(text.encode()) <= FULL
    begun = time.thread_time()
    strict_parse(text)
    assert time.thread_time() - begun < 10 * json_test_suite.LIMIT_MS / 1e3


@pytest.mark.parametrize("seed", range(4))
def test_mutated_texts_are_read_like_the_standard_library_or_refused(seed: int) -> None:
    """C5: never a crash, and nothing accepted that another reader would see otherwise."""
    for data in mutated(CORPUS, 2_000, seed):
        text = data.decode("utf-8", "surrogateescape")
        found = strict_parse(text)
        if isinstance(found, Refusal):
            assert found.sentence == SENTENCES[found.reason]
            json.dumps([fault.field for fault in found.faults], ensure_ascii=False).encode()
        else:
            assert found == json.loads(text, object_pairs_hook=once_each)
            assert canonical(found) == canonical(json.loads(canonical(found)))


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


CORPUS = [path.read_bytes() for path in FILES if path.stat().st_size < 2_000] + [
    b'{"order_id":"#W1","items":[{"sku":"A-1","count":2,"price":19.99}],"note":"caf\xc3\xa9 \\ud83d\\ude00","gift":null}',
    b'{"a":{"b":{"c":[1,2,{"d":[true,false,null,-0.5e-3]}]}},"\xf0\x9f\x98\x80":"x"}',
    b"[9007199254740991,-9007199254740991,1e21,1e-7,0,-0]",
]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """C5: never an exception."""
    strict_parse(data.decode("utf-8", "surrogateescape"))


@given(st.binary(max_size=300))
def test_a_deep_text_is_refused_before_it_is_parsed(data: bytes) -> None:
    """C5: the depth is counted as the parser will find it, whatever stands in strings."""
    text = "".join('[]{}"\\a,'[byte % 8] for byte in data)
    limits = Limits(depth=3)
    found = strict_parse(text, limits)
    if not isinstance(found, Refusal):
        assert depth_of(found) <= 3
    elif found.reason not in ("too_deep", "duplicate_key"):
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


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
