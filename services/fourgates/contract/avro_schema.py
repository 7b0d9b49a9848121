"""Avro schemas derived from the record classes. `python -m fourgates.contract.avro_schema DIR` writes the `.avsc` files."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from .events import RECORDS, Record
from .topology import BY_RECORD, TOPOLOGY, Topic

NAMESPACE = "dev.fourgates"
_PRIMITIVES: dict[Any, str] = {str: "string", int: "long", bool: "boolean", bytes: "bytes"}


@cache
def hints_of(cls: type) -> dict[str, Any]:
    """The resolved type hints of a record class, with their Annotated docs."""
    return typing.get_type_hints(cls, include_extras=True)


def unwrap(hint: Any) -> tuple[Any, str]:
    """Splits Annotated[T, doc] into (T, doc)."""
    if typing.get_origin(hint) is typing.Annotated:
        base, doc = typing.get_args(hint)
        return base, doc
    return hint, ""


def optional_of(hint: Any) -> Any | None:
    """The X of X | None, or None for any other type."""
    if isinstance(hint, types.UnionType):
        inner = [arg for arg in typing.get_args(hint) if arg is not type(None)]
        if len(inner) != 1:
            raise TypeError(f"only X | None is a contract type, not {hint}")
        return inner[0]
    return None


def schema_of(cls: type[Record]) -> dict[str, Any]:
    """The Avro schema of a topic's record as JSON, with nested records defined where they first appear."""
    return typing.cast(dict[str, Any], _record(cls, set()))


def _record(cls: type, seen: set[str]) -> dict[str, Any] | str:
    full = f"{NAMESPACE}.{cls.__name__}"
    if full in seen:
        return full
    seen.add(full)
    fields = []
    for item in dataclasses.fields(cls):
        hint, doc = unwrap(hints_of(cls)[item.name])
        field: dict[str, Any] = {"name": item.name, "type": _type(hint, seen)}
        if doc:
            field["doc"] = doc
        if item.default is not dataclasses.MISSING:
            field["default"] = _default(item.default)
        fields.append(field)
    doc = (cls.__doc__ or "").strip()
    return {"type": "record", "name": cls.__name__, "namespace": NAMESPACE, "doc": doc, "fields": fields}


def _type(hint: Any, seen: set[str]) -> Any:
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        return ["null", _type(inner, seen)]
    if typing.get_origin(hint) is tuple:
        return {"type": "array", "items": _type(typing.get_args(hint)[0], seen)}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return "string"  # an Avro enum cannot grow under FULL_TRANSITIVE; unknown words are Poison instead
    if dataclasses.is_dataclass(hint):
        return _record(typing.cast(type, hint), seen)
    return _PRIMITIVES[hint]


def _default(value: Any) -> Any:
    if value is None or isinstance(value, str | int | bool):
        return value
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, tuple):
        return [_default(item) for item in value]
    return {f.name: _default(getattr(value, f.name)) for f in dataclasses.fields(value)}


def file_name(topic: Topic) -> str:
    """`NN-topic.avsc`: the files of `schemas/` in the order a call lives."""
    return f"{TOPOLOGY.index(topic) + 1:02d}-{topic.name}.avsc"


def text_of(cls: type[Record]) -> str:
    """The `.avsc` file's content."""
    return json.dumps(schema_of(cls), indent=2, ensure_ascii=False) + "\n"


def main(folder: str) -> None:
    """Writes one `.avsc` per topic into `folder`."""
    for cls in RECORDS:
        (Path(folder) / file_name(BY_RECORD[cls.__name__])).write_text(text_of(cls), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
