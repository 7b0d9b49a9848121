"""No secret comes out that is encoded, broken over lines, or inside structures inside structures; and the quick way is right."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_encoded import joined_lines, plain_base64, unquoted
from fourgates.gates.redaction_matcher import matcher_of
from fourgates.gates.redaction_patterns import CHOSEN, PATTERNS, SECRETS, Pattern

KEY = b"a placeholder key for tests"
PLAIN, ALL = Redactor(KEY, "call-1"), Redactor(KEY, "call-1", CHOSEN)
TOKEN = "ghp_" + "Zq7x" * 9
SWORDFISH = "swordfish"


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


ENCODINGS = {
    "base64": _b64,
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 in lines": lambda text: base64.encodebytes((text + " " + text + " padding " * 9).encode()).decode(),
    "base64 twice": lambda text: _b64(_b64(text)),
    "percent": lambda text: quote(text, safe=""),
    "every character percent": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "base64 in a URL": lambda text: f"https://x.example/cb?state={quote(_b64(text), safe='')}&page=2",
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"note": text})}),
    "escapes": lambda text: '{"note": "' + "".join(f"\\u{ord(c):04x}" for c in text) + '"}',
}


@pytest.mark.parametrize("how", ENCODINGS)
@pytest.mark.parametrize(
    "said", [f"password={SWORDFISH}", f"the key is {TOKEN}", '{"db_password": "swordfish"}'], ids=["name", "key", "json"]
)
def test_an_encoded_secret_never_comes_out(how: str, said: str) -> None:
    """R3"""
    encoded = ENCODINGS[how](said)
    shown = PLAIN.redact(f"before {encoded} after" if "{" not in encoded[:1] else encoded)
    assert shown.count >= 1
    assert SWORDFISH not in shown.text and TOKEN not in shown.text
    for secret in (SWORDFISH, TOKEN):
        for offset in range(3):
            core = _b64("x" * offset + secret)[4:-4]
            assert core not in shown.text, "its base64 is still there"
    assert "after" in shown.text or "{" in encoded[:1]


@pytest.mark.parametrize("at", range(1, len(TOKEN)))
@pytest.mark.parametrize("gap", ["\n", "\r\n", "\n    ", " \\\n  ", "=\n"], ids=ascii)
def test_a_key_broken_over_lines_never_comes_out(at: int, gap: str) -> None:
    """R3"""
    shown = PLAIN.redact(f"see {TOKEN[:at]}{gap}{TOKEN[at:]} here\nnext line")
    assert "Zq7x" not in shown.text and shown.text.endswith("next line")


@pytest.mark.parametrize("at", range(1, 20))
def test_a_short_key_broken_over_lines_never_comes_out(at: int) -> None:
    """R3: neither half gives a hint of its own."""
    key = "AKIA" + "Q7XB" * 4
    assert "Q7X" not in PLAIN.redact(f"see\n{key[:at]}\n{key[at:]}\nhere").text


@pytest.mark.parametrize("at", range(1, len(TOKEN)))
def test_a_key_split_by_a_terminal_sequence_never_comes_out(at: int) -> None:
    """R3"""
    for glue in ("\x1b[1;31m", "\x1b]8;;x\x07", "\u202e", "\u200b\u2060", "\U000e0041"):
        assert "Zq7x" not in PLAIN.redact(f"see {TOKEN[:at]}{glue}{TOKEN[at:]} here").text


@pytest.mark.parametrize(
    "place", ['{"%s": 1}', '{"a": {"x %s y": null}}', '[["%s", 2]]', "X-Trace: %s", "Location: /cb?t=%s&u=1", "<a k='%s'/>"]
)
def test_a_key_in_a_members_name_or_a_header_never_comes_out(place: str) -> None:
    """R3"""
    assert "Zq7x" not in PLAIN.redact(place % TOKEN).text


@pytest.mark.parametrize(
    "text",
    [
        "see docs/guides/getting-started/installation-and-upgrade.md", "a hash 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "100%25 sure, 50%20off", "task-\nforce and\nmore", _b64("The quick brown fox jumps over the lazy dog."),
        "caf%C3%A9 au lait", "line one ends with key-\nword and goes on",
    ],
)  # fmt: skip
def test_what_is_encoded_and_no_secret_stays_byte_for_byte(text: str) -> None:
    """R4"""
    assert PLAIN.redact(text).text == text


_WORDS = st.sampled_from(
    ["password", "pass", "sid", "session_token", "cookie", "X-Api-Key", "apiKey", "name", "value", "key", "note", "phone", "card"]
)
_VALUES = (
    st.sampled_from(
        [SWORDFISH, TOKEN, "a" * 30, "4fA7bQ9cZ2dK8eM3aR5t", "4111 1111 1111 1111", "x", "", "anna@shop.example", 5551234]
    )
    | st.integers()
    | st.none()
    | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=12)
)
_DOCUMENTS = st.recursive(
    _VALUES, lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(_WORDS, inner).map(list), max_size=2)
    | st.dictionaries(_WORDS, inner, max_size=3), max_leaves=8,
)  # fmt: skip


@given(_DOCUMENTS, st.booleans())
@settings(max_examples=200)
def test_the_quick_way_takes_out_what_the_whole_way_takes_out(document: object, personal: bool) -> None:
    """R3: a text without any hint is not looked at further, so every telling place must have a hint."""
    redactor = ALL if personal else PLAIN
    whole, _ = redactor.redact_json(document)
    shown = redactor.redact(json.dumps(document, ensure_ascii=False)).text
    try:
        assert json.loads(shown) == whole or isinstance(document, str)
    except ValueError:
        assert isinstance(document, str)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda p: f"{p.kind}-{p.sample[1][:10].strip()}")
def test_every_match_contains_its_hint(pattern: Pattern) -> None:
    """R3"""
    matcher = matcher_of(frozenset((*SECRETS, *CHOSEN)))
    assert matcher.has_form("".join(pattern.sample))


@given(st.text(alphabet="ab%4127\n =/+Zz", max_size=60))
def test_the_ways_back_lead_to_the_same_characters(text: str) -> None:
    for view in unquoted(text):
        for at, character in enumerate(view.text):
            raw = text[view.raw(at) : view.raw_end(at + 1)]
            assert raw == character or (len(raw) == 3 and chr(int(raw[1:], 16)) == character)
    joined = joined_lines(text)
    for at, character in enumerate(joined.text if joined else ""):
        assert joined is not None and text[joined.raw(at) : joined.raw_end(at + 1)] == character
    for start, end, _ in plain_base64(text):
        assert 0 <= start < end <= len(text)
