"""Bounds a JSON result by its structure: rows of a table, items of a list. What is shown stays JSON."""

from __future__ import annotations

from typing import Any

_HEAD = 2 / 3
_NAMED = 1_000
"""So many lists may each say what is missing in them; a result of more is left to the limit in bytes."""


def bounded_items(value: Any, most: int, ref: str) -> tuple[Any, int]:
    """(the value with at most `most` items in each list, how many items are missing).

    Where items are missing stands one text that says how many, and where the whole is stored. Lists inside what is left out are
    not counted.
    """
    return _Bounding(most, ref).of(value, 0)


class _Bounding:
    def __init__(self, most: int, ref: str) -> None:
        self._most, self._where = most, f"; the whole result is stored as {ref}" if ref else ""
        self._named = 0

    def of(self, value: Any, depth: int) -> tuple[Any, int]:
        if isinstance(value, dict) and depth < 64:
            inner = {name: self.of(part, depth + 1) for name, part in value.items()}
            return {name: part for name, (part, _) in inner.items()}, sum(missing for _, missing in inner.values())
        if not isinstance(value, list) or depth >= 64:
            return value, 0
        head, tail = value, []
        missing = 0
        if len(value) > self._most and self._named < _NAMED:
            self._named += 1
            first = max(1, round(self._most * _HEAD))
            head, tail = value[:first], value[len(value) - (self._most - first) :] if self._most > first else []
            missing = len(value) - len(head) - len(tail)
        shown = [self.of(item, depth + 1) for item in head]
        rest = [self.of(item, depth + 1) for item in tail]
        mark = [f"[{missing} of {len(value)} items are missing here{self._where}]"] if missing else []
        items = [*(part for part, _ in shown), *mark, *(part for part, _ in rest)]
        return items, missing + sum(more for _, more in (*shown, *rest))
