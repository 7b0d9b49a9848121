"""The shape of a tool's arguments and facts, as rules, policies and origin contracts see it: read off JSON Schema once."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from fourgates.catalog import Tool
from fourgates.catalog.document import Document, only_ref
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
_FACTS = {"string": Kind.STRING, "int": Kind.INTEGER, "double": Kind.NUMBER, "bool": Kind.BOOLEAN}
_FACT_TYPE = re.compile(r"(?P<list>list<)?(?P<type>string|int|double|bool|dyn)(?(list)>)(?P<null>\?)?")


def arguments_shape(tool: Tool) -> Shape:
    """The record of a tool's normalised arguments: top-level defaults are filled in, a typed model fills in those below too."""
    top = _Reader(tool.schema, fills_defaults=tool.model is not None).shape(tool.schema)
    properties = tool.schema.get("properties", {})
    fields = {name: replace(each, always=each.always or _has_default(properties.get(name))) for name, each in top.fields.items()}
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
    """Reads shapes off one closed JSON Schema document, following its references and putting its parts together."""

    def __init__(self, root: Mapping[str, Any], *, fills_defaults: bool) -> None:
        self._document, self._fills = Document(root), fills_defaults
        self._known: dict[tuple[int, bool], Shape] = {}

    def shape(self, schema: Any, ended: bool = False) -> Shape:
        """The shape of what a schema describes; `ended`: the schema round it refuses fields that no part names."""
        if not isinstance(schema, Mapping):
            return ANY
        if (known := self._known.get((id(schema), ended))) is not None:
            return known
        self._known[id(schema), ended] = ANY  # a schema inside itself: its depth is the value's, not the schema's
        found = self._known[id(schema), ended] = self._read(schema, ended)
        return found

    def _read(self, schema: Mapping[str, Any], ended: bool) -> Shape:
        if only_ref(schema):
            return self.shape(self._document.target(schema["$ref"], ""), ended)
        types = self._document.types(schema)
        kinds = types - {"null"} - ({"integer"} if "number" in types else frozenset())
        nullable = "null" in types
        ended = ended or self._document.closes_itself(schema)
        if self._document.lists_holders(schema):
            return ANY
        if len(kinds) == 1:
            return replace(self._of_kind(schema, next(iter(kinds)), ended), nullable=nullable)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                branches = [self.shape(each, ended) for each in schema[word] if self._document.types(each) != {"null"}]
                return replace(self._union(branches), nullable=nullable)
        if len(kinds) < len(_ALL_KINDS):
            return self._union([self._of_kind(schema, kind, ended) for kind in sorted(kinds)])
        return ANY

    def _of_kind(self, schema: Any, kind: str, ended: bool) -> Shape:
        """The shape of a value whose type is settled."""
        if not isinstance(schema, Mapping):
            return ANY
        if kind in _SCALARS:
            return Shape(_SCALARS[kind])
        always = list(self._parts(schema, True))
        said = {"object": ("properties", "additionalProperties", "patternProperties"), "array": ("items", "prefixItems")}[kind]
        if not any(part.keys() & set(said) for part in always):
            for word in ("anyOf", "oneOf"):
                if word in schema:
                    fitting = [each for each in schema[word] if kind in self._document.types(each)]
                    return self._union(
                        [self._of_kind(each, kind, ended) if isinstance(each, Mapping) else ANY for each in fitting]
                    )
        if kind == "array":
            items = [ANY if "prefixItems" in part else self.shape(part["items"]) for part in always if "items" in part]
            return Shape(Kind.LIST, item=_narrowest(items))
        return self._object(schema, always, ended)

    def _object(self, schema: Mapping[str, Any], always: list[Mapping[str, Any]], ended: bool) -> Shape:
        sometimes = list(self._parts(schema, False))
        free = [] if ended else [ANY]
        for part in (*always, *sometimes):
            free += [self.shape(each) for each in part.get("patternProperties", {}).values()]
            ends = (part.get(word, False) for word in ("additionalProperties", "unevaluatedProperties"))
            free += [self.shape(each) for each in ends if each is not False]
        required = {name for part in always for name in part.get("required", ())}
        fields: dict[str, Field] = {}
        for name in dict.fromkeys(name for part in (*always, *sometimes) for name in part.get("properties", ())):
            certain = [part["properties"][name] for part in always if name in part.get("properties", ())]
            shapes = [self.shape(each) for each in certain]
            if not certain:
                shapes = [self._union([self.shape(p["properties"][name]) for p in sometimes if name in p.get("properties", ())])]
            filled = self._fills and any(_has_default(each) for each in certain)
            fields[name] = Field(_narrowest(shapes), always=name in required or filled)
        if free:
            members = [*free, *(each.shape for each in fields.values())]
            return Shape(Kind.MAP, item=members[0] if all(each == members[0] for each in members) else ANY)
        return Shape(Kind.RECORD, fields=fields)

    def _parts(self, schema: Any, always: bool, counts: bool = True) -> Iterator[Mapping[str, Any]]:
        """The parts that judge the same value: those that always count, or those that may."""
        if not isinstance(schema, Mapping):
            return
        if counts is always:
            yield schema
        if "$ref" in schema:
            yield from self._parts(self._document.target(schema["$ref"], ""), always, counts)
        for part in schema.get("allOf", ()):
            yield from self._parts(part, always, counts)
        maybe = [part for word in ("anyOf", "oneOf") for part in schema.get(word, ())]
        maybe += [schema[word] for word in ("if", "then", "else") if word in schema]
        for part in (*maybe, *schema.get("dependentSchemas", {}).values()):
            yield from self._parts(part, always, False)

    def _union(self, shapes: list[Shape]) -> Shape:
        """The shape of a value that has one of these."""
        distinct = _distinct(replace(shape, nullable=False) if shape is not ANY else ANY for shape in shapes)
        nullable = any(shape.nullable for shape in shapes)
        kinds = {shape.kind for shape in distinct}
        if len(distinct) == 1:
            return replace(distinct[0], nullable=nullable)
        if kinds == {Kind.INTEGER, Kind.NUMBER}:
            return Shape(Kind.NUMBER, nullable=nullable)
        return replace(ANY, variants=tuple(distinct))


def _narrowest(shapes: list[Shape]) -> Shape:
    """The shape of a value that has all of these."""
    nullable = all(shape.nullable for shape in shapes)
    telling = _distinct(replace(shape, nullable=nullable) for shape in shapes if shape.kind is not Kind.ANY)
    for exact, loose in ((Kind.INTEGER, Kind.NUMBER), (Kind.RECORD, Kind.MAP)):
        if any(shape.kind is exact for shape in telling):
            telling = [shape for shape in telling if shape.kind is not loose]
    if len(telling) == 1:
        return telling[0]
    return replace(ANY, variants=tuple(telling)) if telling else (shapes or [ANY])[0]


def _distinct(shapes: Iterable[Shape]) -> list[Shape]:
    found: list[Shape] = []
    for shape in shapes:
        if shape not in found:
            found.append(shape)
    return found


_ALL_KINDS = frozenset({"object", "array", "string", "number", "boolean"})


def free_keys(shape: Shape) -> bool:
    """Whether a value of this shape may hold, at any depth, keys that the caller chooses."""
    if shape.kind is Kind.MAP or (shape.kind is Kind.ANY and not shape.variants):
        return True
    inner = (*(each.shape for each in shape.fields.values()), *shape.variants, *((shape.item,) if shape.item else ()))
    return any(free_keys(each) for each in inner)


def _has_default(schema: Any) -> bool:
    return isinstance(schema, Mapping) and "default" in schema
