"""Kafka and ClickHouse side by side: each record of the log is made into its row once more and compared with the one stored.

So a row that was altered, taken out or put in is named with its place, as far back as the log reaches. A row of another build
may differ in its redacted texts; then everything else is compared. An erased row is known by a sealed erasure.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fourgates.audit.columns import COLUMNS, EMPTY, Row
from fourgates.audit.erasing import ERASABLE, IN_CALLS_OF_OTHERS, erasure_seal, looks_erased, subject_digest
from fourgates.audit.rows import RowMaker
from fourgates.audit.store import Query
from fourgates.contract.ports import Received
from fourgates.contract.topology import AUDITED

_CHUNK_RECORDS, _CHUNK_BYTES = 1_000, 2 << 20
NAMED = 1_000
"""So many differences are named one by one; all are counted."""
_OF_THE_BUILD = frozenset({
    "intent", "reason", "field", "sentence", "arguments", "state_change", "observation", "body", "groups", "rules", "policies",
    "obligations", "approvers", "args_digest", "effect_key", "shown_digest", "preview_digest", "observation_digest", "made_by",
})  # fmt: skip
"""Redacted texts and keyed digests: another build, catalog or key makes others of the same record."""
_INTEGERS = frozenset(name for name, value in EMPTY.items() if type(value) is int) | {"vouches"}
_FLAGS = tuple(name for name, value in EMPTY.items() if isinstance(value, bool))
_ROWS = f"""
SELECT {", ".join(COLUMNS)}, toUnixTimestamp64Milli(at) AS at_ms FROM fourgates.records
WHERE topic = {{topic:String}} AND (SPANS)
"""  # noqa: S608 - our own columns
_OUTSIDE = """
SELECT partition, offset, call_id FROM fourgates.records WHERE topic = {topic:String} AND (SPANS) ORDER BY partition, offset
LIMIT 1000
"""
_OLDER = "SELECT toInt64(count()) AS n FROM fourgates.records WHERE topic = {topic:String} AND (SPANS)"
_ERASURES = "SELECT * FROM fourgates.erasures FINAL ORDER BY asked_ms"


class LogReader(Protocol):
    """What is needed of the log."""

    def scan(self, topic: str, until: Mapping[int, int] | None = None) -> AsyncIterator[Received]: ...

    async def ends(self, topic: str) -> dict[int, int]: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """One row that is not as the log says."""

    kind: str
    """altered, missing or added."""
    topic: str
    partition: int
    offset: int
    call_id: str
    columns: tuple[str, ...] = ()
    """For altered: what differs."""

    @property
    def place(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(slots=True)
class Comparison:
    """What the comparison found."""

    records: int = 0
    """Of the log, compared with their rows."""
    differences: list[Difference] = field(default_factory=list)
    found: Counter[str] = field(default_factory=Counter)
    """How many of each kind, also beyond those named."""
    erased: list[str] = field(default_factory=list)
    """Places of rows that a sealed erasure accounts for."""
    other_build: int = 0
    """Rows of another build: compared without their texts."""
    on_their_way: int = 0
    """Records that the sink has not yet said to have stored."""
    older: int = 0
    """Rows of which the log has nothing any more."""

    def add(self, difference: Difference) -> None:
        self.found[difference.kind] += 1
        if len(self.differences) < NAMED:
            self.differences.append(difference)


class Comparing:
    """Compares topic by topic. `marks`: how far the sink says it is; `before_ms`: what is older must be stored in any case."""

    def __init__(
        self, query: Query, log: LogReader, rows: RowMaker, marks: Mapping[tuple[str, int], int], before_ms: int
    ) -> None:
        self._query, self._log, self._rows, self._marks, self._before_ms = query, log, rows, marks, before_ms
        self._erasures: dict[int, set[str]] = {}
        self._result = Comparison()

    async def run(self, topics: Sequence[str] = AUDITED) -> Comparison:
        """Everything that the log holds now."""
        for entry in await self._ask(_ERASURES, {}):
            if erasure_seal(self._rows.digest, entry) == entry["seal"]:
                self._erasures.setdefault(int(entry["asked_ms"]), set()).add(str(entry["subject_digest"]))
        for topic in topics:
            await self._topic(topic)
        return self._result

    async def _topic(self, topic: str) -> None:
        ends = await self._log.ends(topic)
        begun: dict[int, int] = {}
        following: dict[int, int] = {}
        waiting: list[Received] = []
        size = 0
        async for received in self._log.scan(topic, ends):
            where = received.position
            begun.setdefault(where.partition, where.offset)
            following.setdefault(where.partition, where.offset)
            waiting.append(received)
            size += len(received.value or b"")
            if len(waiting) >= _CHUNK_RECORDS or size >= _CHUNK_BYTES:
                await self._chunk(topic, following, waiting)
                waiting, size = [], 0
        if waiting:
            await self._chunk(topic, following, waiting)
        await self._outside(topic, {number: begun.get(number, end) for number, end in ends.items()}, await self._log.ends(topic))

    async def _chunk(self, topic: str, following: dict[int, int], records: Sequence[Received]) -> None:
        """Compares these records with the rows of the same stretch of each partition, and moves `following` behind them."""
        last = {one.position.partition: one.position.offset for one in records}
        spans = [f"partition = {number} AND offset BETWEEN {following[number]} AND {end}" for number, end in last.items()]
        rows = await self._ask(_spanning(_ROWS, spans), {"topic": topic})
        stored = {(int(row["partition"]), int(row["offset"])): row for row in rows}
        for received in records:
            self._one(received, stored.pop((received.position.partition, received.position.offset), None))
        for (partition, offset), row in stored.items():
            self._result.add(Difference("added", topic, partition, offset, str(row["call_id"])))
        following.update({number: end + 1 for number, end in last.items()})

    def _one(self, received: Received, stored: dict[str, Any] | None) -> None:
        where, result = received.position, self._result
        expected = self._rows.row(received)
        call_id = str(expected["call_id"])
        result.records += 1
        if stored is None:
            if where.offset < self._marks.get((where.topic, where.partition), 0) or received.time_ms < self._before_ms:
                result.add(Difference("missing", where.topic, where.partition, where.offset, call_id))
            else:
                result.on_their_way += 1
            return
        row = stored_row(stored)
        differs = {name for name in COLUMNS if not _same(row[name], expected[name])}
        if row["made_by"] != expected["made_by"]:
            result.other_build += 1
            differs -= _OF_THE_BUILD
        if (subjects := self._erasures.get(row["erased_ms"])) is not None:
            differs -= self._accounted(expected, row, subjects)
            if not differs:
                result.erased.append(f"{where.topic}/{where.partition}/{where.offset}")
        if differs:
            result.add(Difference("altered", where.topic, where.partition, where.offset, call_id, tuple(sorted(differs))))

    def _accounted(self, expected: Row, stored: Row, subjects: set[str]) -> set[str]:
        """The columns that this erasure may have changed: an erasure of somebody else is no excuse."""
        whose = expected["subject"]
        tenant = expected["tenant"] or expected["effect_key"].partition("/")[0]  # an effect's entry names it there only
        own = not whose or subject_digest(self._rows.digest, tenant, whose) in subjects
        return {name for name in (ERASABLE if own else IN_CALLS_OF_OTHERS) if looks_erased(name, stored[name])}

    async def _outside(self, topic: str, first: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Rows beyond the log's end were never in it; rows before its start can only be counted."""
        known = ", ".join(str(number) for number in ends)
        beyond = [f"partition = {number} AND offset >= {end}" for number, end in ends.items()] + [f"partition NOT IN ({known})"]
        for row in await self._ask(_spanning(_OUTSIDE, beyond), {"topic": topic}):
            self._result.add(Difference("added", topic, int(row["partition"]), int(row["offset"]), str(row["call_id"])))
        before = [f"partition = {number} AND offset < {start}" for number, start in first.items()]
        [older] = await self._ask(_spanning(_OLDER, before), {"topic": topic})
        self._result.older += int(older["n"])

    async def _ask(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self._query, sql, parameters)


def _spanning(sql: str, spans: Sequence[str]) -> str:
    """The statement over these stretches, which are made of numbers only."""
    return sql.replace("SPANS", " OR ".join(f"({span})" for span in spans))


def stored_row(stored: Mapping[str, Any]) -> Row:
    """A row as the store gives it, with the types that a new one has. Times of the engine are text, in UTC."""
    row: Row = {name: stored[name] for name in COLUMNS} | {"at": int(stored["at_ms"])}
    for name, value in row.items():
        if isinstance(value, str) and name in _INTEGERS:
            row[name] = int(value)
    for name in _FLAGS:
        row[name] = bool(row[name])
    return row


def _same(stored: Any, made: Any) -> bool:
    if stored == made:
        return True
    if not isinstance(stored, str) or not isinstance(made, str) or not made.startswith("{"):
        return False
    try:  # the engine may write the same JSON in another way
        return bool(json.loads(stored) == json.loads(made))
    except ValueError:
        return False
