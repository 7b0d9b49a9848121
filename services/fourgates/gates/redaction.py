"""Takes secrets out of text and JSON, and the kinds of personal data that a tool's contract names.

Text is cleaned first, so that a secret split by invisible characters is whole again; JSON is read as JSON, so that escapes hide
nothing and the name of a member tells about its value. Each place becomes `[redacted:kind:xxxxxx]`, where the six digits are a
keyed digest of the value: the same value of the same call gets the same ones, and nobody without the key can try values.
Redacting twice changes nothing more.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import re2

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ids import length_prefixed
from fourgates.gates.redaction_names import is_map_of_secrets, kind_named
from fourgates.gates.redaction_patterns import PATTERNS, PERSONAL, SECRETS, Pattern
from fourgates.gates.text import clean

T = TypeVar("T")

MAX_DEPTH = 64
"""Deeper JSON is flattened to text before it is looked at."""
_ROUNDS = 16
_HINT_MEMORY = 64 << 20
_SHORTEST = 5
"""No form is shorter than `pwd=x`."""
_CANARY = "\x01"
"""Ends every text that the hints are tried on: a set that ran out of memory says "nothing", and would miss this as well."""
_PLACEHOLDER = re.compile(rf"\[redacted:(?:{'|'.join((*SECRETS, *PERSONAL))}):[0-9a-f]{{6}}\]")
_LONGEST_PLACEHOLDER = len("[redacted::xxxxxx]") + max(len(kind) for kind in (*SECRETS, *PERSONAL))
_ANY_PLACEHOLDER = re.compile(r"\[\s*redacted\s*:\s*[a-z_]+\s*:\s*[0-9a-f]{6}\s*\]", re.IGNORECASE)
_ESCAPED = re.compile(
    r"(?<=[\w./+=-])(?:\\u(?:00[01][0-8b-cef]|007f|00ad|034f|061c|180e|200[b-f]|202[a-e]|206[0-9a-f]|fe0[0-9a-f]|feff))+(?=[\w./+=-])",
    re.I,
)
_NAME_MEMBERS, _VALUE_MEMBERS = ("name", "key", "header", "variable"), ("value", "val", "content", "default")


@dataclass(frozen=True, slots=True)
class Redacted:
    """Text that may be shown, and how many places of it were taken out."""

    text: str
    count: int


class _Matcher:
    """The patterns of some kinds: one pass over all hints, then only the forms that can occur."""

    def __init__(self, kinds: frozenset[str]) -> None:
        options = re2.Options()
        options.max_mem = _HINT_MEMORY
        options.log_errors = False
        self.patterns: list[tuple[Pattern, Any]] = []
        self._hints = re2.Set.SearchSet(options)
        for pattern in PATTERNS:
            if pattern.kind in kinds:
                self._hints.Add(pattern.hint)
                self.patterns.append((pattern, re2.compile(pattern.exact)))
        self._canary = self._hints.Add(_CANARY)
        self._hints.Compile()

    def spans(self, text: str) -> list[tuple[int, int, str]]:
        """What has to go, in order, without overlaps; of overlapping finds the first kind in the list names the whole."""
        if len(text) < _SHORTEST:
            return []
        bare = _PLACEHOLDER.sub("\n", text) if "[redacted:" in text else text
        hit = set(self._hints.Match(bare + _CANARY) or ())
        if self._canary in hit:
            hit.remove(self._canary)
        else:
            hit = set(range(len(self.patterns)))
        if not hit:
            return []
        found: list[tuple[int, int, int]] = []
        for start, piece in _pieces(text):
            for index in sorted(hit):
                pattern, exact = self.patterns[index]
                for match in exact.finditer(piece):
                    found += [(start + a, start + b, index) for a, b in pattern.find(match) if b > a]
        return [(a, b, self.patterns[index][0].kind) for a, b, index in _merged(sorted(found))]


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text between placeholders, with where each piece begins: what was redacted is never looked at again."""
    start = 0
    for placeholder in _PLACEHOLDER.finditer(text):
        yield start, text[start : placeholder.start()]
        start = placeholder.end()
    yield start, text[start:]


def _merged(found: list[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    held: tuple[int, int, int] | None = None
    for a, b, index in found:
        if held is not None and a < held[1]:
            held = held[0], max(b, held[1]), min(index, held[2])
            continue
        if held is not None:
            yield held
        held = a, b, index
    if held is not None:
        yield held


@lru_cache(maxsize=32)
def _matcher(kinds: frozenset[str]) -> _Matcher:
    return _Matcher(kinds)


class Redactor:
    """Redacts for one call. `key` is the environment's placeholder key, `kinds` the personal data that the contract names.

    Raises ConfigurationError for a kind that does not exist.
    """

    def __init__(self, key: bytes, call_id: str, kinds: Collection[str] = ()) -> None:
        if unknown := set(kinds) - set(PERSONAL):
            raise ConfigurationError(f"redact: unknown kinds {sorted(unknown)}; there are {', '.join(PERSONAL)}")
        self._key, self._call_id = key, call_id
        self._personal = frozenset(kinds)
        self._matcher = _matcher(frozenset(SECRETS) | self._personal)

    def redact(self, text: str) -> Redacted:
        """The cleaned text without secrets. Text that is JSON stays JSON."""
        shown, count = self._settled(clean(text), lambda value: self._text(value, 0), str)
        return Redacted(shown, count)

    def redact_json(self, value: Any) -> tuple[Any, int]:
        """(the JSON value with every string redacted, how many places). Keys stay, unless a key itself holds a secret."""
        return self._settled(value, lambda inner: self._walk(inner, 0), lambda inner: json.dumps(inner, default=str))

    def _settled(self, value: T, once: Callable[[T], tuple[T, int]], flat: Callable[[T], str]) -> tuple[T, int]:
        """Until nothing more is found: what was taken out may have hidden its neighbour from a pattern."""
        total = 0
        for _ in range(_ROUNDS):
            before, (value, count) = value, once(value)
            if value == before:
                return value, total
            total += count
        # Only text that is made for it needs so many rounds; it is not worth showing.
        return self._placeholder("secret", flat(value)), total + 1  # type: ignore[return-value]  # text stands for any JSON

    def _text(self, text: str, depth: int) -> tuple[str, int]:
        if (parsed := _container(text)) is not None and depth < MAX_DEPTH:
            value, count = self._walk(parsed.value, depth + 1)
            exact = count == 0 and not parsed.repeats and value == parsed.value
            return (text, 0) if exact else (_dump(value, text), count)
        return self._lines(text, depth)

    def _lines(self, text: str, depth: int) -> tuple[str, int]:
        """Text that is not JSON as a whole; a log of JSON lines is read line by line first."""
        total = 0
        if depth < MAX_DEPTH and "\n" in text and re.search(r"^[ \t]*[\[{]", text, re.M):
            lines = text.split("\n")
            for number, line in enumerate(lines):
                if _container(line) is not None:
                    lines[number], count = self._text(line, depth + 1)
                    total += count
            text = "\n".join(lines)
        if "\\u" in text:
            text = _ESCAPED.sub("", text)
        spans = self._matcher.spans(text)
        if not spans:
            return text, total
        out, end = [], 0
        for a, b, kind in spans:
            out += [text[end:a], self._placeholder(kind, text[a:b])]
            end = b
        return "".join(out) + text[end:], total + len(spans)

    def _walk(self, value: Any, depth: int, name: str | None = None) -> tuple[Any, int]:
        """`name` is the member that the value stands under, where it tells about everything below it."""
        if isinstance(value, str):
            return self._leaf(value, name, depth)
        if isinstance(value, bool) or value is None:
            return value, 0
        if isinstance(value, int | float):
            return self._number(value, name)
        if depth >= MAX_DEPTH:
            return self._lines(_flat(value), depth)
        if isinstance(value, dict):
            return self._object(value, depth, name)
        total, items = 0, []
        pairs = bool(value) and all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value)
        for item in value:
            if pairs:
                shown, count = self._walk(item[1], depth + 1, item[0])
                first, more = self._leaf(item[0], None, depth)
                items.append([first, shown])
                count += more
            else:
                shown, count = self._walk(item, depth + 1, name)
                items.append(shown)
            total += count
        return items, total

    def _object(self, value: dict[str, Any], depth: int, name: str | None) -> tuple[dict[str, Any], int]:
        total = 0
        shown: dict[str, Any] = {}
        named = _named_value(value)
        for key, inner in value.items():
            told = named[1] if named is not None and key == named[0] else key
            if name is not None and is_map_of_secrets(name):
                told = name  # `cookies`: what stands under it is named by it, whatever it is called itself
            new_key, more = self._lines(clean(key), MAX_DEPTH)
            new, count = self._walk(inner, depth + 1, told)
            shown[_free(new_key, shown)] = new
            total += count + more
        return shown, total

    def _leaf(self, text: str, name: str | None, depth: int) -> tuple[str, int]:
        text = clean(text)
        if name is not None and text.strip() and not _PLACEHOLDER.fullmatch(text):
            kind = kind_named(clean(name), text, self._personal)
            if kind is not None:
                return self._placeholder(kind, text), 1
        return self._text(text, depth + 1)

    def _number(self, value: float, name: str | None) -> tuple[Any, int]:
        """A number is a secret by its name, or a card or phone by its digits."""
        text = str(value)
        kind = kind_named(clean(name), text, self._personal) if name is not None else None
        if kind is None and self._personal and (spans := self._matcher.spans(text)):
            kind = spans[0][2]
        return (value, 0) if kind is None else (self._placeholder(kind, text), 1)

    def _placeholder(self, kind: str, value: str) -> str:
        data = length_prefixed(("fourgates.placeholder.v1", self._call_id, value))
        return f"[redacted:{kind}:{hmac.digest(self._key, data, 'sha256')[:3].hex()}]"


@dataclass(frozen=True, slots=True)
class _Parsed:
    value: Any
    repeats: bool
    """A key stood twice in an object: the text says more than the value."""


def _container(text: str) -> _Parsed | None:
    """The object or array that the text is; None where it is anything else."""
    if not text or text[0] not in "{[ \t\n":
        return None
    bare = text.strip(" \t\n")
    if len(bare) < 2 or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return None
    repeats = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        value = dict(pairs)
        repeats = repeats or len(value) != len(pairs)
        return value

    try:
        return _Parsed(json.loads(bare, object_pairs_hook=members), repeats)
    except (ValueError, RecursionError):
        return None


def _dump(value: Any, like: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2 if "\n" in like.strip() else None)


def _flat(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "[nested too deeply]"


def _free(key: str, taken: dict[str, Any]) -> str:
    """The key, or a numbered one where cleaning made two keys the same."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = f"{key} ({number})"
    return free


def _named_value(value: dict[str, Any]) -> tuple[str, str] | None:
    """(member that holds the value, its name) of `{"name": "DB_PASSWORD", "value": ...}`."""
    name = next((value[key] for key in _NAME_MEMBERS if isinstance(value.get(key), str)), None)
    member = next((key for key in _VALUE_MEMBERS if key in value), None)
    return (member, name) if name is not None and member is not None else None


def placeholder_around(text: str, at: int) -> tuple[int, int] | None:
    """The placeholder that a cut at `at` would tear, as (start, end)."""
    first = max(0, at - _LONGEST_PLACEHOLDER)
    for found in _PLACEHOLDER.finditer(text, first, at + _LONGEST_PLACEHOLDER):
        if found.start() < at < found.end():
            return found.span()
    return None


def has_placeholder(arguments: Any) -> bool:
    """True where a model hands a placeholder back in a JSON value or in raw text. No write may take it for the value."""
    if isinstance(arguments, str):
        return _ANY_PLACEHOLDER.search(clean(arguments)) is not None
    if isinstance(arguments, dict):
        return any(has_placeholder(part) for item in arguments.items() for part in item)
    return isinstance(arguments, list | tuple) and any(has_placeholder(item) for item in arguments)


def prove() -> None:
    """Every kind is found in a sample, also split by an invisible character. ConfigurationError names the first that is not.

    A redaction that silently finds nothing looks like a clean result, so a process proves it before it starts.
    """
    redactor = Redactor(b"prove", "prove", PERSONAL)
    for pattern in PATTERNS:
        before, first, second, after = pattern.sample
        for glue in ("", "\u200b", "\U000e0041"):
            shown = redactor.redact(f"{before}{first}{glue}{second}{after}")
            if second.strip() in shown.text or not shown.count:
                raise ConfigurationError(
                    f"redaction of {pattern.kind} is out of order: {pattern.exact[:60]!r} finds nothing; do not start"
                )
    if (plain := "order A-1001 of 2024-01-02: 3 items, 59.90 EUR").strip() != redactor.redact(plain).text:
        raise ConfigurationError("redaction is out of order: it changes plain text; do not start")
