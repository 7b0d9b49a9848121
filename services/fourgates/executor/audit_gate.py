"""No effect without its trace: a destructive call waits until its claim is in the audit store, a write needs a fresh store."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from fourgates.contract.codes import Code
from fourgates.contract.events import AuditWatermark
from fourgates.contract.parts import Risk
from fourgates.contract.ports import Clock, Envelope, Following, Log
from fourgates.contract.topology import AUDIT_WATERMARKS, CALLS_LEDGER
from fourgates.gates.refusal import Refusal

_STEP_MS = 100
_MOST_UNSAVED = 100_000
"""Only the oldest counts; newer ones beyond this are left out."""


class AuditGate:
    """Follows the audit sink's watermarks."""

    def __init__(self, log: Log, clock: Clock, *, wait: float, lag: float) -> None:
        self._log, self._clock, self._wait, self._lag = log, clock, wait, lag
        self._marks: dict[int, tuple[int, int]] = {}
        self._said: dict[int, int] = {}
        self._unsaved: dict[int, deque[tuple[int, int]]] = {}
        self._moved = asyncio.Condition()
        self._moving: set[asyncio.Task[None]] = set()
        self._following: Following | None = None

    async def start(self) -> None:
        self._following = await self._log.follow(AUDIT_WATERMARKS, self._sink)
        await self._following.reached_end()

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()

    async def check(self, risk: Risk, partition: int, fence: int) -> Refusal | None:
        """None where a call of this risk, claimed at `fence` of the ledger's partition, may go on."""
        if risk is Risk.READ:
            return None
        if partition not in self._marks:  # this process has just started: the sink speaks about every partition it owns
            await self._until(lambda: partition in self._marks)
        offset, at_ms = self._marks.get(partition, (0, 0))
        behind_ms = self._clock.now_ms() - self._saved_until(partition, at_ms)
        if behind_ms > self._lag * 1000:
            return Refusal(Code.AUDIT_UNAVAILABLE, "audit_behind", detail={"behind_ms": behind_ms})
        if risk is Risk.WRITE or offset > fence:
            return None
        passed = await self._until(lambda: self._marks[partition][0] > fence)
        return None if passed else Refusal(Code.AUDIT_UNAVAILABLE, "claim_not_in_audit")

    def note(self, envelope: Envelope) -> None:
        """A ledger entry of one of our partitions, as it is folded: how far behind the store is depends on the oldest unsaved.

        One entry in a tenth of a second is enough to tell.
        """
        where = envelope.position
        unsaved = self._unsaved.setdefault(where.partition, deque())
        if where.offset < self._marks.get(where.partition, (0, 0))[0] or len(unsaved) >= _MOST_UNSAVED:
            return
        if not unsaved or envelope.time_ms - unsaved[-1][1] >= _STEP_MS:
            unsaved.append((where.offset, envelope.time_ms))

    def forget(self) -> None:
        """The partitions are somebody else's."""
        self._unsaved.clear()

    def _saved_until(self, partition: int, told_ms: int) -> int:
        """Up to which time the store has the ledger: until its last word, or until the oldest entry that it has not."""
        unsaved = self._unsaved.get(partition)
        return min(told_ms, unsaved[0][1]) if unsaved else told_ms

    async def _until(self, condition: Callable[[], bool]) -> bool:
        """Waits for the condition, at most as long as is set. Returns whether it holds."""

        async def until() -> None:
            async with self._moved:
                await self._moved.wait_for(condition)

        waiting = asyncio.create_task(until())
        expiring = asyncio.create_task(self._clock.sleep(self._wait))
        try:
            await asyncio.wait((waiting, expiring), return_when=asyncio.FIRST_COMPLETED)
            return condition()
        finally:
            waiting.cancel()
            expiring.cancel()

    def _sink(self, envelope: Envelope) -> None:
        mark: AuditWatermark = envelope.record
        if mark.topic != CALLS_LEDGER or mark.said_ms < self._said.get(mark.partition, 0):
            return
        before = self._marks.get(mark.partition, (0, 0))
        saved = max(before[0], mark.offset)
        self._said[mark.partition] = mark.said_ms
        # An old mark that somebody appends once more is no sign of life: it is as old as its own words.
        self._marks[mark.partition] = (saved, min(envelope.time_ms, mark.said_ms))
        unsaved = self._unsaved.get(mark.partition, deque())
        while unsaved and unsaved[0][0] < saved:
            unsaved.popleft()
        task = asyncio.get_running_loop().create_task(self._tell())
        self._moving.add(task)
        task.add_done_callback(self._moving.discard)

    async def _tell(self) -> None:
        async with self._moved:
            self._moved.notify_all()
