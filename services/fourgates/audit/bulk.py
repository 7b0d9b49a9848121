"""Rows of many records at once: what is plainly in order is decoded and mapped by ClickHouse's embedded engine, in memory.

One record costs the row maker ten times as much. So a full batch goes this way: a seal is checked over the bytes, the bytes go
undecoded into an Avro container in memory, and the engine turns it into columns. Whatever is not plainly in order is left to
the row maker: a seal that does not fit, another schema, a kind that is not mapped, a text that might have to be redacted.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import structlog

from fourgates.audit.avro_container import head_of, in_memory, long, readable
from fourgates.audit.bulk_columns import MAPPED, Mapped, column_expressions, quoted
from fourgates.audit.rows import Prepared, RowMaker, trace_id_of
from fourgates.contract.avro import CLASSES
from fourgates.contract.avro_schema import schema_of
from fourgates.contract.ports import Received
from fourgates.contract.seals import RUN_KEY_ID, RecordOpener, writer_of
from fourgates.contract.topology import CALLS_REQUESTED
from fourgates.gates.redaction_encoded import ENCODED_HINTS
from fourgates.gates.redaction_names import NAME_HINTS, PERSONAL_NAME_HINTS
from fourgates.gates.redaction_patterns import PATTERNS

Run: TypeAlias = Callable[[str, str], bytes]
"""Runs a statement on an embedded engine: (statement, output format) -> its answer. Raises EngineError."""

_PLACE = struct.Struct("<iiqqi32s32s")
"""Number in the batch, partition, offset, broker time, bytes, sha256 of the value, trace id or nothing."""
_long = lru_cache(maxsize=4_096)(long)
_AS_PYTHON = "SETTINGS output_format_json_escape_forward_slashes = 0"
_LONGEST_TEXT = 65_536
_UNPLAIN = r"[^ -~\n\t]|\\"
"""Anything but visible ASCII; and escapes, behind which something could hide."""
_log = structlog.get_logger("fourgates.audit")


class EngineError(Exception):
    """The engine cannot read what it was given."""


@dataclass(slots=True)
class Bulk:
    """What became of a batch."""

    native: list[bytes] = field(default_factory=list)
    """Rows as blocks of ClickHouse's Native format, columns in the order of COLUMNS."""
    rows: int = 0
    left: list[Received] = field(default_factory=list)
    """For the row maker."""

    def add(self, more: Bulk) -> None:
        self.native += more.native
        self.rows += more.rows
        self.left += more.left


class BulkRows:
    """Prepares batches: a small one record by record, a large one in bulk and what is left of it record by record."""

    def __init__(self, rows: RowMaker, bulk: BulkMaker, least: int) -> None:
        self._rows, self._bulk, self._least = rows, bulk, least

    def prepare(self, received: Sequence[Received]) -> Prepared:
        if len(received) < self._least:
            return self._rows.prepare(received)
        made = self._bulk.make(received)
        rest = self._rows.prepare(made.left)
        return Prepared(rest.rows, made.native, rest.invalid)


class BulkMaker:
    """Makes rows of many records, byte for byte those that `like` makes, with the engine that `run` runs statements on."""

    def __init__(self, opener: RecordOpener, like: RowMaker, run: Run) -> None:
        self._opener, self._redactions, self._run = opener, like.redactions, run
        self._key = like.key
        self._topics = {topic: _Topic(topic, mapped, like.made_by) for topic, mapped in MAPPED.items()}

    def make(self, received: Sequence[Received]) -> Bulk:
        """The rows of what is plainly in order, and the rest. Nothing that a record holds makes this raise.

        One call at a time. While the engine maps one topic the seals of the next are checked.
        """
        by_topic: dict[str, list[Received]] = defaultdict(list)
        for one in received:
            by_topic[one.position.topic].append(one)
        bulk = Bulk()
        with ThreadPoolExecutor(max_workers=1) as engine:
            mapping = []
            for name, ones in by_topic.items():
                topic = self._topics.get(name)
                proved, data = self._proved(ones, bulk) if topic is not None else ([], [])
                if topic is None:
                    bulk.left += ones
                elif proved:
                    mapping.append(engine.submit(self._map, topic, proved, data))
            for done in mapping:
                bulk.add(done.result())
        return bulk

    def _proved(self, ones: Sequence[Received], bulk: Bulk) -> tuple[list[Received], list[bytes]]:
        """Those whose seals fit, and their data; the others are left."""
        proved: list[Received] = []
        data: list[bytes] = []
        for one in ones:
            if datum := self._datum(one, len(proved)):
                proved.append(one)
                data.append(datum)
            else:
                bulk.left.append(one)
        return proved, data

    def _map(self, topic: _Topic, ones: list[Received], data: list[bytes]) -> Bulk:
        try:
            with in_memory(topic.head, data) as path, in_memory(_KEY_HEAD, [long(len(self._key)) + self._key]) as key:
                left = self._unsure(topic, path)
                native = self._run(topic.rows(path, key, left), "Native")
        except EngineError as fault:  # a stage that seals what is no record: the row maker tells which one
            _log.error("a batch of records could not be read", topic=ones[0].position.topic, fault=str(fault))
            return Bulk(left=ones)
        return Bulk([native], len(ones) - len(left), [ones[number] for number in left])

    def _unsure(self, topic: _Topic, path: str) -> list[int]:
        """The numbers of those that are left to the row maker."""
        left = []
        for line in self._run(topic.unsure(path), "JSONCompactEachRow").splitlines():
            number, in_order, tool, call_id, texts = json.loads(line)
            if not in_order or not self._harmless(tool, call_id, texts):
                left.append(int(number))
        return left

    def _harmless(self, tool: str, call_id: str, texts: Sequence[str]) -> bool:
        clean = self._redactions.of(tool, call_id)
        return all(clean.text(text) == text for text in texts)

    def _datum(self, received: Received, number: int) -> bytes:
        """The record's bytes behind what is known of it without decoding; empty where it does not prove itself."""
        where, value = received.position, received.value or b""
        key_id, body = self._request(received) if where.topic == CALLS_REQUESTED else self._opener.sealed_body(received)
        if not body:
            return b""
        trace = trace_id_of(received.headers).encode() if received.headers else b""
        place = _PLACE.pack(
            number, where.partition, where.offset, received.time_ms, len(value), hashlib.sha256(value).digest(), trace
        )
        return b"".join((place, _text(received.key), _sealer(key_id), body))

    def _request(self, received: Received) -> tuple[str, bytes]:
        """A host's request bears no seal that could be checked here: it is decoded, and written anew by our own encoder."""
        return RUN_KEY_ID, self._opener.rewritten(received)


class _Topic:
    """The statements of one topic."""

    def __init__(self, topic: str, mapped: Mapped, made_by: str) -> None:
        self._mapped = mapped
        self._columns = ", ".join(column_expressions(topic, made_by))
        self.head = head_of(_placed(schema_of(CLASSES[topic])))
        self._order = _in_order(topic, mapped)

    def _source(self, path: str) -> str:
        also = "".join(f", {said} AS {name}" for name, said in self._mapped.also.items())
        return f"{_SOURCE}{also} FROM file('{path}', 'Avro')"

    def unsure(self, path: str) -> str:
        """(number, in order, tool, call_id, texts that need a closer look) of those that are not plainly in order."""
        asked = f"number, in_order, {self._mapped.tool}, {self._mapped.call_id}, doubtful"
        named = f"{self._order} AS in_order, arrayFilter(x -> {_DOUBTFUL}, {self._mapped.texts}) AS doubtful"
        return f"WITH {named} SELECT {asked} FROM ({self._source(path)}) WHERE NOT in_order OR notEmpty(doubtful)"  # noqa: S608 - fixed words, our own path

    def rows(self, path: str, key: str, left: Sequence[int]) -> str:
        """The rows of all but `left`."""
        but = f" WHERE number NOT IN ({', '.join(map(str, left))})" if left else ""
        keyed = f"WITH (SELECT key FROM file('{key}', 'Avro')) AS digest_key"  # noqa: S608 - our own path
        return f"{keyed} SELECT {self._columns} FROM ({self._source(path)}){but} {_AS_PYTHON}"  # noqa: S608 - fixed words, our own path


def _in_order(topic: str, mapped: Mapped) -> str:
    """What the row maker's opener looks at once it has decoded, and that everything is of a kind that is mapped."""
    sealed = "1" if topic == CALLS_REQUESTED else "key_id = r.seal.key_id"
    pairs = [(kind, writer) for kind, writers in mapped.writers.items() for writer in sorted(writers)]
    kinds = "''" if "" in mapped.writers else "r.kind"
    may = f"({kinds}, writer) IN ({', '.join(f'({quoted(kind)}, {quoted(writer)})' for kind, writer in pairs)})"
    return f"(key = {mapped.key} AND {sealed} AND {may} AND NOT ({mapped.rest}))"


def _placed(schema: Any) -> Any:
    """The record's schema behind the place that `_datum` writes."""
    place = {"type": "fixed", "name": "Place", "size": _PLACE.size}
    fields = [{"name": "place", "type": place}, *({"name": name, "type": "string"} for name in ("key", "key_id", "writer"))]
    return {"type": "record", "name": "Placed", "fields": [*fields, {"name": "r", "type": readable(schema)}]}


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


@lru_cache(maxsize=256)
def _sealer(key_id: str) -> bytes:
    return _text(key_id.encode()) + _text(writer_of(key_id).encode())


def _fixed_parts() -> str:
    parts, start = [], 1
    for name, size in (("number", 4), ("partition", 4), ("offset", 8), ("at_ms", 8), ("value_bytes", 4)):
        parts.append(f"reinterpretAsInt{size * 8}(substring(place, {start}, {size})) AS {name}")
        start += size
    parts.append(f"lower(hex(substring(place, {start}, 32))) AS value_digest")
    parts.append(f"toStringCutToZero(substring(place, {start + 32}, 32)) AS trace_id")
    return ", ".join(parts)


_SOURCE = f"SELECT {_fixed_parts()}, key, key_id, writer, r"
_HINTS = dict.fromkeys((*(pattern.hint for pattern in PATTERNS), *ENCODED_HINTS, *NAME_HINTS, *PERSONAL_NAME_HINTS.values()))
_KEY_HEAD = head_of({"type": "record", "name": "Key", "fields": [{"name": "key", "type": "bytes"}]})
_DOUBTFUL = " OR ".join(
    (
        f"length(x) > {_LONGEST_TEXT}",
        f"match(x, {quoted(_UNPLAIN)})",
        f"match(x, {quoted('|'.join(f'(?:{hint})' for hint in _HINTS))})",
    )
)
"""What is neither certainly clean nor certainly without anything to redact."""
