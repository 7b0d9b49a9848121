"""Texts in which argument values are looked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from itertools import islice
from types import EllipsisType
from typing import Any

from fourgates.catalog.keywords import step
from fourgates.gates import spelling
from fourgates.gates.addresses import Address, address_of, addresses_in, folders_of

QUOTE_CHARS = 500
_SCANNED_CHARS = 50_000_000
_NAMED = 20_000


def leaves(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar, null and empty container of a JSON value with its JSON Pointer; each list item is a leaf of its own."""
    waiting = [(pointer, value)]
    while waiting:
        where, each = waiting.pop()
        if isinstance(each, Mapping) and each:
            waiting += [(step(where, name), inner) for name, inner in reversed(list(each.items()))]
        elif isinstance(each, list | tuple) and each:
            waiting += [(step(where, index), each[index]) for index in range(len(each) - 1, -1, -1)]
        else:
            yield where, each


class Needle:
    """A value in the spellings by which it is looked for, worked out once however many texts are searched."""

    __slots__ = ("_address", "_moment", "exactly", "leaf", "number", "spelled", "text")

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf
        self.text = leaf if isinstance(leaf, str) and spelling.BREAK not in leaf else None
        self.number = spelling.number_of(leaf)
        self.spelled, self.exactly = _spelled(self.text) if self.text is not None else ("", False)
        self._address: Address | EllipsisType | None = ...
        self._moment: spelling.Moment | EllipsisType | None = ...

    @property
    def key(self) -> str:
        """The same for all spellings of one value, so far as they are easily told."""
        if self.number is not None:
            return str(self.number.normalize())
        if self.text is None:
            return repr(self.leaf)
        address = self.address
        return f"{address.host}{address.path}{address.tail}" if address else self.spelled

    @property
    def address(self) -> Address | None:
        if self._address is ...:
            self._address = address_of(self.text) if self.text is not None and "." in self.text else None
        return self._address

    @property
    def moment(self) -> spelling.Moment | None:
        if self._moment is ...:
            self._moment = spelling.moment_of(self.leaf) if isinstance(self.leaf, str) else None
        return self._moment


def _spelled(text: str) -> tuple[str, bool]:
    """(the normalised value, whether it must stand there exactly so)."""
    value = spelling.bare(spelling.folded(text))
    if value[:1] in ("/", "~"):
        value = value.rstrip("/") or value
    if len(value) <= 2 or spelling.disguised(text):
        return spelling.bare(spelling.exact(text)), True
    return value, False


class Words:
    """Texts in which values are looked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.raw = spelling.BREAK.join(texts)
        self._flat = spelling.folded(self.raw)
        self.patience = max(100, _SCANNED_CHARS // (len(self.raw) + 1))
        """How many leaves of one call are looked for here: many leaves in much text would hold up everybody else's calls."""

    @cached_property
    def _exact(self) -> str:
        return spelling.exact(self.raw)

    @cached_property
    def _numbers(self) -> dict[Decimal, int]:
        return dict(reversed(list(islice(spelling.numbers_in(self._flat), _NAMED))))

    @cached_property
    def _days(self) -> dict[date, int]:
        return dict(reversed(list(islice(spelling.dates_in(self._flat), _NAMED))))

    @cached_property
    def _times(self) -> frozenset[time]:
        return frozenset(islice(spelling.times_in(self._flat), _NAMED))

    @cached_property
    def _addresses(self) -> dict[str, list[tuple[Address, int]]]:
        named: dict[str, list[tuple[Address, int]]] = {}
        for address, at in islice(addresses_in(self.raw), _NAMED):
            named.setdefault(address.host, []).append((address, at))
        return named

    def hold(self, leaf: Any) -> bool:
        """Whether the leaf (or its Needle) stands here, as a whole token or in another common spelling."""
        return self._place(leaf) is not None

    def enclose(self, leaf: Any) -> bool:
        """Whether the leaf is an address or a path beneath an address or a folder that stands here."""
        if not isinstance(leaf, str):
            return False
        if leaf[:1] in ("/", "~"):
            return any(spelling.find_whole(self._exact, folder) >= 0 for folder in folders_of(leaf))
        value = address_of(leaf)
        return value is not None and any(value.within(named) for named, _ in self._addresses.get(value.host, ()))

    def quote_of(self, leaf: Any) -> str | None:
        """The words around the place where the leaf stands, at most 500 characters; None where it does not stand here."""
        place = self._place(leaf)
        if place is None:
            return None
        value = leaf.leaf if isinstance(leaf, Needle) else leaf
        if place[0] is self._flat and isinstance(value, str):
            pattern = re.compile(r"\s+".join(re.escape(word) for word in value.split()), re.IGNORECASE)
            for written in islice(pattern.finditer(self.raw), _NAMED):
                start, length = written.start(), written.end() - written.start()
                if length and spelling.stands_whole(self.raw, start, length):
                    return _around(self.raw, start, length)
        return _around(*place)

    def _place(self, leaf: Any) -> tuple[str, int, int] | None:
        """(the normalised text it was found in, where, how long)."""
        needle = leaf if isinstance(leaf, Needle) else Needle(leaf)
        if needle.leaf is None or isinstance(needle.leaf, bool) or not self._flat:
            return None
        if needle.text is not None:
            text = self._exact if needle.exactly else self._flat
            at = spelling.find_whole(text, needle.spelled)
            if at >= 0:
                return text, at, len(needle.spelled)
        number = needle.number
        if number is not None:
            return (self._flat, self._numbers[number], 1) if number in self._numbers else None
        address = needle.address
        for named, at in self._addresses.get(address.host, ()) if address else ():
            if address and address.equals(named):
                return self.raw, at, 1
        moment = needle.moment
        if moment is not None and moment.days <= self._days.keys() and moment.times <= self._times:
            return self._flat, min((self._days[day] for day in moment.days), default=0), 1
        return None


def _around(text: str, at: int, length: int) -> str:
    """At most QUOTE_CHARS of one text, with the place in its middle."""
    room = max(0, (QUOTE_CHARS - length) // 2)
    start = max(at - room, text.rfind(spelling.BREAK, 0, at) + 1)
    end = text.find(spelling.BREAK, at)
    return text[start : end if end >= 0 else None][:QUOTE_CHARS].strip()
