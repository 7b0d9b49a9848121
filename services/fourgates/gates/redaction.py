"""Takes secrets out of text and JSON, and whatever else a tool's contract names: personal data, passwords made of words.

Text is cleaned first, so that a secret split by invisible characters is whole again; JSON is read as JSON, so that escapes hide
nothing and the name of a member tells about its value. Redacting twice changes nothing more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fourgates.contract.errors import ConfigurationError
from fourgates.gates.redaction_json import MAX_DEPTH, Walk, container, dump
from fourgates.gates.redaction_marks import placeholder
from fourgates.gates.redaction_matcher import Find, matcher_of
from fourgates.gates.redaction_patterns import CHOSEN, SECRETS
from fourgates.gates.text import clean

T = TypeVar("T")

_ROUNDS = 16
_INVISIBLE = r"(?i:00[01][0-8b-cef]|007f|00ad|034f|061c|180e|200[b-f]|202[a-e]|206[0-9a-f]|fe0[0-9a-f]|feff)"
_ESCAPED = re.compile(rf"\\u{_INVISIBLE}(?:\\u{_INVISIBLE})*(?=[\w./+=-])")
_BEFORE_ESCAPED = re.compile(r"[\w./+=-]")
_ENDS_OF_JSON = ("}", "]", " ", "\t")
_LINE_OF_JSON = re.compile(r"^[ \t]*[\[{]", re.M)


@dataclass(frozen=True, slots=True)
class Redacted:
    """Text that may be shown, and how many places of it were taken out."""

    text: str
    count: int


class Redactor:
    """Redacts for one call. `key` is the environment's placeholder key, `kinds` what the contract names.

    Raises ConfigurationError for a kind that does not exist.
    """

    def __init__(self, key: bytes, call_id: str, kinds: Collection[str] = ()) -> None:
        if kinds and (unknown := set(kinds) - set(CHOSEN)):
            raise ConfigurationError(f"redact: unknown kinds {sorted(unknown)}; there are {', '.join(CHOSEN)}")
        self._key, self._call_id = key, call_id
        self._chosen = frozenset(kinds)
        self._matcher = matcher_of(self._chosen.union(SECRETS))
        self._json = Walk(self._chosen, self._matcher, self._text, self._lines, self.placeholder)

    def redact(self, text: str, finds: Sequence[Find] | None = None) -> Redacted:
        """The cleaned text without secrets. Text that is JSON stays JSON.

        `finds` is what `finds` says of this very text, where it has been asked already.
        """
        text = clean(text)
        # An escape could hide a hint; without one, what stands in the text is what its JSON says.
        if "\\" not in text and not finds and not self._matcher.may_hold(text):
            return Redacted(text, 0)
        shown, count = self._settled(text, lambda value: self._text(value, 0, finds if value is text else None), str)
        return Redacted(shown, count)

    def holds_nothing(self, text: str) -> bool:
        """True where certainly nothing would change in text, or in the JSON value that it is. False says nothing."""
        shallow = text.count("[") + text.count("{") < MAX_DEPTH
        # An escape could hide a hint; without one, what stands in the text is what its JSON says.
        return shallow and "\\" not in text and clean(text) == text and not self._matcher.may_hold(text)

    def redact_json(self, value: Any) -> tuple[Any, int]:
        """(the JSON value with every string redacted, how many places). Keys stay, unless a key itself holds a secret."""
        return self._settled(value, lambda inner: self._json.value(inner, 0), lambda inner: json.dumps(inner, default=str))

    def finds(self, text: str) -> list[Find]:
        """(start, end, kind) of what is found in cleaned text as text, whatever structure it has."""
        return self._matcher.spans(text)

    def placeholder(self, kind: str, value: str) -> str:
        """What stands in place of `value`."""
        return placeholder(self._key, self._call_id, kind, value)

    def _settled(self, value: T, once: Callable[[T], tuple[T, int]], as_text: Callable[[T], str]) -> tuple[T, int]:
        """Until nothing more is found: what was taken out may have hidden its neighbour from a pattern."""
        total = 0
        for _ in range(_ROUNDS):
            before, (value, count) = value, once(value)
            if value == before:
                return value, total
            total += count
        # Only text that is made for it needs so many rounds; it is not worth showing.
        return self.placeholder("secret", as_text(value)), total + 1  # type: ignore[return-value]  # text stands for any JSON

    def _text(self, text: str, depth: int, finds: Sequence[Find] | None = None) -> tuple[str, int]:
        if (parsed := container(text)) is not None and depth < MAX_DEPTH:
            value, count = self._json.value(parsed.value, depth + 1)
            exact = count == 0 and not parsed.repeats and value == parsed.value
            return (text, 0) if exact else (dump(value, text), count)
        return self._lines(text, depth, finds)

    def _lines(self, text: str, depth: int, finds: Sequence[Find] | None = None) -> tuple[str, int]:
        """Text that is not JSON as a whole; a log of JSON lines is read line by line first."""
        total, given = 0, text
        if depth < MAX_DEPTH and "\n" in text and _LINE_OF_JSON.search(text):
            lines = text.split("\n")
            for number, line in enumerate(lines):
                if line.endswith(_ENDS_OF_JSON) and container(line) is not None:
                    lines[number], count = self._text(line, depth + 1)
                    total += count
            text = "\n".join(lines)
        if "\\u" in text:
            text = _ESCAPED.sub(_inside_a_word, text)
        spans = finds if finds is not None and text == given else self._matcher.spans(text)
        if not spans:
            return text, total
        out, end = [], 0
        for a, b, kind in spans:
            out += [text[end:a], self.placeholder(kind, text[a:b])]
            end = b
        return "".join(out) + text[end:], total + len(spans)


def _inside_a_word(found: re.Match[str]) -> str:
    """Nothing in place of an escaped invisible character that splits a word; elsewhere it stays."""
    return "" if found.start() and _BEFORE_ESCAPED.match(found.string, found.start() - 1) else found[0]
