"""Rows of many records at once: what is plainly in order is decoded and mapped by ClickHouse's embedded engine, in memory.

One record costs the row maker ten times as much. So a full batch goes this way: a seal is checked over the bytes, the bytes go
undecoded into an Avro container in memory, and the engine turns it into columns. Whatever is not plainly in order is left to
the row maker: a seal that does not fit, another schema, a kind that is not mapped, a text that might have to be redacted.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
        self._pads = b"".join(long(len(pad)) + pad for pad in hmac_pads(like.key))
        self._table = f"batch_{next(_NUMBERS)}"
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
            with self._decoded(topic, data), in_memory(_PADS_HEAD, [self._pads]) as pads:
                left = self._unsure(topic)
                native = self._run(topic.rows(self._table, pads, left), "Native")
        except EngineError as fault:  # a stage that seals what is no record: the row maker tells which one
            _log.error("a batch of records could not be read", topic=ones[0].position.topic, fault=str(fault))
            return Bulk(left=ones)
        return Bulk([native], len(ones) - len(left), [ones[number] for number in left])

    @contextmanager
    def _decoded(self, topic: _Topic, data: list[bytes]) -> Iterator[None]:
        """The records as a table in memory: decoding them once for each question to them would cost as much as the rows."""
        try:
            with in_memory(topic.head, data) as path:
                self._run(topic.decoded(self._table, path), "Null")
            yield
        finally:
            self._run(f"DROP TEMPORARY TABLE IF EXISTS {self._table}", "Null")

    def _unsure(self, topic: _Topic) -> list[int]:
        """The numbers of those that are left to the row maker."""
        left = []
        for line in self._run(topic.unsure(self._table), "JSONCompactEachRow").splitlines():
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

    def decoded(self, table: str, path: str) -> str:
        """Makes the table of the records, with whether each is plainly in order and which of its texts need a closer look."""
        also = "".join(f", {said} AS {name}" for name, said in self._mapped.also.items())
        judged = f"{self._order} AS in_order, arrayFilter(x -> {_DOUBTFUL}, {self._mapped.texts}) AS doubtful"
        source = f"{_SOURCE}{also} FROM file('{path}', 'Avro')"
        return f"CREATE TEMPORARY TABLE {table} ENGINE = Memory AS SELECT *, {judged} FROM ({source})"  # noqa: S608

    def unsure(self, table: str) -> str:
        """(number, in order, tool, call_id, doubtful texts) of those that are not plainly in order."""
        asked = f"number, in_order, {self._mapped.tool}, {self._mapped.call_id}, doubtful"
        return f"SELECT {asked} FROM {table} WHERE NOT in_order OR notEmpty(doubtful)"  # noqa: S608 - fixed words

    def rows(self, table: str, pads: str, left: Sequence[int]) -> str:
        """The rows of all but `left`."""
        but = f" WHERE number NOT IN ({', '.join(map(str, left))})" if left else ""
        keyed = f"WITH (SELECT (inner, outer) FROM file('{pads}', 'Avro')) AS pads"  # noqa: S608 - our own path
        return f"{keyed} SELECT {self._columns} FROM {table}{but} {_AS_PYTHON}"  # noqa: S608 - fixed words


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


def hmac_pads(key: bytes) -> tuple[bytes, bytes]:
    """What HMAC-SHA256 hashes before the message, and before the hash of that."""
    padded = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
    return bytes(byte ^ 0x36 for byte in padded), bytes(byte ^ 0x5C for byte in padded)


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
_PADS_HEAD = head_of(
    {"type": "record", "name": "Pads", "fields": [{"name": name, "type": "bytes"} for name in ("inner", "outer")]}
)
_NUMBERS = itertools.count()
"""Of the makers: each has a table of its own, for they may share an engine."""
_DOUBTFUL = " OR ".join(
    (
        f"length(x) > {_LONGEST_TEXT}",
        f"match(x, {quoted(_UNPLAIN)})",
        f"match(x, {quoted('|'.join(f'(?:{hint})' for hint in _HINTS))})",
    )
)
"""What is neither certainly clean nor certainly without anything to redact."""
