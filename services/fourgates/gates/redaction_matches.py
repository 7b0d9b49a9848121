"""RE2's matches over text, in places of the text: RE2 itself counts bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


class Match:
    """What a form found. As a match of `re`, as far as the forms need it."""

    __slots__ = ("_spans", "string")

    def __init__(self, string: str, spans: Sequence[tuple[int, int]]) -> None:
        self.string, self._spans = string, spans

    def span(self, group: int = 0) -> tuple[int, int]:
        return self._spans[group]

    def start(self) -> int:
        return self._spans[0][0]

    def end(self) -> int:
        return self._spans[0][1]

    def group(self, group: int = 0) -> str:
        start, end = self._spans[group]
        return self.string[start:end]

    @property
    def last(self) -> int:
        """The last group that took part; 0, the whole, where there is none."""
        return max((number for number, (start, _) in enumerate(self._spans) if start >= 0), default=0)


def subject_of(text: str) -> str | bytes:
    """What a form that speaks of ASCII only is tried on: a byte for each character, so that places need no counting."""
    # These two are letters of ASCII to a form that does not tell capitals apart.
    return text if "\u017f" in text or "\u212a" in text else text.encode("ascii", "replace")


def matches(form: Any, text: str, subject: str | bytes) -> Iterator[Match]:
    """All matches of a compiled RE2, from left to right, in the text or in what `subject_of` makes of it."""
    groups = range(form.groups + 1)
    for found in form.finditer(subject):
        yield Match(text, [found.span(group) for group in groups])
