"""One schema document: what its references mean, which types a part may have, and whether it is closed by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from fourgates.contract.canonical import canonical
from fourgates.contract.errors import ConfigurationError

from .keywords import DECIDING, MANY, NAMED, ONE, parts_of

Path = tuple[str, ...]
IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not"})
"""Keywords whose subschemas judge the same value as the schema that they stand in."""
EXACT = frozenset({"if", "not", "contains", "propertyNames"})
"""Where accepting less inside would accept more outside, so that nothing may be added inside."""
DEFINITIONS = frozenset({"$defs", "definitions"})
"""Where schemas are kept that count only where they are referred to."""
MOST_STEPS = 100_000
"""Parts that are looked at, references followed each time. A schema of a thousand fields needs a tenth; one that doubles itself
by references would never end, here or in the engine."""
HOLDERS = frozenset({"object", "array"})
"""The types whose values hold other values: only these can be open."""
_TYPES = frozenset({*HOLDERS, "string", "integer", "number", "boolean", "null"})


def refused(place: str, what: str, to_do: str) -> ConfigurationError:
    return ConfigurationError(f"its schema cannot be closed: {place or '/'} {what}; {to_do}")


_SAYING = DECIDING - {"default"}


def only_ref(node: Any) -> bool:
    """A reference, with nothing beside it that decides."""
    return isinstance(node, Mapping) and "$ref" in node and node.keys() & _SAYING == {"$ref"}


def says_nothing(node: Any) -> bool:
    """Any value passes."""
    return node is True or not isinstance(node, Mapping) or not node.keys() & _SAYING


class Document:
    """Answers questions about parts of one schema; remembers the answers for as long as the schema lives."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._ending: set[Any] = set()
        self._steps = 0
        self._types: dict[int, frozenset[str]] = {}
        self._closed: dict[int, bool] = {}
        self._fits: dict[str, jsonschema_rs.Draft202012Validator | None] = {}

    def spend(self) -> None:
        """Counts a look at one more part. Raises ConfigurationError where they are too many."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise refused("", "is put together from too many parts to look at each", "write it with fewer references and groups")

    # references

    def place_of(self, ref: str) -> str:
        return unquote(str(ref).removeprefix("#"))

    def target(self, ref: Any, place: str) -> Any:
        """The schema that a reference means.

        Raises ConfigurationError for one that leads outside, to no schema, or back to itself for the same value.
        """
        self.spend()
        node = self._found(str(ref), place)
        if ref not in self._ending:
            self._must_end(str(ref), ())
            self._ending.add(ref)
        return node

    def _found(self, ref: str, place: str) -> Any:
        if not ref.startswith("#"):
            raise refused(
                place, f"refers to {ref}, outside the schema: it would mean what that place says today", "copy it into $defs"
            )
        first, *waiting = (token.replace("~1", "/").replace("~0", "~") for token in self.place_of(ref).split("/"))
        node: Any = self._root if not first else None
        while waiting:
            word = waiting.pop(0)
            holder = node.get(word) if isinstance(node, Mapping) else None
            if word in ONE and holder is not None:
                node = holder
                continue
            name = waiting.pop(0) if waiting else ""
            if word in NAMED and isinstance(holder, Mapping):
                node = holder.get(name)
            elif word in MANY and isinstance(holder, list) and name.isdecimal() and int(name) < len(holder):
                node = holder[int(name)]
            else:
                node = None
        if node is None:
            raise refused(place, f"refers to {ref}, which is no schema inside it", "refer to a name under $defs")
        return node

    def _must_end(self, ref: str, before: tuple[str, ...]) -> None:
        """A schema that leads back to itself for the same value judges nothing; a validator then lets everything pass."""
        if ref in before:
            raise refused(
                self.place_of(ref),
                "refers back to itself for the same value, so it would accept anything",
                "say what the value is",
            )
        for node in self._in_place(self._found(ref, "")):
            if "$ref" in node and node["$ref"] not in self._ending:
                self._must_end(str(node["$ref"]), (*before, ref))
                self._ending.add(node["$ref"])

    def parts(self, node: Any) -> Iterator[Mapping[str, Any]]:
        """A schema and everything that judges the same value with it, references followed."""
        for part in self._in_place(node):
            yield part
            if part.get("$ref", "#") != "#":
                yield from self.parts(self.target(part["$ref"], ""))

    def _in_place(self, node: Any) -> Iterator[Mapping[str, Any]]:
        """A schema and the schemas written inside it that judge the same value."""
        if isinstance(node, Mapping):
            yield node
            for key in node.keys() & IN_PLACE:
                for _, part in parts_of(key, node[key]):
                    yield from self._in_place(part)

    # what a part may be

    def types(self, node: Any) -> frozenset[str]:
        """Types that a value may have to pass; more than there are at worst. An integer also counts as a number."""
        if not isinstance(node, Mapping):
            return frozenset() if node is False else _TYPES
        if id(node) not in self._types:
            self._types[id(node)] = self._types_of(node)
        return self._types[id(node)]

    def _types_of(self, node: Mapping[str, Any]) -> frozenset[str]:
        found = _TYPES
        if "type" in node:
            found &= _with_integers([node["type"]] if isinstance(node["type"], str) else node["type"])
        if (values := _listed(node)) is not None:
            found &= frozenset().union(*(_with_integers([_type_of(value)]) for value in values))
        if "$ref" in node and node["$ref"] != "#":
            found &= self.types(self.target(node["$ref"], ""))
        for part in node.get("allOf", ()):
            found &= self.types(part)
        for word in ("anyOf", "oneOf"):
            if node.get(word):
                found &= frozenset().union(*map(self.types, node[word]))
        return found

    def holders(self, node: Any) -> frozenset[str]:
        return self.types(node) & HOLDERS

    def lists_holders(self, node: Any) -> bool:
        """True where values that hold others are listed whole."""
        return any(isinstance(value, dict | list) and value for part in self.parts(node) for value in _listed(part) or ())

    def disjoint(self, one: Any, other: Any) -> bool:
        """True where no value passes both: other types, or a required field that says which it is."""
        common = self.types(one) & self.types(other)
        if not common:
            return True
        if common != {"object"}:
            return False
        mine, theirs = dict(self._required(one)), dict(self._required(other))
        for name in mine.keys() & theirs.keys():
            a, b = mine[name], theirs[name]
            if a is not None and b is not None and not a & b:
                return True
        return self._forbids(other, mine) or self._forbids(one, theirs)

    def _required(self, node: Any) -> Iterator[tuple[str, frozenset[bytes] | None]]:
        """(required field, the values that it may have where they are listed)."""
        for part in self._always(node):
            for name in part.get("required", ()):
                lists = [
                    self._values(each["properties"][name]) for each in self._always(node) if name in each.get("properties", {})
                ]
                yield name, next((values for values in lists if values is not None), None)

    def _always(self, node: Any) -> Iterator[Mapping[str, Any]]:
        """The parts that count whatever the value is."""
        if isinstance(node, Mapping):
            yield node
            for part in node.get("allOf", ()):
                yield from self._always(part)
            if "$ref" in node and node["$ref"] != "#":
                yield from self._always(self.target(node["$ref"], ""))

    def _values(self, node: Any) -> frozenset[bytes] | None:
        for part in self._always(node):
            if (values := _listed(part)) is not None:
                return frozenset(map(canonical, values))
        return None

    def _forbids(self, node: Any, names: Mapping[str, Any]) -> bool:
        return any(
            part.get("additionalProperties") is False
            and not part.get("patternProperties")
            and names.keys() - part.get("properties", {})
            for part in self._always(node)
        )

    def fits(self, pattern: str, name: str) -> bool:
        """Whether a pattern is found in a name, on the engine that will judge it; true where it is no pattern of that engine."""
        if pattern not in self._fits:
            try:
                options = jsonschema_rs.RegexOptions()
                self._fits[pattern] = jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
            except jsonschema_rs.ValidationError:
                self._fits[pattern] = None
        validator = self._fits[pattern]
        return validator is None or bool(validator.is_valid(name))

    # where it is closed

    def closes_itself(self, node: Any) -> bool:
        """True where neither unknown fields nor items of unknown kind can pass at this position, whatever is round it."""
        if not isinstance(node, Mapping):
            return node is False
        if id(node) not in self._closed:
            self._closed[id(node)] = self._closes_itself(node)
        return self._closed[id(node)]

    def _closes_itself(self, node: Mapping[str, Any]) -> bool:
        if node.keys() & {"enum", "const"}:
            return True
        ref = node.get("$ref")
        if ref is not None and (ref == "#" or self.closes_itself(self.target(ref, ""))):
            return True
        if any(self.closes_itself(part) for part in node.get("allOf", ())):
            return True
        for key in ("anyOf", "oneOf"):
            if node.get(key) and all(self.closes_itself(part) for part in node[key]):
                return True
        types = said_types(node) or HOLDERS
        if "object" in types and not node.keys() & {"additionalProperties", "unevaluatedProperties"}:
            return False
        ends = node.keys() & {"items", "unevaluatedItems"} or node.get("maxItems", inf) <= len(node.get("prefixItems", ()))
        return "array" not in types or bool(ends)


def said_types(node: Mapping[str, Any]) -> frozenset[str] | None:
    """What `type` says at this very part."""
    said = node.get("type")
    return None if said is None else frozenset([said] if isinstance(said, str) else said)


def _listed(node: Mapping[str, Any]) -> list[Any] | None:
    """The values of `enum` or `const`."""
    if "const" in node:
        return [node["const"]]
    return node.get("enum")


def _with_integers(types: list[str]) -> frozenset[str]:
    return frozenset(types) | ({"integer"} if "number" in types else frozenset())


def _type_of(value: Any) -> str:
    for kind, name in (
        (bool, "boolean"),
        (str, "string"),
        (dict, "object"),
        (list, "array"),
        (int, "integer"),
        (float, "number"),
    ):
        if isinstance(value, kind):
            return name
    return "null"
