"""Text as a person must see it before they decide: whatever has no shape of its own gets one, nothing is taken out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import regex

# Control, format (bidi, zero width, tags), private, unassigned, every space but the plain one, fillers, variation selectors.
_UNSEEN = regex.compile(r"[[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]--[ \n]]", regex.V1)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of plain text, or one character that would not be seen."""

    text: str
    name: str = ""
    """Unicode name of a character that would not be seen; empty for plain text."""

    @property
    def code(self) -> str:
        """`U+202E`"""
        return f"U+{ord(self.text):04X}"


def pieces(text: str) -> Iterator[Piece]:
    """The text in order, whole; plain spaces and line ends stay as they are."""
    start = 0
    for match in _UNSEEN.finditer(text):
        if match.start() > start:
            yield Piece(text[start : match.start()])
        yield Piece(match.group(), unicodedata.name(match.group(), "a character without a name"))
        start = match.end()
    if start < len(text):
        yield Piece(text[start:])


def as_text(text: str) -> str:
    """For a terminal: each unseen character as `<U+202E>`."""
    return "".join(f"<{piece.code}>" if piece.name else piece.text for piece in pieces(text))
