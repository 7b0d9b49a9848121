"""Closing and compiling an argument schema, so that unknown fields are refused at any depth, also where its author was silent.

Closed means: every object says which fields it has, every array what its items are, every argument what it is. A position that
stands alone is closed by `additionalProperties: false`; one that is put together (`allOf`, `anyOf`, a `$ref` with siblings, ...)
by `unevaluatedProperties: false` round the whole, because inside a part the fields of its neighbours would count as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf
from typing import Any

import jsonschema_rs

from fourgates.contract.errors import ConfigurationError

from .formats import FORMATS
from .keywords import ANNOTATIONS, parts_of, rebuild, step

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
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "not"})
"""Keywords whose subschemas judge the same value as the schema that they stand in."""
_EXACT = frozenset({"oneOf", "if", "not", "contains", "propertyNames"})
"""Where accepting less inside would accept more outside, so that nothing may be added inside."""
_HOLDERS = frozenset({"object", "array"})
"""The types whose values hold other values: only these can be open."""
_MOVING = frozenset({"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary"})


def close_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with every open position closed. Raises ConfigurationError, naming the place, for what cannot be closed."""
    return _Closing(schema).root()


def open_place(schema: Mapping[str, Any]) -> str | None:
    """The JSON Pointer of the first position that is not closed by the schema itself; None where it is closed throughout."""
    return _Closing(schema).open_place(schema, "", True, set())


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """The compiled validator: linear-time patterns, formats asserted, nothing fetched.

    Raises ConfigurationError for an invalid schema, a pattern beyond the linear-time engine, an unknown format, a reference that
    leads nowhere.
    """
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema), pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True, formats=dict(FORMATS),
            ignore_unknown_formats=False, offline=True,
        )  # fmt: skip
    except jsonschema_rs.ValidationError as fault:
        place = step("", *fault.instance_path) or "/"
        hint = ""
        if "regex" in fault.message:
            hint = "; patterns run on a linear-time engine without lookaround and back-references, write it without them"
        if "format" in fault.message:
            hint = f"; nobody would check it, use one of JSON Schema's own or {', '.join(FORMATS)}"
        raise ConfigurationError(f"its schema is not usable at {place}: {fault.message}{hint}") from fault


class _Closing:
    """One schema on its way to being closed; `$defs` are rebuilt from what is used, open and closed where both are needed."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = schema
        self._defs: dict[str, Any] = {}
        self._names: dict[tuple[str, bool], str] = {}

    def root(self) -> dict[str, Any]:
        schema = {key: value for key, value in self._root.items() if key not in ("$id", "$defs", "definitions")}
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
        for home in ("$defs", "definitions"):
            for name in self._root.get(home, {}):
                self._must_end(f"#/{home}/{name}", ())
        closed: dict[str, Any] = self._close(schema, "", True)
        return {**closed, "$defs": self._defs} if self._defs else closed

    def _close(self, node: Any, place: str, closed: bool) -> Any:
        """`node` at `place`; `closed` says whether it must be closed here or is closed by the schema round it."""
        if node is False:
            return False
        if node is True or not isinstance(node, Mapping) or not node.keys() - ANNOTATIONS - {"default"}:
            if closed:
                raise _refused(place, "takes any value, so unknown fields would pass", "say its type and its fields")
            return node
        if moving := sorted(node.keys() & _MOVING) or (["$id"] if "$id" in node else []):
            raise _refused(place, f"uses {moving[0]}, so what it means depends on where it is read from", "use $ref into $defs")
        mended = dict(node)
        grouped = bool(node.keys() & _IN_PLACE) and not _only_ref(node)
        if closed and not self._closes_itself(node):
            self._add_ends(mended, place, grouped)
        out: dict[str, Any] = {}
        for key, value in mended.items():
            if key == "$ref":
                out[key] = self._reference(str(value), place, closed and not grouped)
                continue
            if key in _EXACT:
                self._must_be_exact(node, key, value, place)
            out[key] = rebuild(key, value, partial(self._below, place, key not in _IN_PLACE | _EXACT))
        return out

    def _below(self, place: str, closed: bool, at: str, node: Any) -> Any:
        return self._close(node, place + at, closed)

    def _add_ends(self, node: dict[str, Any], place: str, grouped: bool) -> None:
        if grouped:
            types = _types(node)
            if types is None or "object" in types:
                node.setdefault("unevaluatedProperties", False)
            if types is None or "array" in types:
                node.setdefault("unevaluatedItems", False)
            return
        if _only_ref(node):
            return
        if "type" not in node:
            families = [name for name, words in _FAMILIES.items() if node.keys() & words]
            if len(families) != 1:
                raise _refused(place, "does not say its type, so any object would pass", "give it a type")
            node["type"] = families[0]
        types = _types(node) or frozenset()
        if "object" in types and not node.keys() & {"additionalProperties", "unevaluatedProperties"}:
            node["additionalProperties"] = False
        if "array" in types and not node.keys() & {"items", "unevaluatedItems"}:
            if "prefixItems" not in node:
                raise _refused(place, "is an array of anything, so unknown fields would pass", "say what its items are")
            node["items"] = False

    def _reference(self, ref: str, place: str, closed: bool) -> str:
        if ref == "#":
            if not closed:
                raise _refused(place, "puts the whole schema inside another one", "move the shared part into $defs")
            return ref
        target = self._target(ref, place)
        # Where closing adds nothing, both forms are the same and share the name, as a typed model's always do.
        closed = closed or self._closes_itself(target)
        if (ref, closed) not in self._names:
            plain = ref.rsplit("/", 1)[1]
            name = plain if closed or plain.endswith(".open") else f"{plain}.open"
            while name in self._defs:
                name += "_"
            self._names[ref, closed] = name  # before it is closed: a definition may refer to itself
            self._defs[name] = None  # its place, so that the order stays and nobody else takes the name
            self._defs[name] = self._close(target, ref.removeprefix("#"), closed)
        return f"#/$defs/{self._names[ref, closed]}"

    def _target(self, ref: str, place: str) -> Any:
        if not ref.startswith("#"):
            raise _refused(
                place, f"refers to {ref}, outside the schema: it would mean what that place says today", "copy it into $defs"
            )
        for home in ("$defs", "definitions"):
            prefix = f"#/{home}/"
            name = ref.removeprefix(prefix)
            if ref.startswith(prefix) and "/" not in name and name in self._root.get(home, {}):
                return self._root[home][name]
        raise _refused(place, f"refers to {ref}, which is no name under $defs", "move what it means there")

    def _must_end(self, ref: str, before: tuple[str, ...]) -> None:
        """A definition that leads back to itself for the same value judges nothing; a validator then lets everything pass."""
        if ref in before:
            raise _refused(
                ref[1:], "refers back to itself for the same value, so it would accept anything", "say what the value is"
            )
        for node in self._in_place(self._target(ref, "")):
            if isinstance(node, Mapping) and node.get("$ref", "#") != "#":
                self._must_end(str(node["$ref"]), (*before, ref))

    def _in_place(self, node: Any) -> Iterator[Any]:
        """A schema and the schemas inside it that judge the same value."""
        yield node
        for key in node.keys() & _IN_PLACE if isinstance(node, Mapping) else ():
            for _, part in parts_of(key, node[key]):
                yield from self._in_place(part)

    def _must_be_exact(self, node: Mapping[str, Any], key: str, value: Any, place: str) -> None:
        closed = key == "contains" and "items" not in node
        for at, part in parts_of(key, value):
            if (hole := self.open_place(part, place + at, closed, set())) is not None:
                raise _refused(hole, f"stands open inside {key}, where closing it would change what the rest accepts",
                               "write additionalProperties: false there yourself")  # fmt: skip

    def open_place(self, node: Any, place: str, closed: bool, seen: set[tuple[str, bool]]) -> str | None:
        """The first position at or below `place` to which closing would add something."""
        if node is False or not isinstance(node, Mapping):
            return place if closed and node is not False else None
        if closed and not self._closes_itself(node):
            return place
        for key, value in node.items():
            if key == "$ref" and value != "#" and (value, closed) not in seen:
                seen.add((value, closed))
                alone = closed and _only_ref(node)
                if (hole := self.open_place(self._target(str(value), place), str(value)[1:], alone, seen)) is not None:
                    return hole
            if key in ("$defs", "definitions"):
                continue  # only what is used counts
            for at, part in parts_of(key, value):
                if (hole := self.open_place(part, place + at, key not in _IN_PLACE | _EXACT, seen)) is not None:
                    return hole
        return None

    def _closes_itself(self, node: Any) -> bool:
        """True where neither unknown fields nor items of unknown kind can pass at this position, whatever is round it."""
        if not isinstance(node, Mapping):
            return node is False
        if node.keys() & {"enum", "const"}:
            return True
        ref = node.get("$ref")
        if ref is not None and (ref == "#" or self._closes_itself(self._target(str(ref), ""))):
            return True
        if any(self._closes_itself(part) for part in node.get("allOf", ())):
            return True
        for key in ("anyOf", "oneOf"):
            if node.get(key) and all(self._closes_itself(part) for part in node[key]):
                return True
        types = _types(node) or _HOLDERS
        if "object" in types and not node.keys() & {"additionalProperties", "unevaluatedProperties"}:
            return False
        ends = node.keys() & {"items", "unevaluatedItems"} or node.get("maxItems", inf) <= len(node.get("prefixItems", ()))
        return "array" not in types or bool(ends)


def _types(node: Mapping[str, Any]) -> frozenset[str] | None:
    said = node.get("type")
    return None if said is None else frozenset([said] if isinstance(said, str) else said)


def _only_ref(node: Mapping[str, Any]) -> bool:
    return "$ref" in node and not node.keys() - ANNOTATIONS - {"$ref", "default"}


def _refused(place: str, what: str, to_do: str) -> ConfigurationError:
    return ConfigurationError(f"its schema cannot be closed: {place or '/'} {what}; {to_do}")
