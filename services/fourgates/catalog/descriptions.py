"""Which schemas describe the members of a value: what a schema and all its parts say, each with the way to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .document import Document, Path
from .keywords import step

Token = tuple[Path, str, object]
"""A choice on the way to a description: (where it is made, by which keyword, which branch)."""


@dataclass(frozen=True, slots=True)
class Key:
    """Which members of a value: a name or an index, all that a pattern fits, or the rest."""

    kind: str
    """name, pattern, rest, unevaluated; index, items, contains, unevaluated_items."""
    at: Any = None
    """The name, pattern, index, or the first index of `items`."""
    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    """Of a rest: what it leaves out."""

    @property
    def of_array(self) -> bool:
        return self.kind in ("index", "items", "contains", "unevaluated_items")


@dataclass(frozen=True, slots=True)
class Description:
    """One schema for members of the value at a position."""

    path: Path
    """How it is reached from the position, references included."""
    owner: Path
    """The part in which it stands."""
    place: str
    """Where it stands in the document."""
    key: Key
    schema: Any = field(compare=False, hash=False)
    choices: frozenset[Token]
    fixed: bool
    """It may not be changed: it stands in a condition."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One alternative; equal to another by its number."""

    number: int
    schema: Any = field(compare=False, hash=False)


@dataclass(frozen=True, slots=True)
class _Way:
    """How a part was reached from the position."""

    place: str
    path: Path = ()
    choices: frozenset[Token] = frozenset()
    fixed: bool = False

    def to(self, *steps: str, choice: tuple[str, object] | None = None, fixed: bool = False, place: str | None = None) -> _Way:
        choices = self.choices | {(self.path, *choice)} if choice else self.choices
        there = step(self.place, *steps) if place is None else place
        return _Way(there, (*self.path, *steps), choices, self.fixed or fixed)


def descriptions(document: Document, node: Any, place: str) -> Iterator[Description]:
    """Everything that a schema at `place` and its parts say about the members of the value that it judges."""
    yield from _walk(document, node, _Way(place))


def _walk(document: Document, node: Any, way: _Way) -> Iterator[Description]:
    """Everything that a schema and its parts say about the members of the value that it judges."""
    if not isinstance(node, Mapping):
        return
    for key, steps, part, fixed in _members(node):
        document.spend()
        there = way.to(*steps, fixed=fixed)
        yield Description(there.path, way.path, there.place, key, part, there.choices, there.fixed)
    if (ref := node.get("$ref")) is not None:
        yield from _walk(document, document.target(ref, way.place), way.to("$ref", place=document.place_of(ref)))
    for at, part in enumerate(node.get("allOf", ())):
        yield from _walk(document, part, way.to("allOf", str(at)))
    for word in ("anyOf", "oneOf"):
        for at, part in enumerate(node.get(word, ())):
            yield from _walk(document, part, way.to(word, str(at), choice=(word, Branch(at, part))))
    if "if" in node:
        for word, holds in (("if", True), ("then", True), ("else", False)):
            yield from _walk(document, node.get(word), way.to(word, choice=("if", holds), fixed=word == "if"))
    for name, part in node.get("dependentSchemas", {}).items():
        yield from _walk(document, part, way.to("dependentSchemas", name, choice=("dependentSchemas", name)))


def _members(node: Mapping[str, Any]) -> Iterator[tuple[Key, Path, Any, bool]]:
    """(which members, how reached, their schema, whether it is a condition) of one part alone."""
    named, patterned = node.get("properties", {}), node.get("patternProperties", {})
    for name, part in named.items():
        yield Key("name", name), ("properties", name), part, False
    for pattern, part in patterned.items():
        yield Key("pattern", pattern), ("patternProperties", pattern), part, False
    if "additionalProperties" in node:
        rest = Key("rest", names=frozenset(named), patterns=frozenset(patterned))
        yield rest, ("additionalProperties",), node["additionalProperties"], False
    if "unevaluatedProperties" in node:
        yield Key("unevaluated"), ("unevaluatedProperties",), node["unevaluatedProperties"], False
    first = node.get("prefixItems", ())
    for at, part in enumerate(first):
        yield Key("index", at), ("prefixItems", str(at)), part, False
    if "items" in node:
        yield Key("items", len(first)), ("items",), node["items"], False
    if "contains" in node:
        yield Key("contains"), ("contains",), node["contains"], True
    if "unevaluatedItems" in node:
        yield Key("unevaluated_items"), ("unevaluatedItems",), node["unevaluatedItems"], False
