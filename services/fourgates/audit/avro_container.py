"""Avro object containers, written round records whose bytes are there already: an Avro record is its fields' bytes in a row."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_MAGIC, _SYNC = b"Obj\x01", b"fourgates-audit!"


def long(number: int) -> bytes:
    """An Avro long."""
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest & ~0x7F:
        out.append((rest & 0x7F) | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def head_of(schema: Any) -> bytes:
    """A container's beginning: what every reader needs to know of the schema."""
    meta = {"avro.schema": json.dumps(schema, separators=(",", ":")).encode(), "avro.codec": b"null"}
    entries = b"".join(long(len(name)) + name.encode() + long(len(value)) + value for name, value in meta.items())
    return _MAGIC + long(len(meta)) + entries + long(0) + _SYNC


@contextmanager
def in_memory(head: bytes, data: Sequence[bytes]) -> Iterator[str]:
    """The path of a file in memory that holds the container of these records; it never touches a disk."""
    handle = os.memfd_create("fourgates-audit")
    try:
        with os.fdopen(os.dup(handle), "wb") as file:
            file.write(b"".join((head, long(len(data)), long(sum(map(len, data))))))
            file.writelines(data)
            file.write(_SYNC)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def readable(schema: Any) -> Any:
    """The schema with every `null or array` as `null or record of one array`: the same bytes, but ClickHouse keeps the null."""
    if isinstance(schema, list):
        return [_listed(one) if isinstance(one, dict) and one.get("type") == "array" else readable(one) for one in schema]
    if isinstance(schema, dict):
        return {name: readable(value) if name in ("type", "fields", "items") else value for name, value in schema.items()}
    return schema


def _listed(array: Any) -> Any:
    return {"type": "record", "name": "Listed", "fields": [{"name": "listed", "type": readable(array)}]}
