"""Words of a schema that nobody would check: misspelt ones, those of other dialects, and values that their own type excludes.

JSON Schema ignores a word that it does not know. In a contract that is a limit which its author believes in and nobody enforces.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from .keywords import DECIDING, KNOWN, MANY, NAMED, ONE, subschemas

_ELSEWHERE = {
    "nullable": 'OpenAPI\'s word for null; write type as a list with "null" in it',
    "additionalItems": "an older draft's word; write items, which stand for what follows prefixItems",
    "dependencies": "an older draft's word; write dependentRequired or dependentSchemas",
    "divisibleBy": "an older draft's word; write multipleOf",
    "extends": "an older draft's word; write allOf",
    "disallow": "an older draft's word; write not",
}
_CLOSE = 0.8
"""Likeness from which a word counts as misspelt."""


def unknown_words(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(place, word) of each word that JSON Schema 2020-12 does not have."""
    for place, part in subschemas(schema):
        for word in part if isinstance(part, Mapping) else ():
            if word not in KNOWN:
                yield place or "/", word


def unchecked_words(schema: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each word that was surely meant to decide and does not."""
    for place, word in unknown_words(schema):
        if word in _ELSEWHERE:
            yield f"{word!r} at {place} would be ignored: it is {_ELSEWHERE[word]}"
        elif close := _meant(word):
            yield f"{word!r} at {place} would be ignored: it looks like {close!r}, which is then not checked; mend its spelling"


def _meant(word: str) -> str:
    by_lower = {each.lower(): each for each in DECIDING}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_CLOSE)
    return by_lower[found[0]] if found else ""


def impossible_values(schema: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each enumeration of which no value has the type that stands beside it."""
    for place, part in subschemas(schema):
        if not isinstance(part, Mapping) or "type" not in part:
            continue
        values = part.get("enum", [part["const"]] if "const" in part else None)
        if values is not None and not any(jsonschema_rs.is_valid({"type": part["type"]}, value) for value in values):
            yield f"the enumeration at {place or '/'} has no value of its type {part['type']!r}: no call could ever pass"


def without_unknown_words(schema: Any) -> Any:
    """The schema as a model may see it: no comments, and no words that are not JSON Schema's."""
    if not isinstance(schema, Mapping):
        return schema
    out: dict[str, Any] = {}
    for word, value in schema.items():
        if word not in KNOWN or word == "$comment":
            continue
        if word in ONE:
            out[word] = without_unknown_words(value)
        elif word in MANY:
            out[word] = [without_unknown_words(part) for part in value]
        elif word in NAMED:
            out[word] = {name: without_unknown_words(part) for name, part in value.items()}
        else:
            out[word] = value
    return out
