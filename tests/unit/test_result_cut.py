"""A result is never longer than its limit, is cut on grapheme bounds, and says what is missing."""

from __future__ import annotations

import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.catalog import OutputLimit
from fourgates.gates.redaction import Redactor
from fourgates.gates.result import Cut, cut
from fourgates.gates.text import clean

REF = "f" * 64
_TEXTS = st.text(max_size=400).map(clean) | st.text(alphabet="ab\n é日e\u0301🇩🇪👍🏽한ก็", max_size=600).map(clean)
_LIMITS = st.builds(OutputLimit, st.integers(0, 500), st.none() | st.integers(0, 12))
_MARK = re.compile(r"\[(\d+) of (\d+) bytes are missing here(?:; the whole result is stored as [0-9a-f]+)?\]|\[…\]")


@given(_TEXTS, _LIMITS)
@settings(max_examples=500)
def test_never_longer_than_the_limit_and_cutting_twice_changes_nothing(text: str, limit: OutputLimit) -> None:
    """R1"""
    shown = cut(text, limit, REF)
    assert len(shown.text.encode()) <= limit.bytes
    if limit.lines is not None:
        assert not shown.text or shown.text.count("\n") < max(1, limit.lines)
    assert cut(shown.text, limit, REF).text == shown.text


@given(_TEXTS, st.integers(20, 400), st.none() | st.integers(1, 9))
@settings(max_examples=500)
def test_head_and_tail_are_whole_graphemes_and_the_mark_counts_what_is_missing(text: str, size: int, lines: int | None) -> None:
    """R1"""
    shown = cut(text, OutputLimit(size, lines), REF)
    if not shown.truncated:
        assert shown == Cut(text, False, 0)
        return
    mark = _MARK.search(shown.text)
    between = "" if lines == 1 else "\n"
    if mark is None:
        head, tail = shown.text, ""
    else:
        head = shown.text[: mark.start()].removesuffix(between)
        tail = shown.text[mark.end() :].removeprefix(between)
    assert text.startswith(head) and text.endswith(tail)
    bounds = {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}
    assert len(head) in bounds and len(text) - len(tail) in bounds
    assert shown.missing_bytes == len(text.encode()) - len(head.encode()) - len(tail.encode()) > 0
    if mark is not None and mark[1]:
        assert (int(mark[1]), int(mark[2])) == (shown.missing_bytes, len(text.encode()))


def test_head_and_tail_are_kept_and_the_mark_says_where_the_rest_is() -> None:
    """R1, R2"""
    text = "\n".join(f"line {n}" for n in range(1, 1001))
    shown = cut(text, OutputLimit(600), REF).text
    assert shown.startswith("line 1\nline 2\n") and shown.endswith("line 999\nline 1000")
    assert f"the whole result is stored as {REF}]" in shown
    by_lines = cut(text, OutputLimit(100_000, lines=7), REF).text.split("\n")
    assert by_lines[:4] == ["line 1", "line 2", "line 3", "line 4"]
    assert by_lines[5:] == ["line 999", "line 1000"] and len(by_lines) == 7


@pytest.mark.parametrize("size", range(0, 37))
def test_a_limit_too_small_for_the_mark_still_holds(size: int) -> None:
    """R1"""
    shown = cut("äöü" * 100, OutputLimit(size), REF)
    assert len(shown.text.encode()) <= size and shown.truncated
    assert ("[…]" in shown.text) == (size >= 7)


@pytest.mark.parametrize("size", range(1, 420))
def test_a_secret_never_comes_out_whole_or_in_parts_wherever_the_cut_falls(size: int) -> None:
    """R3"""
    secret = "ghp_" + "Zq7" * 12
    text = "x" * 150 + f" token {secret[:9]}\u200b{secret[9:]} " + "y" * 150
    shown = cut(Redactor(b"k", "c").redact(text).text, OutputLimit(size), "")
    assert "Zq7" not in shown.text and "ghp_" not in shown.text


@pytest.mark.parametrize("size", range(60, 420))
def test_a_placeholder_is_shown_whole_or_not_at_all(size: int) -> None:
    """R3"""
    text = Redactor(b"k", "c").redact("x" * 100 + "\npassword=swordfish\n" * 4 + "y" * 100).text
    shown = cut(text, OutputLimit(size), "").text
    assert len(re.findall(r"\[redacted:secret:[0-9a-f]{6}\]", shown)) == shown.count("[red") == shown.count("redacted")
    assert not re.search(r"(?<![0-9])[0-9a-f]{1,5}\](?!\n)", shown.replace("missing here]", ""))


def test_a_long_text_without_plain_letters_is_cut_in_linear_time() -> None:
    flags = "🇩🇪" * 100_000
    head, _, tail = cut(flags, OutputLimit(1000), "").text.split("\n")
    assert head and set(regex.findall(r"\X", head)) == {"🇩🇪"} == set(regex.findall(r"\X", tail))
