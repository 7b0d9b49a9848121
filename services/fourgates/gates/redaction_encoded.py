"""Views of a text in which a secret shows that its spelling hides: base64, percent encoding, a line break in its middle."""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterator

import re2

from fourgates.gates.redaction_matches import matches, subject_of

ENCODED_HINTS = (r"%[0-9A-Fa-f]{2}", r"[0-9A-Za-z+/_-]{20}", r"\\[nrt]", r"\\u[0-9A-Fa-f]{4}")
"""Where none of these occurs there is nothing to undo: percent encoding; every run that could be base64, and any long key;
printed line breaks; escapes."""

_BASE64 = re2.compile(r"[0-9A-Za-z+/_-]{16,}(?:\n[0-9A-Za-z+/_-]+)*={0,2}")
_TEXT = re.compile(r"[\t\n\r\x20-\x7e\u00a0-\uffff]+")
_PERCENT = re2.compile(r"[^\s\"'<>%]*(?:%[0-9A-Fa-f]{2}[^\s\"'<>%]*)+")
_PARAMETER = re.compile(r"[?&;=]([^?&;=]*%[0-9A-Fa-f]{2}[^?&;]*)")
_PRINTED = re.compile(r"\\([nrt])")
_MEANT = {"n": "\n", "r": "\n", "t": "\t"}
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_NEXT_LINE = re.compile(r"\n[ \t]*(?=[0-9A-Za-z_\-+/=.])")
_OF_A_KEY = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-+/=.")


class View:
    """A text derived from another by leaving out or shortening parts, with the way back."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._starts: list[int] = []
        self._raws: list[tuple[int, int]] = []
        self._size = 0

    def add(self, part: str, raw: int, end: int) -> None:
        """The next part, which stands at raw to end in the original: of the same length there, or one character."""
        self._parts.append(part)
        self._starts.append(self._size)
        self._raws.append((raw, end))
        self._size += len(part)

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def raw(self, at: int) -> int:
        """The place in the original of the character at `at`."""
        part = bisect_right(self._starts, at) - 1
        return self._raws[part][0] + at - self._starts[part]

    def raw_end(self, end: int) -> int:
        """Where in the original ends what ends at `end` here."""
        part = bisect_right(self._starts, end - 1) - 1
        inside = end - self._starts[part]
        return self._raws[part][1] if inside == len(self._parts[part]) else self._raws[part][0] + inside

    def crosses(self, start: int, end: int) -> bool:
        """Whether more than one part takes part."""
        return bisect_right(self._starts, start) != bisect_right(self._starts, end - 1)


def plain_base64(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, what it says) of each run of base64 that holds text."""
    for run in matches(_BASE64, text, subject_of(text)):
        bare = "".join(run.group(0).split()).rstrip("=").replace("-", "+").replace("_", "/")
        if len(bare) % 4 == 1:
            bare = bare[:-1]
        try:
            said = base64.b64decode(bare + "=" * (-len(bare) % 4)).decode()
        except (binascii.Error, ValueError):
            continue
        if _TEXT.fullmatch(said):
            yield *run.span(), said


def unquoted(text: str) -> Iterator[View]:
    """Each token with percent escapes, these undone, and each of its parameters by itself.

    Bytes beyond ASCII stand as the Latin-1 characters of the same number.
    """
    for token in matches(_PERCENT, text, subject_of(text)):
        start, end = token.span()
        yield _undone(text, start, end)
        for parameter in _PARAMETER.finditer(text, start, end):
            yield _undone(text, *parameter.span(1))


def _undone(text: str, start: int, end: int) -> View:
    view, last = View(), start
    for escape in _ESCAPE.finditer(text, start, end):
        if escape.start() > last:
            view.add(text[last : escape.start()], last, escape.start())
        view.add(chr(int(escape[1], 16)), escape.start(), escape.end())
        last = escape.end()
    if last < end:
        view.add(text[last:end], last, end)
    return view


def unprinted(text: str) -> Iterator[View]:
    """The lines in which a program printed line breaks and tabs as `\\n` and `\\t`, these undone; with the line after each."""
    at = 0
    while printed := _PRINTED.search(text, at):
        last = text.rfind("\n", at, printed.start()) + 1 or at
        view, at = View(), 0
        while printed is not None and (not at or printed.start() < at):
            if printed.start() > last:
                view.add(text[last : printed.start()], last, printed.start())
            view.add(_MEANT[printed[1]], printed.start(), printed.end())
            last = printed.end()
            at = _end_of_next_line(text, last)
            printed = _PRINTED.search(text, last)
        if last < at:
            view.add(text[last:at], last, at)
        yield view


def _end_of_next_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    end = text.find("\n", end + 1) if end >= 0 else end
    return end if end >= 0 else len(text)


def without_breaks(text: str) -> str:
    """Roughly what `joined_lines` gives, and much quicker: what has no hint here has none there."""
    return "".join([line.strip(" \t=\\") for line in text.split("\n")])


def joined_lines(text: str) -> View | None:
    """The text without the breaks that could stand inside a key; None where it has none."""
    view, last = View(), 0
    for gap in _NEXT_LINE.finditer(text):
        end = gap.start()
        if text[end - 1 : end] == "\\":  # a shell's way to go on, as `=` is that of a mail
            end -= 1
        while text[end - 1 : end] in (" ", "\t"):
            end -= 1
        if text[end - 1 : end] == "=":
            end -= 1
        if end > last and text[end - 1] in _OF_A_KEY:
            view.add(text[last:end], last, end)
            last = gap.end()
    if not last:
        return None
    view.add(text[last:], last, len(text))
    return view
