"""What is invisible goes, what is visible and structure stay."""

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.gates.text import clean

_VISIBLE_SIGNS = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}


def test_every_invisible_character_inside_a_word_is_removed() -> None:
    """R4"""
    left = [
        point
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        and chr(point) not in "\t\n"
        and clean(f"ab{chr(point)}cd") != "abcd"
    ]
    assert set(left) == _VISIBLE_SIGNS


@pytest.mark.parametrize("point", [0x34F, 0x115F, 0x3164, 0xFFA0, 0xFE0F, 0xE0041, 0xE0100, 0x2065, 0x180B, 0xFFFE, 0x1FFFF])
def test_fillers_selectors_tags_and_noncharacters_are_removed(point: int) -> None:
    """R4"""
    assert clean(f"ab{chr(point)}cd") == "abcd"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]8;;http://x.example\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\x07text", "text"),
        ("a\x1b(Bb", "ab"),
        ("\x1b[3\u200b1mred", "red"),
        ("one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        ("(1)\r(2)", "(1)\n(2)"),
        ("page one.\n\x0cpage two", "page one.\n\npage two"),
        ("a\tb\n  c", "a\tb\n  c"),
        ("\ud83d\ude00 \ud800x", "😀 x"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("caf\u00e9 e\u0301 日本 🇩🇪", "caf\u00e9 e\u0301 日本 🇩🇪"),
    ],
)
def test_structure_and_visible_text_stay(raw: str, shown: str) -> None:
    """R4"""
    assert clean(raw) == shown


@given(st.text() | st.text(alphabet="a\x1b[]\\31m\r\n\x07\u200b\x85 \ud800"))
def test_cleaning_twice_changes_nothing_more(text: str) -> None:
    """R4"""
    once = clean(text)
    assert clean(once) == once
    once.encode()


@pytest.mark.parametrize("unit", ["\x1b", "\x1b[", "\x1b]", "\r", "\r\x85", "\x1b[0", "\u200b\r"])
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    """A quadratic form would take minutes here and run into the test's timeout."""
    clean(unit * 300_000)
