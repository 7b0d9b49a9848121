"""Erasure by tenant and subject: rows and blobs at once; what the log still holds until its retention is over is said.

First it is written down (sealed, without the name) that somebody is erased; then the rows are written anew without them; then
the old versions are deleted from the disk. A crash in between is mended by asking for the same erasure again.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from fourgates.audit.columns import COLUMNS
from fourgates.audit.comparing import stored_row
from fourgates.audit.erasing import PSEUDONYM, Erased, erased_row, erasure_seal, subject_digest
from fourgates.audit.rows import RowMaker
from fourgates.audit.store import Store
from fourgates.contract.ports import Clock
from fourgates.contract.topology import BY_NAME, FOREVER

_CALLS_AT_ONCE = 200
_OWN = """
SELECT DISTINCT call_id FROM fourgates.events
WHERE tenant = {tenant:String} AND subject IN ({subject:String}, {pseudonym:String}) AND call_id != ''
  AND NOT (record = 'ApprovalEvent' AND kind = 'Decided')
"""
_DECIDED = """
SELECT DISTINCT call_id FROM fourgates.events
WHERE tenant = {tenant:String} AND subject = {subject:String} AND call_id != '' AND record = 'ApprovalEvent' AND kind = 'Decided'
"""
_PERSONS = (
    "SELECT DISTINCT person FROM fourgates.events WHERE tenant = {tenant:String} AND subject = {subject:String} AND person != ''"
)
_ROWS = f"""
SELECT {", ".join(COLUMNS)}, toUnixTimestamp64Milli(at) AS at_ms
FROM fourgates.records WHERE call_id IN {{calls:Array(String)}}
"""  # noqa: S608 - our own columns
_DELETE = """
ALTER TABLE fourgates.events DELETE
WHERE erased_ms = 0 AND (topic, partition, offset) IN (SELECT topic, partition, offset FROM fourgates.events WHERE erased_ms > 0)
SETTINGS mutations_sync = 2
"""
_KNOWN = "SELECT * FROM fourgates.erasures FINAL WHERE subject_digest = {digest:String} ORDER BY asked_ms LIMIT 1"
_NOTE = """
INSERT INTO fourgates.erasures
    (erasure_id, tenant, subject_digest, pseudonym, asked_by, asked_ms, calls, rows, log_until_ms, seal)
SELECT {erasure_id:String}, {tenant:String}, {subject_digest:String}, {pseudonym:String}, {asked_by:String}, {asked_ms:Int64},
       {calls:Int64}, {rows:Int64}, {log_until_ms:Int64}, {seal:String}
"""


class Blobs(Protocol):
    """The part of a blob store that erasure needs."""

    async def erase(self, tenant: str, subject: str) -> int: ...


@dataclass(frozen=True, slots=True)
class LogRest:
    """What a topic still holds of the subject."""

    topic: str
    records: int
    until_ms: int | None
    """When the last of them leaves the log, by its retention; None: never by itself."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an erasure did."""

    erasure_id: str
    tenant: str
    pseudonym: str
    asked_ms: int
    calls: int
    """Calls of the subject, and calls of others that they decided on."""
    rows: int
    """Rows without personal data now."""
    blobs: int
    """Stored results that were deleted."""
    log: tuple[LogRest, ...]


class Eraser:
    """Erases in one store. It uses a client of its own, so that the sink goes on."""

    def __init__(self, store: Store, rows: RowMaker, blobs: Blobs, clock: Clock) -> None:
        self._store, self._rows, self._blobs, self._clock = store, rows, blobs, clock
        self._turn = asyncio.Lock()

    async def erase(self, tenant: str, subject: str, asked_by: str) -> Receipt:
        """All that store and blobs hold of that subject now. Asking again is harmless. Raises the store's faults."""
        async with self._turn:
            blobs = await self._blobs.erase(tenant, subject)
            return await asyncio.to_thread(self._erase, tenant, subject, asked_by, blobs)

    def _erase(self, tenant: str, subject: str, asked_by: str, blobs: int) -> Receipt:
        now_ms = self._clock.now_ms()
        digest = subject_digest(self._rows.digest, tenant, subject)
        known = self._store.query(_KNOWN, {"digest": digest})
        pseudonym = str(known[0]["pseudonym"]) if known else f"{PSEUDONYM}{secrets.token_hex(6)}"
        whose = {"tenant": tenant, "subject": subject, "pseudonym": pseudonym}
        own = {str(row["call_id"]) for row in self._store.query(_OWN, whose)}
        decided = {str(row["call_id"]) for row in self._store.query(_DECIDED, whose)} - own
        persons = frozenset(str(row["person"]) for row in self._store.query(_PERSONS, whose))
        entry: dict[str, Any] = {
            "erasure_id": secrets.token_hex(16), "tenant": tenant, "subject_digest": digest, "pseudonym": pseudonym,
            "asked_by": asked_by, "asked_ms": now_ms, "calls": len(own | decided), "rows": 0, "log_until_ms": 0,
        }  # fmt: skip
        self._note(entry)
        who, rest = Erased(subject, persons, pseudonym, now_ms), _Rest()
        for calls, own_call in ((sorted(own), True), (sorted(decided), False)):
            for start in range(0, len(calls), _CALLS_AT_ONCE):
                entry["rows"] += self._rewrite(calls[start : start + _CALLS_AT_ONCE], who, own_call, rest)
        self._store.command(_DELETE)
        log = rest.still(now_ms)
        entry["log_until_ms"] = max((one.until_ms or 0 for one in log), default=0)
        self._note(entry)
        return Receipt(entry["erasure_id"], tenant, pseudonym, now_ms, entry["calls"], entry["rows"], blobs, log)

    def _rewrite(self, calls: Sequence[str], who: Erased, own_call: bool, rest: _Rest) -> int:
        """Puts the rows of these calls in once more, without the person; gives how many changed."""
        changed = []
        for stored in self._store.query(_ROWS, {"calls": list(calls)}):
            row = stored_row(stored)
            rest.saw(row, own_call or row["subject"] == who.subject)
            erased = erased_row(row, who, own_call=own_call)
            if row["erased_ms"] == 0 and (own_call or erased | {"erased_ms": 0} != row):
                changed.append(erased)
        if changed:
            self._store.insert(changed)
        return len(changed)

    def _note(self, entry: Mapping[str, Any]) -> None:
        self._store.command(_NOTE, {**entry, "seal": erasure_seal(self._rows.digest, entry)})


class _Rest:
    """What the log still holds: the newest record of each topic, and how many there are."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}

    def saw(self, row: Mapping[str, Any], about: bool) -> None:
        if about:
            records, newest = self._seen.get(row["topic"], (0, 0))
            self._seen[row["topic"]] = records + 1, max(newest, int(row["at"]))

    def still(self, now_ms: int) -> tuple[LogRest, ...]:
        found = []
        for topic, (records, newest) in sorted(self._seen.items()):
            kept = BY_NAME[topic].kept
            until = None if kept in (None, FOREVER) else newest + kept // timedelta(milliseconds=1)
            if until is None or until > now_ms:
                found.append(LogRest(topic, records, until))
        return tuple(found)
