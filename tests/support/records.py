"""Generated records of every class, and a registry without files: what the tests of the contract are made from."""

from __future__ import annotations

import dataclasses
import typing
from enum import StrEnum
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fourgates.contract.avro import CLASSES, AvroCodec, fingerprint_id
from fourgates.contract.avro_schema import hints_of, optional_of, schema_of, unwrap
from fourgates.contract.events import Record

_LONG = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=12),
    int: _LONG,
    bool: st.booleans(),
    bytes: st.binary(max_size=12),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a contract type, as its annotation says."""
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        return st.none() | values_of(inner)
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(typing.get_args(hint)[0]), max_size=2).map(tuple)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    if dataclasses.is_dataclass(hint):
        return instances_of(typing.cast(type, hint))
    return _SCALARS[hint]


@cache
def instances_of(cls: type) -> st.SearchStrategy[Any]:
    """Instances of a record class or of a part, every field generated."""
    hints = hints_of(cls)
    return st.builds(cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)})


def plain_of(value: Any) -> Any:
    """A record as plain JSON-like data, written apart from the codec so that it can be compared with it."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain_of(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


class BuiltInRegistry:
    """Knows the schemas of this build and no other."""

    def id_of(self, topic: str) -> int:
        return fingerprint_id(schema_of(CLASSES[topic]))

    def schema(self, topic: str, schema_id: int) -> dict[str, Any] | None:
        return schema_of(CLASSES[topic]) if schema_id == self.id_of(topic) else None


@cache
def codec() -> AvroCodec:
    return AvroCodec(BuiltInRegistry())


def altered(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, StrEnum):
        return next(word for word in type(value) if word is not value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, bytes):
        return value + b"x"
    if isinstance(value, tuple):
        return (*value, value[-1]) if value else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        first = dataclasses.fields(value)[0].name
        return dataclasses.replace(value, **{first: altered(getattr(value, first))})
    raise TypeError(f"no other value of {type(value).__name__}")


def wire_value(record: Record) -> bytes:
    """The record's bytes without a valid seal."""
    return codec().encode(record)[1]
