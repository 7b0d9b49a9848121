"""What somebody may try who reaches every topic: each field of a record altered, records moved, sealed by others, repeated."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from fourgates.contract.avro_schema import hints_of, optional_of, unwrap
from fourgates.contract.events import Record

_PLAIN: dict[Any, Any] = {str: "x", int: 1, bool: True, bytes: b"x"}


def sample_of(hint: Any) -> Any:
    """Some value of a contract type."""
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        return sample_of(inner)
    if typing.get_origin(hint) is tuple:
        return (sample_of(typing.get_args(hint)[0]),)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return next(iter(hint))
    if dataclasses.is_dataclass(hint):
        cls = typing.cast(type, hint)
        return cls(**{field.name: sample_of(hints_of(cls)[field.name]) for field in dataclasses.fields(cls)})
    return _PLAIN[hint]


def others_of(value: Any, hint: Any) -> Iterator[tuple[str, Any]]:
    """(path below it, another value): each field of it altered, one at a time, at every depth."""
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        yield "", None if value is not None else sample_of(inner)
        if value is not None:
            yield from others_of(value, inner)
    elif typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        yield "[+]", (*value, sample_of(item))
        if value:
            yield "[-]", value[:-1]
        for index, each in enumerate(value):
            for path, other in others_of(each, item):
                yield f"[{index}]{path}", (*value[:index], other, *value[index + 1 :])
    elif dataclasses.is_dataclass(hint):
        for field in dataclasses.fields(value):
            for path, other in others_of(getattr(value, field.name), hints_of(typing.cast(type, hint))[field.name]):
                yield f".{field.name}{path}", dataclasses.replace(value, **{field.name: other})
    else:
        yield "", _other(value)


def _other(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return next(word for word in type(value) if word is not value)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return value + ("x" if isinstance(value, str) else b"x")


def alterations(record: Record) -> Iterator[tuple[str, Record]]:
    """(path, the record with that one field altered and its old seal on it). The seal's own fields are among them."""
    yield from others_of(record, type(record))
