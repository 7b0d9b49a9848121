"""Closing an argument schema, so that unknown fields are refused at any depth, also where its author was silent.

Closed means: every object says which fields it has, every array what its items are, every argument what it is. A position that
stands alone is closed by `additionalProperties: false`; one that is put together (`allOf`, `anyOf`, a `$ref` with siblings, ...)
by `unevaluatedProperties: false` round the whole, because inside a part the fields of its neighbours would count as unknown.
What comes out accepts a value if and only if the schema accepts it and each of its fields is named by some part that counts for
it. Where that cannot be had, the schema is refused, with the place and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Any

import jsonschema_rs

from fourgates.contract.errors import ConfigurationError

from .describing import Reading, below
from .document import DEFINITIONS, EXACT, IN_PLACE, Document, Path, only_ref, refused, said_types, says_nothing
from .keywords import rebuild, step, tokens_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_FAMILIES: dict[str, frozenset[str]] = {
    "object": frozenset({
        "properties", "patternProperties", "additionalProperties", "required", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "unevaluatedProperties",
    }),
    "array": frozenset({"items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"}),
    "string": frozenset({"minLength", "maxLength", "pattern", "format"}),
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
}  # fmt: skip
_MOVING = frozenset({"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary"})
_SUFFIX = re.compile(r"\.(open|as_is)_*$")


class Mode(StrEnum):
    """How a schema is written at one place."""

    WHOLE = "whole"
    """Closed: it alone judges the value."""
    PART = "part"
    """One of several that judge the same value: the schema round it closes the value, its members are closed here."""
    AS_IS = "as is"
    """Nothing is added: it stands in a condition, or another description closes the same value."""


_Variant = tuple[str, Mode, frozenset[Path]]
"""(reference, mode, descriptions below it that stay as they are)."""
_NOTHING: frozenset[Path] = frozenset()


def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every open position closed. Raises ConfigurationError, naming the place, for what cannot be closed."""
    try:
        return _Closing(schema).root()
    except RecursionError:
        raise refused("", "is nested too deeply to be looked at", "write it flatter") from None


def open_place(schema: Mapping[str, Any]) -> str | None:
    """The JSON Pointer of the first position that is not closed by the schema itself; None where it is closed throughout."""
    return Reading(Document(schema)).open_place(schema)


class _Closing:
    """One schema on its way to being closed; `$defs` are written from what is used, once for each way in which it is used."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._document = Document(schema)
        self._reading = Reading(self._document)
        self._defs: dict[str, Any] = {}
        self._names: dict[_Variant, str] = {}

    def root(self) -> dict[str, Any]:
        schema = {key: value for key, value in self._root.items() if key != "$id" and key not in DEFINITIONS}
        if schema.get("$schema", DIALECT) != DIALECT:
            raise ConfigurationError(f"its schema is written in {schema['$schema']}; write it in JSON Schema 2020-12")
        try:
            jsonschema_rs.meta.validate(dict(self._root))
        except jsonschema_rs.ValidationError as fault:
            raise ConfigurationError(
                f"its schema is not JSON Schema 2020-12 at {step('', *fault.instance_path)}: {fault.message}"
            ) from fault
        if schema.setdefault("type", "object") != "object":
            raise ConfigurationError("its schema must have type object at the top: arguments are an object of named fields")
        closed: dict[str, Any] = self._write(schema, "", Mode.WHOLE, _NOTHING)
        return {**closed, "$defs": self._defs} if self._defs else closed

    def _write(self, node: Any, place: str, mode: Mode, kept: frozenset[Path]) -> Any:
        """The schema at `place` in the given mode; `kept` are the paths below a part that another description closes."""
        if node is False or (mode is Mode.AS_IS and not isinstance(node, Mapping)):
            return node
        if mode is not Mode.AS_IS and says_nothing(node):
            if mode is Mode.WHOLE:
                raise refused(place, "takes any value, so unknown fields would pass", "say its type and its fields")
            return node
        if moving := sorted(node.keys() & _MOVING) or (["$id"] if "$id" in node else []):
            raise refused(place, f"uses {moving[0]}, so what it means depends on where it is read from", "use $ref into $defs")
        given, node = node, {key: value for key, value in node.items() if key not in DEFINITIONS}
        if mode is Mode.AS_IS:
            return {key: self._as_is(key, value, place) for key, value in node.items()}
        grouped = bool(node.keys() & IN_PLACE) and not only_ref(node)
        if mode is Mode.WHOLE:
            kept = self._reading.kept(given, place)
            if not self._document.closes_itself(given):
                self._add_ends(node, place, grouped)
        out: dict[str, Any] = {}
        for key, value in node.items():
            if key == "$ref":
                inner = Mode.WHOLE if mode is Mode.WHOLE and not grouped else Mode.PART
                out[key] = self._reference(str(value), place, inner, below(kept, "$ref"))
            elif key in EXACT:
                out[key] = self._as_is(key, value, place)
            else:
                out[key] = rebuild(key, value, partial(self._member, place, key, kept))
        return self._exactly_one(node, out, place) if "oneOf" in node else out

    def _member(self, place: str, key: str, kept: frozenset[Path], at: str, node: Any) -> Any:
        path = tokens_of(at)
        if key in IN_PLACE:
            return self._write(node, place + at, Mode.PART, below(kept, *path))
        return self._write(node, place + at, Mode.AS_IS if path in kept else Mode.WHOLE, _NOTHING)

    def _as_is(self, key: str, value: Any, place: str) -> Any:
        if key == "$ref":
            return self._reference(str(value), place, Mode.AS_IS, _NOTHING)
        return rebuild(key, value, lambda at, part: self._write(part, place + at, Mode.AS_IS, _NOTHING))

    def _exactly_one(self, node: Mapping[str, Any], out: dict[str, Any], place: str) -> dict[str, Any]:
        """Closing inside an alternative could make a second one the only one that fits; so each says which others must not."""
        alternatives = node["oneOf"]
        if all(self._reading.closed_below(part) or self._alone(at, alternatives) for at, part in enumerate(alternatives)):
            return out
        open_ones = self._as_is("oneOf", alternatives, place)
        closed_ones = out.pop("oneOf")
        told_apart = [
            {"allOf": [closed], "not": {"anyOf": [*open_ones[:at], *open_ones[at + 1 :]]}}
            for at, closed in enumerate(closed_ones)
        ]
        if "anyOf" in out:
            return {**out, "allOf": [*out.get("allOf", ()), {"anyOf": told_apart}]}
        return {**out, "anyOf": told_apart}

    def _alone(self, at: int, alternatives: list[Any]) -> bool:
        """True where a value that fits this alternative fits no other one."""
        others = (*alternatives[:at], *alternatives[at + 1 :])
        return all(self._document.disjoint(alternatives[at], other) for other in others)

    def _add_ends(self, node: dict[str, Any], place: str, grouped: bool) -> None:
        if grouped:
            types = said_types(node)
            if types is None or "object" in types:
                node.setdefault("unevaluatedProperties", False)
            if types is None or "array" in types:
                node.setdefault("unevaluatedItems", False)
            return
        if only_ref(node):
            return
        if "type" not in node:
            families = [name for name, words in _FAMILIES.items() if node.keys() & words]
            if len(families) != 1:
                raise refused(place, "does not say its type, so any object would pass", "give it a type")
            node["type"] = families[0]
        types = said_types(node) or frozenset()
        if "object" in types and not node.keys() & {"additionalProperties", "unevaluatedProperties"}:
            node["additionalProperties"] = False
        if "array" in types and not node.keys() & {"items", "unevaluatedItems"}:
            if "prefixItems" not in node:
                raise refused(place, "is an array of anything, so unknown fields would pass", "say what its items are")
            node["items"] = False

    def _reference(self, ref: str, place: str, mode: Mode, kept: frozenset[Path]) -> str:
        if ref == "#":
            if mode is not Mode.WHOLE:
                raise refused(place, "puts the whole schema inside another one", "move the shared part into $defs")
            return ref
        target, there = self._document.target(ref, place), self._document.place_of(ref)
        if self._reading.closed_throughout(target):
            mode, kept = Mode.WHOLE, _NOTHING  # closing adds nothing, so all forms are the same
        elif mode is Mode.PART and self._document.closes_itself(target) and kept == self._reading.kept(target, there):
            mode, kept = Mode.WHOLE, _NOTHING
        variant = (ref, mode, kept)
        if variant not in self._names:
            name = self._free_name(there.rsplit("/", 1)[1], mode)
            self._names[variant] = name  # before it is written: a definition may refer to itself
            self._defs[name] = None  # its place, so that the order stays and nobody else takes the name
            self._defs[name] = self._write(target, there, mode, kept)
        return f"#/$defs/{self._names[variant]}"

    def _free_name(self, name: str, mode: Mode) -> str:
        name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        suffix = {Mode.PART: ".open", Mode.AS_IS: ".as_is"}.get(mode, "")
        if suffix and not _SUFFIX.search(name):
            name += suffix
        while name in self._defs:
            name += "_"
        return name
