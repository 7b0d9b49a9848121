"""Which digits are a card, an IBAN or a phone number: by checksum and shape, not by length alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_GROUP = re.compile(r"[0-9A-Za-z]+")
_DIGITS = re.compile(r"[0-9]")
_FIRST_DIGITS = frozenset("23456")
_NOT_A_PHONE = re.compile(
    r"\d{4}-\d{2}-\d{2}.*|\d{1,2}[./]\d{1,2}[./]\d{4}.*|\d{1,3}(?:\.\d{1,3}){3}|\d+\.\d+|\d{1,3}(?:[. ]\d{3})+", re.S
)
_NORTH_AMERICAN = re.compile(r"(?:1[ .\-])?\(?\d{3}\)?[ .\-]\d{3}[ .\-]\d{4}")


def luhn(digits: str) -> bool:
    """The check digit of payment cards fits."""
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return sum(d - 9 if d > 9 else d for d in doubled) % 10 == 0


def mod97(iban: str) -> bool:
    """The check digits of an IBAN fit."""
    moved = iban[4:] + iban[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def _card_shape(groups: list[str]) -> bool:
    sizes = [len(group) for group in groups]
    if len(sizes) == 1:
        return True
    return sizes in ([4, 6, 5], [4, 6, 4]) or (all(n == 4 for n in sizes[:-1]) and 1 <= sizes[-1] <= 4)


def cards(found: Any) -> Iterator[tuple[int, int]]:
    """Cards inside a run of digits: beside one another number may stand, so groups are tried from each of their beginnings."""
    groups = list(_GROUP.finditer(found.group(0)))
    first = 0
    while first < len(groups):
        furthest = min(first + 5, len(groups)) if groups[first][0][0] in _FIRST_DIGITS else first
        for last in range(furthest, first, -1):
            parts = [group[0] for group in groups[first:last]]
            digits = "".join(parts)
            if 13 <= len(digits) <= 19 and _card_shape(parts) and luhn(digits):
                yield found.start() + groups[first].start(), found.start() + groups[last - 1].end()
                first = last - 1
                break
        first += 1


def ibans(found: Any) -> Iterator[tuple[int, int]]:
    """The longest beginning of the match whose check digits fit; words may follow it."""
    groups = list(_GROUP.finditer(found.group(0)))
    for last in range(len(groups), 0, -1):
        value = "".join(group[0] for group in groups[:last])
        if 15 <= len(value) <= 34 and mod97(value.upper()):
            yield found.start(), found.start() + groups[last - 1].end()
            return


def phones(found: Any) -> Iterator[tuple[int, int]]:
    """International or trunk prefix, brackets, or the North American shape; dates, addresses and amounts are none."""
    value = found.group(0)
    digits = len(_DIGITS.findall(value))
    if not 7 <= digits <= 15 or _NOT_A_PHONE.fullmatch(value):
        return
    if value[0] in "+(0" or _NORTH_AMERICAN.fullmatch(value):
        yield found.span(0)
