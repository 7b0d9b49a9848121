"""One page of a stored result, ending where a reader can go on."""

from __future__ import annotations

from dataclasses import dataclass

from fourgates.gates.redaction_marks import placeholder_around
from fourgates.gates.result import bound_before

SPARE = 4_096
"""So many bytes beyond a page have to be read with it, to see where it may end."""
_LEAST_OF_LINES = 0.5
"""A page ends with a line where that leaves it at least half full."""


@dataclass(frozen=True, slots=True)
class Page:
    """The text, and where the next page begins; None after the last one."""

    text: str
    next_offset: int | None


def page_of(data: bytes, offset: int, size: int, whole: int) -> Page:
    """The page of at most `size` bytes at `offset` of a text of `whole` bytes.

    `data` is what stands from `offset` on, `size` + SPARE bytes where there are so many. An offset inside a character counts
    from the next one on. A page is never empty before the end, so that following `next_offset` ends.
    """
    skipped = next((at for at, byte in enumerate(data) if byte & 0xC0 != 0x80), len(data))
    data = data[skipped:]
    start = offset + skipped
    if start + len(data) >= whole and len(data) <= size:
        return Page(data.decode("utf-8", "replace"), None)
    text = data.decode("utf-8", "ignore")
    end = max(1, len(data[:size].decode("utf-8", "ignore")))
    line = text.rfind("\n", 0, end) + 1
    if line >= end * _LEAST_OF_LINES:
        end = line
    else:
        torn = placeholder_around(text, end)
        end = bound_before(text, torn[0] if torn else end) or end
    shown = text[:end]
    return Page(shown, start + len(shown.encode()))
