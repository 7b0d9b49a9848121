"""What the parts of a schema say about the values below one position, and whether two of them speak of the same value.

A value may be described from several places at once (`properties` beside `allOf`, two alternatives, a pattern that fits a name).
Closing one of them must not refuse a field that another one knows. So for each position it is worked out which descriptions are
to be closed, and which stay as they are because another one that always counts with them knows every field that they know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

from fourgates.contract.errors import ConfigurationError

from .descriptions import Description, Key, descriptions
from .document import DEFINITIONS, EXACT, IN_PLACE, Document, Path, only_ref, refused
from .keywords import parts_of, tokens_of

_NOT_ALWAYS = frozenset({"contains", "unevaluated", "unevaluated_items"})
"""Kinds that take a member only where it fits, or where nothing else took it."""
_TOGETHER = IN_PLACE | {"patternProperties", "contains"}
"""Keywords by which more than one schema may describe the same member."""


class Reading:
    """What the parts of one document say together. Remembers which of them are closed already."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._closed: dict[int, bool] = {}
        self._asked: set[int] = set()
        self._assumed = False

    def kept(self, node: Mapping[str, Any], place: str) -> frozenset[Path]:
        """The descriptions below this position that must not be closed.

        Raises ConfigurationError where whatever is closed would refuse too much or too little.
        """
        if only_ref(node) or not node.keys() & _TOGETHER:
            return frozenset()
        found = list(descriptions(self._document, node, place))
        kept: set[Path] = set()
        for one in found:
            if one.fixed and not self.closed_throughout(one.schema):
                if not any(self._stands_for(other, one) for other in found if other is not one):
                    raise refused(
                        one.place, "stands open inside a condition, where closing it would change what the rest accepts",
                        "name its fields beside the condition too, or write additionalProperties: false there yourself",
                    )  # fmt: skip
                kept.add(one.path)
        for one, other in _neighbours(found):
            kept.update(self._settled(one, other))
        return frozenset(kept)

    def closed_throughout(self, node: Any) -> bool:
        """True where closing this schema would add nothing, at any depth."""
        known = self._closed.get(id(node))
        if known is not None:
            return known
        if id(node) in self._asked:  # a schema inside itself is as closed as the rest of it
            self._assumed = True
            return True
        outermost = not self._asked
        self._asked.add(id(node))
        closed = self.open_place(node) is None
        self._asked.discard(id(node))
        if outermost or not self._assumed:
            self._closed[id(node)] = closed
        if outermost:
            self._assumed = False
        return closed

    def open_place(self, node: Any) -> str | None:
        """The first position to which closing the schema would add something; None where it is closed throughout."""
        return self._hole(node, "", True, frozenset(), set())

    def closed_below(self, part: Any) -> bool:
        """True where closing a part, which leaves its own position to the schema round it, would add nothing."""
        return self._hole(part, "", False, frozenset(), set()) is None

    def _hole(self, node: Any, place: str, whole: bool, kept: frozenset[Path], seen: set[tuple[Any, ...]]) -> str | None:
        if not isinstance(node, Mapping):
            return place if whole and node is not False else None
        if whole:
            if not self._document.closes_itself(node):
                return place
            try:
                kept = self.kept(node, place)
            except ConfigurationError:
                return place
        for key, value in node.items():
            if key == "$ref" and value != "#":
                inner = whole and only_ref(node), below(kept, "$ref")
                if (value, *inner) in seen:
                    continue
                seen.add((value, *inner))
                target = self._document.target(value, place)
                if (hole := self._hole(target, self._document.place_of(value), *inner, seen)) is not None:
                    return hole
            if key in EXACT or key in DEFINITIONS:
                continue
            for at, part in parts_of(key, value):
                path = tokens_of(at)
                if key in IN_PLACE:
                    hole = self._hole(part, place + at, False, below(kept, *path), seen)
                else:
                    hole = None if path in kept else self._hole(part, place + at, True, frozenset(), seen)
                if hole is not None:
                    return hole
        return None

    def _settled(self, one: Description, other: Description) -> Iterator[Path]:
        """Which of two descriptions stays as it is."""
        if not self._may_meet(one, other):
            return
        if self.closed_throughout(one.schema) and self.closed_throughout(other.schema):
            return
        first, second = self._stands_for(one, other), self._stands_for(other, one)
        if first and not second:
            yield other.path
        elif second and not first:
            yield one.path
        elif not first and not (self._covers(one.schema, other.schema) and self._covers(other.schema, one.schema)):
            raise refused(
                other.place, f"and {one.place} describe the same value, and each would refuse what only the other one knows",
                "name all its fields in one of them, or tell the alternatives apart by a required field with a const of its own",
            )  # fmt: skip

    def _stands_for(self, one: Description, other: Description) -> bool:
        """True where `other` may stay open: whenever it counts so does `one`, which can be closed and knows all its fields."""
        return (
            one.key.kind not in _NOT_ALWAYS
            and one.choices <= other.choices
            and (not one.fixed or self.closed_throughout(one.schema))
            and self._wherever(one, other)
            and self._covers(one.schema, other.schema)
        )

    def _may_meet(self, one: Description, other: Description) -> bool:
        """True where both may count for one value that holds others."""
        if one.key.of_array != other.key.of_array or not self._overlap(one, other):
            return False
        if not self._document.holders(one.schema) & self._document.holders(other.schema):
            return False
        return not any(
            (where, word) == (there, said) and branch != another and self._either(word, branch, another)
            for where, word, branch in one.choices for there, said, another in other.choices
        )  # fmt: skip

    def _either(self, word: str, branch: Any, other: Any) -> bool:
        """True where two branches of one choice never count for the same value."""
        if word == "anyOf":
            return self._document.disjoint(branch.schema, other.schema)
        return word in ("oneOf", "if")

    def _overlap(self, one: Description, other: Description) -> bool:
        for left, right in ((one, other), (other, one)):
            if left.key.kind.startswith("unevaluated"):
                return right.path[: len(left.owner)] != left.owner  # it takes what nothing beside it has taken
        for key, against in ((one.key, other.key), (other.key, one.key)):
            if key.kind == "name":
                return self._takes(against, key.at)
            if key.kind == "index":
                return against.kind == "contains" or bool(
                    key.at == against.at if against.kind == "index" else key.at >= against.at
                )
            if key.kind == "rest" and against.kind == "pattern":
                return against.at not in key.patterns
        return True

    def _takes(self, key: Key, name: str) -> bool:
        """Whether a description of named members is about this name."""
        if key.kind == "name":
            return bool(key.at == name)
        if key.kind == "pattern":
            return self._document.fits(key.at, name)
        return name not in key.names and not any(self._document.fits(pattern, name) for pattern in key.patterns)

    def _wherever(self, one: Description, other: Description) -> bool:
        """True where `one` is about every member that `other` is about."""
        a, b = one.key, other.key
        if b.kind in ("name", "index"):
            return a.of_array == b.of_array and self._overlap(one, other)
        if a.kind != b.kind:
            return (a.kind, a.at, b.kind) == ("items", 0, "contains")
        if b.kind == "rest":
            return a.names <= b.names and a.patterns <= b.patterns
        return bool(a.at <= b.at) if b.kind == "items" else a.at == b.at and not b.kind.startswith("unevaluated")

    def _covers(self, wide: Any, narrow: Any, seen: frozenset[tuple[int, int]] = frozenset()) -> bool:
        """True where every field that `narrow` knows, at any depth, is known to `wide` whatever the value is."""
        self._document.spend()
        pair = id(wide), id(narrow)
        if pair in seen or not isinstance(narrow, Mapping) or self.closed_throughout(wide):
            return True
        if self._document.lists_holders(narrow):
            return False
        known = [
            each for each in descriptions(self._document, wide, "")
            if not each.choices and each.key.kind not in _NOT_ALWAYS
        ]  # fmt: skip
        return all(
            any(self._wherever(each, one) and self._covers(each.schema, one.schema, seen | {pair}) for each in known)
            for one in descriptions(self._document, narrow, "")
        )


def _neighbours(found: list[Description]) -> Iterator[tuple[Description, Description]]:
    """The pairs that could be about one member: two different names never are, and there may be many names."""
    by_member: dict[Any, list[Description]] = {}
    several = []
    for one in found:
        if one.key.kind in ("name", "index"):
            by_member.setdefault(one.key.at, []).append(one)
        else:
            several.append(one)
    for same in by_member.values():
        yield from combinations(same, 2)
        yield from product(same, several)
    yield from combinations(several, 2)


def below(kept: frozenset[Path], *path: str) -> frozenset[Path]:
    """The paths below a part, as seen from it."""
    return frozenset(each[len(path) :] for each in kept if each[: len(path)] == path)
