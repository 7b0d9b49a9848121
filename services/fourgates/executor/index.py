"""The executor's view of the ledger: the states of all calls of its partitions, and the claims that are open there."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fourgates.contract import ids
from fourgates.contract.avro_beginning import LedgerBeginning
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Clock, Envelope, Following, Log, Position, Publisher
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_LEDGER
from fourgates.gates.ledger import CallState, Change, LedgerFold, Phase


@dataclass(slots=True)
class OpenClaim:
    """A claim that stands, claimed or in doubt. Its lease runs on our own clock from when we first saw it."""

    entry: LedgerEntry
    partition: int
    fence: int
    seen: float
    at_ms: int
    """Broker time of the claim."""
    stop: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def lease_over(self, now: float) -> bool:
        return now - self.seen >= self.entry.lease_ms / 1000


def barrier_key(partition: int) -> str:
    """Any text that lands on the partition."""
    return next(k for n in range(10_000) if partition_of((k := f"barrier-{n}").encode(), CALL_PARTITIONS) == partition)


class LedgerIndex:
    """Follows the ledger's partitions that the executor owns, up to a barrier of its own before anything is decided."""

    def __init__(self, log: Log, publisher: Publisher, clock: Clock, producer: str) -> None:
        self._log, self._publisher, self._clock, self._producer = log, publisher, clock, producer
        self._fold = LedgerFold(self._watch)
        self._following: Following | None = None
        self._owned: frozenset[int] = frozenset()
        self.open: dict[str, OpenClaim] = {}
        self._standing: dict[str, Envelope] = {}
        """Claims that stand as far as the log was read; of their entries we have no more than a fold looks at."""
        self._used: dict[str, dict[str, int]] = {}
        self._reads: dict[str, list[asyncio.Event]] = {}
        self._changed: set[str] = set()
        self._loaded = False
        self.on_change: Callable[[], None] = lambda: None
        self.on_entry: Callable[[Envelope], None] = lambda envelope: None

    async def own(self, partitions: Sequence[int]) -> None:
        """Folds the partitions from their beginning; returns once everything before our own barrier is in.

        Up to there the entries are read as far as the fold needs them; the claims that stand then are read whole.
        """
        self._owned = frozenset(partitions)
        self._following = await self._log.follow(CALLS_LEDGER, self._sink, partitions, briefly=lambda: not self._loaded)
        barriers = await asyncio.gather(*(self._publisher.publish(self._barrier(p), p) for p in partitions))
        for position in barriers:
            await self._following.reached(position.partition, position.offset)
        self._loaded = True
        while self._standing:
            call_id, brief = next(iter(self._standing.items()))
            whole = await self._log.read_at(brief.position)
            if self._standing.pop(call_id, None) is brief:  # else it ended meanwhile
                self._open(whole)

    async def disown(self) -> None:
        """Forgets everything; another owner folds it anew."""
        if self._following is not None:
            await self._following.close()
        self._following, self._owned, self._loaded = None, frozenset(), False
        self._fold = LedgerFold(self._watch)
        self.open.clear()
        self._standing.clear()
        self._used.clear()
        self._changed.clear()

    def take_changed(self) -> set[str]:
        """Calls whose state changed since this was asked, or since the partitions were folded: their effects may be free."""
        changed, self._changed = self._changed, set()
        return changed

    def owns(self, call_id: str) -> bool:
        return partition_of(call_id.encode(), CALL_PARTITIONS) in self._owned

    def state(self, call_id: str) -> CallState:
        return self._fold.state(call_id, self._clock.now_ms())

    def used_up(self, envelope: Envelope) -> bool:
        """Whether this clearance led to a claim when it lay elsewhere in the log, and the claim was released: its answer is told.

        The same record at the same place is a redelivery, and goes on where its executor stopped.
        """
        cleared = envelope.record
        used_at = self._used.get(cleared.call.call_id, {}).get(cleared.event_id)
        return used_at is not None and used_at != envelope.position.offset

    @contextlib.contextmanager
    def reading(self, call_id: str) -> Iterator[asyncio.Event]:
        """Set when the call ends meanwhile, by its caller's cancel: a read has no claim that could be asked to stop."""
        ended = asyncio.Event()
        self._reads.setdefault(call_id, []).append(ended)
        if self.state(call_id).phase is Phase.FINAL:
            ended.set()
        try:
            yield ended
        finally:
            self._reads[call_id].remove(ended)
            if not self._reads[call_id]:
                del self._reads[call_id]

    def folded_to(self, call_id: str) -> int:
        """The last folded offset of the call's partition."""
        return self._fold.next_offset(partition_of(call_id.encode(), CALL_PARTITIONS)) - 1

    async def append(self, entry: LedgerEntry) -> Position:
        """Appends and reads back: returns once our own fold has seen it."""
        position = await self._publisher.publish(entry)
        if self._following is None:
            raise asyncio.CancelledError("the partitions were revoked")
        await self._following.reached(position.partition, position.offset)
        return position

    def _barrier(self, partition: int) -> LedgerEntry:
        return LedgerEntry(
            event_id=ids.random_id(), producer=self._producer, kind=LedgerKind.BARRIER, call_id=barrier_key(partition)
        )

    def _sink(self, envelope: Envelope) -> None:
        self.on_entry(envelope)
        self._fold.apply(envelope)

    def _watch(self, envelope: Envelope, change: Change) -> None:
        if not change.counted:
            return
        entry: LedgerEntry | LedgerBeginning = envelope.record
        after = change.after
        if entry.kind is LedgerKind.CLAIMED and after.claim_id == entry.claim_id and after.phase is Phase.CLAIMED:
            if self._loaded:
                self._open(envelope)
            else:
                self._standing[entry.call_id] = envelope
        elif after.phase in (Phase.OPEN, Phase.FINAL):
            self._ended(entry.call_id, after.phase)
        if after.phase is Phase.FINAL:
            for ended in self._reads.get(entry.call_id, ()):
                ended.set()
        if after.stop and (claim := self.open.get(entry.call_id)) is not None:
            claim.stop.set()
        if self._loaded:  # while the log is read from its beginning, everything has changed
            self._changed.add(entry.call_id)
            self.on_change()

    def _open(self, claimed: Envelope) -> None:
        entry, where = claimed.record, claimed.position
        claim = OpenClaim(entry, where.partition, where.offset, self._clock.monotonic(), claimed.time_ms)
        if self._fold.state(entry.call_id).stop:
            claim.stop.set()
        self.open[entry.call_id] = claim

    def _ended(self, call_id: str, phase: Phase) -> None:
        """A claim is over. While the call is open again, what it was made for is remembered, so that it cannot be used twice."""
        claim, standing = self.open.pop(call_id, None), self._standing.pop(call_id, None)
        if phase is Phase.FINAL:
            self._used.pop(call_id, None)
            return
        cause = claim.entry.cause if claim is not None else standing.record.cause if standing is not None else None
        if cause is not None:
            self._used.setdefault(call_id, {})[cause.event_id] = cause.offset
