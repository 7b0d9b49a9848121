"""From what is shown to what a page lays out: arguments leaf by leaf, before and after field by field. Nothing is rounded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from fourgates.approval.visible import as_text
from fourgates.contract.parts import Risk

from .view import HoldView

_ABSENT = object()
_SPACE = regex.compile(r"[\s\p{Z}]+")
_NAMED_SPACE = regex.compile(r"<U\+(?:00A0|2007|2009|202F)>")

ORIGINS = {
    "user": "said by the user",
    "within": "beneath what the user named",
    "host": "set by the host program",
    "model": "the model's own",
    "result": "from a tool's result",
}
"""What an origin's word means to a reader."""


class Number(str):
    """A JSON number as it is written: to read it as a float would round it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of before and after."""

    name: str
    before: str
    after: str
    changed: bool


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of the arguments."""

    pointer: str
    name: str
    """The pointer for a reader: `items › 0 › price`."""
    text: str
    kind: str
    """text, number, word (true, false, null) or empty ([] or {})."""
    origin: str = ""
    source: str = ""
    quote: str = ""
    breach: bool = False

    @property
    def said(self) -> str:
        """Where the value came from, in words; empty where nobody marked it."""
        return ORIGINS.get(self.origin.partition(":")[0], self.origin)


def plain(value: Any) -> str:
    """A JSON value to read: text as it is, everything else as indented JSON."""
    if value is _ABSENT:
        return "–"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def difference(before: Any, after: Any) -> list[Row]:
    """Before and after, field by field as deep as both have fields."""
    return list(_rows("", before, after))


def _rows(name: str, before: Any, after: Any) -> Iterator[Row]:
    if isinstance(before, dict) and isinstance(after, dict) and (before or after):
        for key in dict.fromkeys((*before, *after)):
            yield from _rows(f"{name} › {key}" if name else key, before.get(key, _ABSENT), after.get(key, _ABSENT))
        return
    # Compared as JSON, for to Python 1 equals true and 1.0.
    same = before is not _ABSENT and after is not _ABSENT and _ordered(before) == _ordered(after)
    yield Row(name, plain(before), plain(after), not same)


def _ordered(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def leaves(shown: Mapping[str, Any]) -> list[Leaf]:
    """All values of the arguments in their order, each with its origin and whether that breaks the contract."""
    origins = {origin["pointer"]: origin for origin in shown["origins"]}
    broken = {breach["pointer"] for breach in shown["why"]["breaches"] if breach["pointer"]}
    found = json.loads(shown["arguments"], parse_int=Number, parse_float=Number)
    made = []
    for pointer, name, text, kind in _walk("", "", found):
        origin = origins.get(pointer, {})
        breach = any(pointer == at or pointer.startswith(at + "/") for at in broken)
        said = (origin.get("origin", ""), origin.get("source", ""), origin.get("quote", ""))
        made.append(Leaf(pointer, name, text, kind, *said, breach))
    return made


def _walk(pointer: str, name: str, value: Any) -> Iterator[tuple[str, str, str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            step = key.replace("~", "~0").replace("/", "~1")
            yield from _walk(f"{pointer}/{step}", f"{name} › {key}" if name else key, inner)
    elif isinstance(value, list) and value:
        for n, inner in enumerate(value):
            yield from _walk(f"{pointer}/{n}", f"{name} › {n}" if name else str(n), inner)
    elif isinstance(value, Number):
        yield pointer, name, str(value), "number"
    elif isinstance(value, str):
        yield pointer, name, value, "text"
    else:
        yield pointer, name, json.dumps(value), "empty" if isinstance(value, (dict, list)) else "word"


def to_type(view: HoldView) -> str:
    """What a person types before they approve what destroys something: its amount, else the tool's name. Empty: nothing."""
    if view.risk is not Risk.DESTRUCTIVE or view.state.in_doubt:
        return ""
    amount = (view.shown["preview"] or {}).get("amount")
    return as_text(str(amount or view.shown["tool"]))


def typed_fits(asked: str, typed: str) -> bool:
    """Whether that was typed. Spaces do not count, nor does upper case: amounts carry spaces that no keyboard has."""
    return _bare(typed) == _bare(asked)


def _bare(text: str) -> str:
    return str(_SPACE.sub("", _NAMED_SPACE.sub("", text))).casefold()
