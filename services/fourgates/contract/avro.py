"""Records to Avro bytes in Confluent's wire format and back: magic byte 0, four bytes of schema id, the Avro body."""

from __future__ import annotations

import dataclasses
import io
import struct
import typing
from collections.abc import Callable
from enum import StrEnum
from operator import attrgetter
from typing import Any, Protocol

import fastavro

from .avro_beginning import BEGINNINGS, Beginning, says_attempted
from .avro_schema import hints_of, optional_of, schema_of, unwrap
from .errors import Poison, Transient
from .events import RECORDS, Record
from .topology import BY_NAME, BY_RECORD, CALLS_LEDGER

_HEADER = struct.Struct(">bI")
HEADER_BYTES = _HEADER.size
MAX_RECORD_BYTES = 1_000_000
"""No record of ours is larger; results beyond 256 KiB travel by reference."""

CLASSES: dict[str, type[Record]] = {BY_RECORD[cls.__name__].name: cls for cls in RECORDS}
"""The record class of each topic."""


class SchemaRegistry(Protocol):
    """Where schema ids are known: a Confluent-compatible registry, or the local folder."""

    def id_of(self, topic: str) -> int:
        """The id under which this build's schema of `topic` is registered."""

    def schema(self, topic: str, schema_id: int) -> dict[str, Any] | None:
        """The writer's schema of that id for `topic`, or None where nobody registered it."""


def fingerprint_id(schema: dict[str, Any]) -> int:
    """A schema id that needs no coordination: 31 bits of the sha256 of the parsing canonical form."""
    canonical_form = fastavro.schema.to_parsing_canonical_form(schema)
    return int(fastavro.schema.fingerprint(canonical_form, "sha256")[:8], 16) & 0x7FFFFFFF


Convert = Callable[[Any], Any]


def _encoder(hint: Any) -> Convert | None:
    """How a field's value becomes what fastavro takes; None where it already is."""
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        return _optional(_encoder(inner))
    if typing.get_origin(hint) is tuple:
        # never a tuple: inside a union fastavro takes one for (name of the branch, value)
        return _each(_encoder(typing.get_args(hint)[0]), list) or list
    return to_dict(hint) if dataclasses.is_dataclass(hint) else None


def _decoder(hint: Any) -> Convert | None:
    """How what fastavro gives becomes a field's value; None where it already is."""
    hint, _ = unwrap(hint)
    if (inner := optional_of(hint)) is not None:
        return _optional(_decoder(inner))
    if typing.get_origin(hint) is tuple:
        return _each(_decoder(typing.get_args(hint)[0]), tuple) or tuple
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    return from_dict(hint) if dataclasses.is_dataclass(hint) else None


def _optional(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    one = convert
    return lambda value: None if value is None else one(value)


def _each(convert: Convert | None, collect: Callable[[Any], Any]) -> Convert | None:
    if convert is None:
        return None
    one = convert
    return lambda value: collect([one(item) for item in value])


_TO_DICT: dict[Any, Callable[[Any], dict[str, Any]]] = {}
_FROM_DICT: dict[Any, Callable[[dict[str, Any]], Any]] = {}


def to_dict(cls: Any) -> Callable[[Any], dict[str, Any]]:
    """The function that turns an instance of `cls` into a plain dict."""
    if cls in _TO_DICT:
        return _TO_DICT[cls]
    names = [field.name for field in dataclasses.fields(cls)]
    take = attrgetter(*names) if len(names) > 1 else lambda value: (getattr(value, names[0]),)
    inner = [(name, encode) for name in names if (encode := _encoder(hints_of(cls)[name])) is not None]

    def convert(value: Any) -> dict[str, Any]:
        made = dict(zip(names, take(value), strict=True))
        for name, encode in inner:
            made[name] = encode(made[name])
        return made

    return _TO_DICT.setdefault(cls, convert)


def from_dict(cls: Any) -> Callable[[dict[str, Any]], Any]:
    """The function that turns a decoded dict into an instance of `cls`. ValueError for a word of no enumeration."""
    if cls in _FROM_DICT:
        return _FROM_DICT[cls]
    # Through the slots' own setters: a frozen dataclass's __init__ sets each field by a slower way.
    plan = [(getattr(cls, f.name).__set__, f.name, _decoder(hints_of(cls)[f.name])) for f in dataclasses.fields(cls)]
    new = cls.__new__

    def convert(value: dict[str, Any]) -> Any:
        made = new(cls)
        for put, name, decode in plan:
            put(made, value[name] if decode is None else decode(value[name]))
        return made

    return _FROM_DICT.setdefault(cls, convert)


class AvroCodec:
    """Encodes and decodes the records of all topics with one registry. Seals are not its business."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._parsed: dict[str, Any] = {t: fastavro.parse_schema(schema_of(cls)) for t, cls in CLASSES.items()}
        self._headers = {topic: _HEADER.pack(0, registry.id_of(topic)) for topic in CLASSES}
        self._writers: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._heads: dict[tuple[str, int], Any] = {}

    def encode(self, record: Record) -> tuple[str, bytes]:
        """(topic, wire bytes)."""
        topic = BY_RECORD[type(record).__name__].name
        out = io.BytesIO()
        out.write(self._headers[topic])
        fastavro.schemaless_writer(out, self._parsed[topic], to_dict(type(record))(record))
        return topic, out.getvalue()

    def decode(self, topic: str, value: bytes | None) -> Record:
        """The record, read by the writer's schema and resolved to ours. Raises Poison for anything that is not one."""
        if value is None:
            raise Poison("null_value", "the record has no value")
        if len(value) > MAX_RECORD_BYTES:
            raise Poison("too_large", f"{len(value)} bytes, at most {MAX_RECORD_BYTES}")
        if len(value) < HEADER_BYTES or value[0] != 0:
            raise Poison("malformed_avro", "not in Confluent wire format")
        schema_id = _HEADER.unpack_from(value)[1]
        writer, reader = self._schemas(topic, schema_id)
        body = io.BytesIO(value)
        body.seek(HEADER_BYTES)
        try:
            plain = fastavro.schemaless_reader(body, writer, reader)
            if body.read(1):
                raise Poison("malformed_avro", "bytes after the record")
            return typing.cast(Record, from_dict(CLASSES[topic])(typing.cast(dict[str, Any], plain)))
        except Poison:
            raise
        except Exception as fault:  # fastavro raises many kinds for malformed bytes (IndexError, EOFError, Unicode...)
            raise Poison("malformed_avro", type(fault).__name__) from fault

    def body_of(self, topic: str, value: bytes | None) -> bytes:
        """The Avro body of a value that says it is written by this build's schema; empty where it says otherwise."""
        if value is None or len(value) > MAX_RECORD_BYTES or not value.startswith(self._headers[topic]):
            return b""
        return value[HEADER_BYTES:]

    def beginning(self, topic: str, body: bytes) -> Beginning | None:
        """Of a body by this build's schema as much as a fold looks at; None where that is not known, or it is no record."""
        read = BEGINNINGS.get(topic)
        try:
            return None if read is None else read(body)
        except (IndexError, KeyError, ValueError):
            return None

    def says_attempted(self, topic: str, value: bytes | None) -> bool:
        """Whether a value says, unproved, that it is an Attempted of the ledger by this build's schema."""
        return topic == CALLS_LEDGER and says_attempted(self.body_of(topic, value))

    def rewritten(self, topic: str, value: bytes | None) -> bytes:
        """The Avro body of such a value, decoded and encoded anew: well-formed, whoever wrote it. Empty where it is none."""
        if not (body := self.body_of(topic, value)):
            return b""
        source, out = io.BytesIO(body), io.BytesIO()
        try:
            plain = fastavro.schemaless_reader(source, self._parsed[topic], None)
            fastavro.schemaless_writer(out, self._parsed[topic], plain)
        except Exception:  # as in `decode`, which says what is wrong with it
            return b""
        return b"" if source.read(1) else out.getvalue()

    def glance(self, topic: str, value: bytes | None) -> tuple[str, str] | None:
        """(kind, call_id) of a record that begins with both, at a tenth of the cost of decoding it; None where that fails.

        Nothing is proved by it: good for leaving out what would change nothing even if it were true, for nothing else.
        """
        if value is None or len(value) < HEADER_BYTES or value[0] != 0:
            return None
        schema_id = _HEADER.unpack_from(value)[1]
        body = io.BytesIO(value)
        body.seek(HEADER_BYTES)
        try:
            head = self._heads.get((topic, schema_id))
            if head is None:
                head = self._heads[topic, schema_id] = _head_of(self._schemas(topic, schema_id)[0])
            plain = typing.cast(dict[str, str], fastavro.schemaless_reader(body, head, None))
        except Transient:
            raise
        except Exception:  # fastavro raises many kinds for malformed bytes; whoever decodes the record says what is wrong
            return None
        return plain["kind"], plain["call_id"]

    def _schemas(self, topic: str, schema_id: int) -> tuple[Any, Any]:
        """The writer's schema, and ours where it is another one: to resolve a schema with itself costs more than decoding."""
        found = self._writers.get((topic, schema_id))
        if found is None:
            schema = self._registry.schema(topic, schema_id)
            if schema is None:
                raise Poison("unknown_schema", f"id {schema_id} is not a schema of {BY_NAME[topic].name}")
            writer, ours = fastavro.parse_schema(schema), self._parsed[topic]
            found = self._writers[topic, schema_id] = writer, None if writer == ours else ours
        return found


def _head_of(schema: Any) -> Any:
    """The schema's fields up to `call_id`, as a record of their own. Raises Poison where it has none."""
    names = [field["name"] for field in schema["fields"]]
    if not {"kind", "call_id"} <= set(names):
        raise Poison("unknown_schema", "its records have no kind and call_id")
    fields = schema["fields"][: max(names.index("kind"), names.index("call_id")) + 1]
    return fastavro.parse_schema({"type": "record", "name": f"{schema['name']}Head", "fields": fields})
