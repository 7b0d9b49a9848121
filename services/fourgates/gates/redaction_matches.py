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


def matches(form: Any, text: str, *, of_ascii: bool = False) -> Iterator[Match]:
    """All matches of a compiled RE2, from left to right. `of_ascii`: other characters need not be told apart."""
    # Of ASCII the bytes are the characters; counting them for each match would cost more than finding it.
    subject: Any = text.encode("ascii", "replace") if of_ascii or text.isascii() else text
    groups = range(form.groups + 1)
    for found in form.finditer(subject):
        yield Match(text, [found.span(group) for group in groups])
