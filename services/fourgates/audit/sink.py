"""From the topics into the store: insert, then commit, then say so in a watermark. Nothing is skipped, nothing counts twice.

A record is committed only after its row is in the store; a crash in between repeats rows, which their position collapses.
While the store is away nothing is read on, nothing is committed and no watermark is written: whoever needs the audit sees it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from fourgates.audit.columns import Row
from fourgates.audit.rows import Prepared
from fourgates.audit.settings import SinkSettings
from fourgates.contract import ids
from fourgates.contract.dead import dead_record
from fourgates.contract.errors import Transient
from fourgates.contract.events import AuditWatermark, DeadRecord, Record
from fourgates.contract.ports import Batches, Clock, Publisher, Received
from fourgates.contract.topology import CALLS_COMPLETED, CONTROLS, EFFECTS

Place = tuple[str, int]
_OURS = frozenset({"unforeseen", "unreadable"})
_BURIED_HERE = frozenset({EFFECTS, CONTROLS, CALLS_COMPLETED})
"""Topics that no stage reads in a group: what proves nothing there is skipped by its followers, and buried by the sink."""
_log = structlog.get_logger("fourgates.audit")


class Inserts(Protocol):
    """The part of the store that the sink needs. All block, and raise Transient where the store is away."""

    def insert(self, rows: Sequence[Row]) -> None: ...

    def insert_native(self, blocks: Sequence[bytes]) -> None: ...

    def alive(self) -> None: ...


class Rows(Protocol):
    """What makes rows of records. Nothing that a record holds makes it raise."""

    def prepare(self, received: Sequence[Received]) -> Prepared: ...


@dataclass(slots=True)
class _Batch:
    """Records that were read and are not yet in the store."""

    received: list[Received] = field(default_factory=list)
    size: int = 0
    since: float = 0.0

    def add(self, more: Sequence[Received], now: float) -> None:
        if not self.received:
            self.since = now
        self.received += more
        self.size += sum([len(one.value) for one in more if one.value is not None])

    def offsets(self) -> dict[Place, int]:
        """Where each partition goes on; the records of a partition stand in the order of their offsets."""
        return {(one.position.topic, one.position.partition): one.position.offset + 1 for one in self.received}


class AuditSink:
    """One sink. Several may run in one group; each partition's watermark only ever says what is true of the store."""

    def __init__(
        self, store: Inserts, rows: Rows, publisher: Publisher, clock: Clock, producer: str, settings: SinkSettings
    ) -> None:
        self._store, self._rows, self._publisher, self._clock = store, rows, publisher, clock
        self._producer, self._settings = producer, settings
        self._stored: dict[Place, int] = {}
        self._told: dict[Place, float] = {}
        self._moved: set[Place] = set()
        """Places in the store further than was told."""
        self._preparing = asyncio.Lock()
        self.inserted = 0
        """Rows put into the store so far, for metrics."""
        self.failing = False
        """True from an insert that failed to the next that did not; no watermark is written meanwhile."""

    async def run(self, batches: Batches) -> None:
        """Until the reading ends (`batches.close()`): what was read before that is inserted and committed."""
        reading = _Reading(batches)
        beating = asyncio.create_task(self._heartbeats(batches))
        before: asyncio.Task[None] | None = None
        storing: asyncio.Task[None] | None = None
        try:
            while (batch := await self._collect(reading, storing)).received:
                if before is not None:
                    await before
                before, storing = storing, asyncio.create_task(self._store_batch(batch, batches, storing))
            for task in (before, storing):
                if task is not None:
                    await task
        finally:
            tasks = [task for task in (beating, before, storing) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await reading.stop()

    async def _collect(self, reading: _Reading, storing: asyncio.Task[None] | None) -> _Batch:
        """The next batch: full, or as old as a batch may get, or the last. While the one before is being stored, only full."""
        batch, limits = _Batch(), self._settings
        while len(batch.received) < limits.rows and batch.size < limits.bytes:
            if storing is not None and storing.done():
                storing.result()  # a fault ends the sink at once, not with the next record
                storing = None
            busy = storing is not None
            wait = limits.age - (self._clock.monotonic() - batch.since) if batch.received else None
            if wait is not None and wait <= 0 and not busy:  # also while more keeps coming, or a busy log would seem unaudited
                break
            received = await reading.next(self._clock, wait, storing)
            if received is not None:
                batch.add(received, self._clock.monotonic())
                await asyncio.sleep(0)
            elif reading.ended:
                break
        return batch

    async def _store_batch(self, batch: _Batch, batches: Batches, before: asyncio.Task[None] | None) -> None:
        """Prepared while the batch before is being inserted; inserted and committed only once that one was."""
        async with self._preparing:
            prepared = await asyncio.to_thread(self._rows.prepare, batch.received)
        if before is not None:
            await before
        await self._retried(lambda: self._insert(prepared))
        self.inserted += len(batch.received)
        await asyncio.gather(*(self._published(dead) for dead in self._dead(prepared)))
        offsets = batch.offsets()
        await self._retried(lambda: batches.commit(offsets))
        for place, offset in offsets.items():
            self._stored[place] = max(offset, self._stored.get(place, 0))
        self._moved |= offsets.keys()
        await asyncio.gather(*(self._watermark(place) for place in offsets if self._is_prompt(place)))

    def _dead(self, prepared: Prepared) -> list[DeadRecord]:
        dead = []
        for one, row in prepared.invalid:
            reason, detail = str(row["reason"]), str(row["sentence"])
            if reason in _OURS:
                _log.error("a record could not be made into a row", place=str(one.position), fault=detail)
            if one.position.topic in _BURIED_HERE:
                dead.append(dead_record(one, "audit", self._producer, reason, detail))
        return dead

    def _is_prompt(self, place: Place) -> bool:
        """Whether somebody waits for this partition's watermark; the others' come with the next heartbeat."""
        return place[0] in self._settings.heartbeat_topics

    async def _watermark(self, place: Place) -> None:
        self._moved.discard(place)
        mark = AuditWatermark(
            event_id=ids.random_id(), producer=self._producer, topic=place[0], partition=place[1], offset=self._stored[place],
            said_ms=self._clock.now_ms(),
        )  # fmt: skip
        await self._published(mark)
        self._told[place] = self._clock.monotonic()

    async def _heartbeats(self, batches: Batches) -> None:
        """Repeats the watermarks of partitions that stand still, as long as the store answers and inserts succeed."""
        while True:
            await self._clock.sleep(self._settings.heartbeat)
            due = self._due(batches)
            if not due or self.failing:
                continue
            try:
                await asyncio.to_thread(self._store.alive)
            except Transient as fault:
                _log.warning("the store does not answer", fault=str(fault))
                continue
            await asyncio.gather(*(self._watermark(place) for place in due))

    def _due(self, batches: Batches) -> list[Place]:
        """Partitions that are ours now and that nobody has heard of for a heartbeat: the prompt ones, and those that moved.

        What lay before an assignment's start was committed, so it is in the store.
        """
        now, due = self._clock.monotonic(), []
        for place, begun in batches.assigned().items():
            if self._is_prompt(place) or place in self._moved:
                self._stored[place] = max(begun, self._stored.get(place, 0))
                if now - self._told.get(place, float("-inf")) >= self._settings.heartbeat:
                    due.append(place)
        return due

    async def _published(self, record: Record) -> None:
        await self._retried(lambda: self._publisher.publish(record))

    async def _retried(self, work: Callable[[], Awaitable[object]]) -> None:
        """Until it is done: with backoff, without end. Memory stays bounded, for nothing is read on meanwhile."""
        attempt = 0
        while True:
            try:
                await work()
                return
            except Transient as fault:
                attempt += 1
                _log.warning("tried again", attempt=attempt, fault=str(fault))
            pause = min(self._settings.retry_cap, self._settings.retry_base * 2 ** min(attempt, 20))
            await self._clock.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads load, guards nothing

    async def _insert(self, prepared: Prepared) -> None:
        try:
            if prepared.native:
                await asyncio.to_thread(self._store.insert_native, prepared.native)
            if prepared.rows:
                await asyncio.to_thread(self._store.insert, prepared.rows)
        except Transient:
            self.failing = True
            raise
        self.failing = False


class _Reading:
    """Asks for the next records with a limit in time, without losing an asking that is under way."""

    def __init__(self, batches: Batches) -> None:
        self._iterator: AsyncIterator[Sequence[Received]] = aiter(batches)
        self._asking: asyncio.Task[Sequence[Received] | None] | None = None
        self.ended = False
        """Nothing more comes."""

    async def next(self, clock: Clock, wait: float | None, busy: asyncio.Task[None] | None) -> Sequence[Received] | None:
        """The next records; None where none came in `wait` seconds, by the end of `busy`, or ever."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        if busy is not None:
            await asyncio.wait((self._asking, busy), return_when=asyncio.FIRST_COMPLETED)
        elif wait is not None:
            waking = asyncio.create_task(clock.sleep(max(wait, 0)))
            await asyncio.wait((self._asking, waking), return_when=asyncio.FIRST_COMPLETED)
            waking.cancel()
        if (busy is not None or wait is not None) and not self._asking.done():
            return None
        received = await self._asking
        self._asking = None
        self.ended = received is None
        return received

    async def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> Sequence[Received] | None:
        return await anext(self._iterator, None)
