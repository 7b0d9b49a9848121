"""Cuts a redacted result to what a model gets: head and tail on grapheme bounds, and a mark that says what is missing."""

from __future__ import annotations

from dataclasses import dataclass

import regex

from fourgates.catalog.tool import OutputLimit
from fourgates.gates.redaction_marks import placeholder_around

_CLUSTER = regex.compile(r"\X")
# A grapheme certainly begins with one of these, unless what stands before it reaches over to it.
_STARTER = regex.compile(
    r"[\n\x20-\x7e\u00c0-\u024f\u0400-\u0481\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3\p{Extended_Pictographic}]"
)
_REACHES_OVER = regex.compile(r"[\r\u200d\p{GCB=Prepend}\p{GCB=L}]")
_FLAG_HALF = regex.compile(r"\p{Regional_Indicator}")
_HEAD = 2 / 3
"""How much of what may be shown comes from the beginning; an error or a total stands at the end."""
_TOO_SMALL_FOR_A_TAIL = 64
_LOOK_AHEAD = 4_096
"""A longer grapheme, made of marks upon marks, counts as ended there."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is shown of a text. `missing_bytes` counts what was left out, in UTF-8."""

    text: str
    truncated: bool
    missing_bytes: int


def fits(text: str, limit: OutputLimit) -> bool:
    """Whether the whole text is within the limit."""
    return len(text.encode()) <= limit.bytes and (limit.lines is None or text.count("\n") < limit.lines)


def cut(text: str, limit: OutputLimit, ref: str, left_out: int = 0) -> Cut:
    """At most `limit.bytes` bytes of UTF-8 and `limit.lines` lines, the mark included.

    `ref` says where the whole lies; empty where it lies nowhere. Under a limit too small for it the mark gets shorter, and last
    of all is left out: the limit holds in any case. Neither a grapheme nor a placeholder of the redaction is cut in two.
    `left_out` bytes are missing in the middle of `text` already; more than the limit stands on either side of them.
    """
    if not left_out and fits(text, limit):
        return Cut(text, False, 0)
    size = len(text.encode()) + left_out
    if limit.lines is not None and limit.lines <= 0:
        return Cut("", True, size)
    between = "" if limit.lines == 1 else "\n"
    marks = _marks(size, size, ref)
    form = next((i for i, mark in enumerate(marks) if len(f"{between}{mark}{between}".encode()) <= limit.bytes), None)
    budget = limit.bytes if form is None else limit.bytes - len(f"{between}{marks[form]}{between}".encode())
    for_tail = form is not None and budget >= _TOO_SMALL_FOR_A_TAIL
    head_lines, tail_lines = _lines(limit.lines)
    head = _head(text, int(budget * _HEAD) if for_tail else budget, head_lines)
    left = budget - len(text[:head].encode())
    tail = _tail(text, left, tail_lines, head) if for_tail else len(text)
    missing = len(text[head:tail].encode()) + left_out
    parts = [text[:head], "" if form is None else _marks(missing, size, ref)[form], text[tail:]]
    return Cut(between.join(part for part in parts if part), True, missing)


def _marks(missing: int, size: int, ref: str) -> tuple[str, ...]:
    """The mark, longest form first."""
    where = f"; the whole result is stored as {ref}" if ref else ""
    return (f"[{missing} of {size} bytes are missing here{where}]", f"[{missing} of {size} bytes are missing here]", "[…]")


def _lines(limit: int | None) -> tuple[int | None, int | None]:
    """How many lines the beginning and the end may have; one more is the mark's, or none where all is one line."""
    if limit is None:
        return None, None
    if limit == 1:
        return 1, 1
    head = max(1, round((limit - 1) * _HEAD))
    return head, limit - 1 - head


def _head(text: str, budget: int, lines: int | None) -> int:
    """Where the shown beginning ends."""
    end = len(text.encode()[: max(0, budget)].decode(errors="ignore"))
    if lines is not None:
        at = -1
        for _ in range(lines):
            at = text.find("\n", at + 1, end)
            if at < 0:
                break
        else:
            end = at
    if (inside := placeholder_around(text, end)) is not None:
        end = inside[0]
    return bound_before(text, end)


def _tail(text: str, budget: int, lines: int | None, head: int) -> int:
    """Where the shown end begins; never before `head`."""
    data = text.encode()
    start = len(text) - len(data[len(data) - max(0, min(budget, len(data))) :].decode(errors="ignore"))
    if lines is not None:
        at = len(text)
        for _ in range(lines):
            at = text.rfind("\n", 0, at)
            if at < 0:
                break
        start = max(start, at + 1 if lines else len(text))
    start = max(start, head)
    if (inside := placeholder_around(text, start)) is not None:
        start = inside[1]
    return _bound_after(text, start)


def bound_before(text: str, at: int) -> int:
    """The last grapheme bound at or before `at`."""
    for start, end in _clusters(text, at):
        if end > at:
            return start
    return at


def _bound_after(text: str, at: int) -> int:
    """The first grapheme bound at or after `at`."""
    for start, end in _clusters(text, at):
        if start >= at:
            return start
        if end >= at:
            return end
    return at


def _clusters(text: str, at: int) -> list[tuple[int, int]]:
    """The graphemes round `at`, from a certain bound before it on."""
    if not 0 < at < len(text):
        return []
    start = _certain_bound(text, at)
    found = []
    for cluster in _CLUSTER.finditer(text[start : at + _LOOK_AHEAD]):
        found.append((start + cluster.start(), start + cluster.end()))
        if found[-1][1] > at:
            break
    return found


def _certain_bound(text: str, at: int) -> int:
    """Where a grapheme certainly begins, at or before `at`."""
    start = at
    while start > 0:
        if _STARTER.match(text, start) and not _REACHES_OVER.match(text, start - 1):
            return start
        if _FLAG_HALF.match(text, start) and _FLAG_HALF.match(text, start - 1):
            run = start
            while run > 0 and _FLAG_HALF.match(text, run - 1):
                run -= 1
            return start - (start - run) % 2  # flags are pairs, counted from where the run begins
        start -= 1
    return 0
