"""Redaction by structure: what stands under a telling name goes, whatever it looks like, and the structure stays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourgates.gates.redaction_marks import PLACEHOLDER
from fourgates.gates.redaction_matcher import Matcher
from fourgates.gates.redaction_names import is_map_of_secrets, kind_named
from fourgates.gates.text import clean

MAX_DEPTH = 64
"""Deeper JSON is flattened to text before it is looked at."""
Look: TypeAlias = Callable[[str, int], tuple[str, int]]
"""(text, depth) -> (redacted text, how many places)."""

_NAME_MEMBERS, _VALUE_MEMBERS = ("name", "key", "header", "variable"), ("value", "val", "content", "default")
_COLUMN_MEMBERS = frozenset({"columns", "column_names", "headers", "header", "fields", "schema"})
_ROW_MEMBERS = ("rows", "data", "values", "records", "results", "result")
_NO_KEY_FORM = 16
"""No key that is itself a secret is a plain word of so few characters."""


class Walk:
    """Goes through a JSON value. `text` reads a string that may be JSON itself, `lines` one that is not."""

    def __init__(
        self, chosen: frozenset[str], matcher: Matcher, text: Look, lines: Look, placeholder: Callable[[str, str], str]
    ) -> None:
        self._chosen, self._matcher = chosen, matcher
        self._text, self._lines, self._placeholder = text, lines, placeholder

    def value(self, value: Any, depth: int, name: str | None = None) -> tuple[Any, int]:
        """The redacted value and how many places; `name` is the member it stands under, telling about everything below it."""
        if isinstance(value, str):
            return self._leaf(value, name, depth)
        if isinstance(value, bool) or value is None:
            return value, 0
        if isinstance(value, int | float):
            return self._number(value, name)
        if depth >= MAX_DEPTH:
            return self._lines(flat(value), depth)
        return self._object(value, depth, name) if isinstance(value, dict) else self._list(value, depth, name)

    def _list(self, value: list[Any], depth: int, name: str | None) -> tuple[list[Any], int]:
        total, items = 0, []
        pairs = bool(value) and all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value)
        for item in value:
            if pairs:
                shown, count = self.value(item[1], depth + 1, item[0])
                first, more = self._leaf(item[0], None, depth)
                items.append([first, shown])
                count += more
            else:
                shown, count = self.value(item, depth + 1, name)
                items.append(shown)
            total += count
        return items, total

    def _object(self, value: dict[str, Any], depth: int, name: str | None) -> tuple[dict[str, Any], int]:
        total = 0
        shown: dict[str, Any] = {}
        named, columns = _named_value(value), () if _COLUMN_MEMBERS.isdisjoint(value) else _columns(value)
        for key, inner in value.items():
            told = named[1] if named is not None and key == named[0] else key
            if name is not None and is_map_of_secrets(name):
                told = name  # `cookies`: what stands under it is named by it, whatever it is called itself
            if columns and key in _ROW_MEMBERS and isinstance(inner, list):
                new, count = self._rows(inner, columns, depth + 1, told)
            else:
                new, count = self.value(inner, depth + 1, told)
            if len(key) <= _NO_KEY_FORM and key.isascii() and key.isidentifier():
                new_key = key
            else:
                new_key, more = self._lines(clean(key), MAX_DEPTH)
                count += more
            shown[_free(new_key, shown)] = new
            total += count
        return shown, total

    def _rows(self, rows: list[Any], columns: Sequence[str], depth: int, name: str | None) -> tuple[list[Any], int]:
        """The rows of a table whose columns are named beside them."""
        total, shown = 0, []
        for row in rows:
            if isinstance(row, list) and len(row) == len(columns):
                cells = [self.value(cell, depth + 2, column) for cell, column in zip(row, columns, strict=True)]
                new, count = [cell for cell, _ in cells], sum(count for _, count in cells)
            else:
                new, count = self.value(row, depth + 1, name)
            shown.append(new)
            total += count
        return shown, total

    def _leaf(self, text: str, name: str | None, depth: int) -> tuple[str, int]:
        text = clean(text)
        if name is not None and text.strip() and not PLACEHOLDER.fullmatch(text):
            kind = kind_named(clean(name), text, self._chosen)
            if kind is not None:
                return self._placeholder(kind, text), 1
        if "\\" not in text and not self._matcher.may_hold(text):
            return text, 0
        return self._text(text, depth + 1)

    def _number(self, value: float, name: str | None) -> tuple[Any, int]:
        """A number is a secret by its name, or a card or phone by its digits."""
        text = str(value)
        kind = kind_named(clean(name), text, self._chosen) if name is not None else None
        if kind is None and self._chosen and (spans := self._matcher.spans(text)):
            kind = spans[0][2]
        return (value, 0) if kind is None else (self._placeholder(kind, text), 1)


@dataclass(frozen=True, slots=True)
class Parsed:
    value: Any
    repeats: bool
    """A key stood twice in an object: the text says more than the value."""


def container(text: str) -> Parsed | None:
    """The object or array that the text is; None where it is anything else."""
    if not text or text[0] not in "{[ \t\n":
        return None
    bare = text.strip(" \t\n")
    if len(bare) < 2 or (bare[0], bare[-1]) not in (("{", "}"), ("[", "]")):
        return None
    repeats = False

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        value = dict(pairs)
        repeats = repeats or len(value) != len(pairs)
        return value

    try:
        return Parsed(json.loads(bare, object_pairs_hook=members), repeats)
    except (ValueError, RecursionError):
        return None


def dump(value: Any, like: str) -> str:
    """The value as JSON, over lines where `like` is."""
    return json.dumps(value, ensure_ascii=False, indent=2 if "\n" in like.strip() else None)


def flat(value: Any) -> str:
    """What is nested too deeply to be walked through, as text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "[nested too deeply]"


def _free(key: str, taken: dict[str, Any]) -> str:
    """The key, or a numbered one where cleaning made two keys the same."""
    number, free = 1, key
    while free in taken:
        number += 1
        free = f"{key} ({number})"
    return free


def _named_value(value: dict[str, Any]) -> tuple[str, str] | None:
    """(member that holds the value, its name) of `{"name": "DB_PASSWORD", "value": ...}`."""
    name = next((value[key] for key in _NAME_MEMBERS if isinstance(value.get(key), str)), None)
    member = next((key for key in _VALUE_MEMBERS if key in value), None)
    return (member, name) if name is not None and member is not None else None


def _columns(value: dict[str, Any]) -> Sequence[str]:
    """The columns' names of `{"columns": ["id", "password"], "rows": [[1, ...], ...]}`; none of anything else."""
    for member, columns in value.items():
        if member in _COLUMN_MEMBERS and isinstance(columns, list):
            return [str(column.get("name") if isinstance(column, dict) else column) for column in columns]
    return ()
