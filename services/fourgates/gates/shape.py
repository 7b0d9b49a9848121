"""The shape of a tool's arguments and facts, as rules, policies and origin contracts see it: read off JSON Schema once."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from fourgates.catalog import Tool
from fourgates.contract.errors import ConfigurationError


class Kind(StrEnum):
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    LIST = "list"
    RECORD = "record"
    MAP = "map"
    """An object whose keys the caller chooses."""
    ANY = "any"
    """Unions and whatever else has no single type: nothing can be checked before a value is there."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record."""

    shape: Shape
    always: bool
    """It is there in every record; else it may be absent, which counts as null."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What values a place may hold. `item` is for lists and maps, `fields` for records, `variants` for unions."""

    kind: Kind
    nullable: bool = False
    item: Shape | None = None
    fields: Mapping[str, Field] = field(default_factory=dict)
    variants: tuple[Shape, ...] = ()


ANY = Shape(Kind.ANY, nullable=True)
_SCALARS = {"string": Kind.STRING, "integer": Kind.INTEGER, "number": Kind.NUMBER, "boolean": Kind.BOOLEAN}
_SCALAR_KINDS = frozenset(_SCALARS.values())
_FACTS = {"string": Kind.STRING, "int": Kind.INTEGER, "double": Kind.NUMBER, "bool": Kind.BOOLEAN}
_FACT_TYPE = re.compile(r"(?P<list>list<)?(?P<type>string|int|double|bool|dyn)(?(list)>)(?P<null>\?)?")


def arguments_shape(tool: Tool) -> Shape:
    """The record of a tool's normalised arguments: top-level defaults are filled in, a typed model fills in those below too."""
    top = _Reader(tool.schema, fills_defaults=tool.model is not None).shape(tool.schema)
    properties = tool.schema.get("properties", {})
    fields = {name: replace(each, always=each.always or _has_default(properties[name])) for name, each in top.fields.items()}
    return replace(top, fields=fields)


def facts_shape(tool: Tool) -> Shape:
    """The record of a tool's declared facts. `string?` may be null or absent. Raises ConfigurationError for an unknown type."""
    fields = {}
    for name, text in tool.facts_types.items():
        shape = _fact(text)
        if shape is None:
            raise ConfigurationError(
                f"tool {tool.name!r}: facts_types[{name!r}] is {text!r}; allowed are string, int, double, bool, dyn, "
                "list<one of them>, each with ? where it may be null or absent"
            )
        fields[name] = Field(shape, always=not text.endswith("?"))
    return Shape(Kind.RECORD, fields=fields)


@lru_cache
def _fact(text: str) -> Shape | None:
    found = _FACT_TYPE.fullmatch(text)
    if not found:
        return None
    inner = Shape(_FACTS[found["type"]]) if found["type"] in _FACTS else ANY
    shape = Shape(Kind.LIST, item=inner) if found["list"] else inner
    return replace(shape, nullable=shape.nullable or bool(found["null"]))


def fits(shape: Shape, value: Any) -> bool:
    """Whether a JSON value has this shape. An integer fits a number; a boolean is never one."""
    if value is None:
        return shape.nullable
    match shape.kind:
        case Kind.STRING:
            return isinstance(value, str)
        case Kind.BOOLEAN:
            return isinstance(value, bool)
        case Kind.INTEGER:
            return isinstance(value, int) and not isinstance(value, bool)
        case Kind.NUMBER:
            return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        case Kind.LIST:
            return isinstance(value, list) and (shape.item is None or all(fits(shape.item, each) for each in value))
        case Kind.RECORD | Kind.MAP:
            return isinstance(value, dict)
        case Kind.ANY:
            return True


class _Reader:
    """Reads shapes off one closed JSON Schema document, following its references."""

    def __init__(self, root: Mapping[str, Any], *, fills_defaults: bool) -> None:
        self._root, self._fills = root, fills_defaults
        self._known: dict[str, Shape] = {}

    def shape(self, schema: Any) -> Shape:
        if not isinstance(schema, Mapping):
            return ANY
        if "$ref" in schema:
            return self._reference(str(schema["$ref"]))
        if "properties" in schema or schema.get("type") == "object":
            return self._object(schema)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._union(schema[word])
        if len(schema.get("allOf", ())) == 1:
            return self.shape(schema["allOf"][0])
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union([{**schema, "type": each} for each in kind])
        if kind == "array":
            return Shape(Kind.LIST, item=ANY if "prefixItems" in schema else self.shape(schema.get("items")))
        return Shape(_SCALARS[kind]) if kind in _SCALARS else _of_values(schema)

    def _reference(self, ref: str) -> Shape:
        if ref not in self._known:
            self._known[ref] = ANY  # a definition inside itself: its depth is the value's, not the schema's
            target = self._root if ref == "#" else self._root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
            self._known[ref] = self.shape(target)
        return self._known[ref]

    def _object(self, schema: Mapping[str, Any]) -> Shape:
        free = schema.get("additionalProperties", schema.get("unevaluatedProperties", True))
        if free is not False or schema.get("patternProperties"):
            return Shape(Kind.MAP, item=self.shape(free))
        required = set(schema.get("required", ()))
        fields = {}
        for name, each in schema.get("properties", {}).items():
            shape = self.shape(each)
            fields[name] = Field(shape, always=name in required or (self._fills and _has_default(each)))
        parts = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
        more = any(isinstance(part, Mapping) and part.keys() & _BRINGS_FIELDS for part in parts)
        return Shape(Kind.RECORD, fields=fields, variants=(ANY,) if more else ())

    def _union(self, branches: list[Any]) -> Shape:
        shapes = [self.shape(each) for each in branches if not _is_null(each)]
        nullable = len(shapes) < len(branches) or any(shape.nullable for shape in shapes)
        kinds = {shape.kind for shape in shapes}
        if len(shapes) == 1 or (len(kinds) == 1 and kinds <= _SCALAR_KINDS):
            return replace(shapes[0], nullable=nullable)
        if kinds == {Kind.INTEGER, Kind.NUMBER}:
            return Shape(Kind.NUMBER, nullable=nullable)
        return replace(ANY, variants=tuple(shapes))


_BRINGS_FIELDS = frozenset({"properties", "patternProperties", "additionalProperties", "$ref", "anyOf", "oneOf", "allOf"})


def _of_values(schema: Mapping[str, Any]) -> Shape:
    """The shape of an enumeration that does not say its type."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    for kind in (Kind.STRING, Kind.BOOLEAN, Kind.INTEGER, Kind.NUMBER):
        if values and all(fits(Shape(kind), each) for each in values):
            return Shape(kind)
    return ANY


def free_keys(shape: Shape) -> bool:
    """Whether a value of this shape may hold, at any depth, keys that the caller chooses."""
    if shape.kind is Kind.MAP or (shape.kind is Kind.ANY and not shape.variants):
        return True
    inner = (*(each.shape for each in shape.fields.values()), *shape.variants, *((shape.item,) if shape.item else ()))
    return any(free_keys(each) for each in inner)


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema


def _is_null(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "null"
