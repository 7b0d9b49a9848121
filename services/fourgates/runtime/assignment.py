"""The records of the partitions that are ours: started in offset order, bounded in number, committed only when finished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Received
from fourgates.runtime.intake import FatalError, Offsets, RecordHandler

_CANCEL_SECONDS = 5.0
_AGAIN_SECONDS = 0.1
_log = structlog.get_logger("fourgates.assignment")


class Rereading(Protocol):
    """The log itself, for when the client did not deliver what should have come next."""

    async def first_from(self, partition: int, offset: int) -> int:
        """The offset of the first record at or after `offset`: another one where the log has a hole. Raises Transient."""

    async def seek(self, partition: int, offset: int) -> None:
        """The client goes on from there. Raises Transient."""


class _Part:
    """One partition in one assignment. Work that outlives the assignment keeps its old one, which commits nothing any more."""

    def __init__(self, committed: int) -> None:
        self.offsets = Offsets(committed)
        self.committed = committed
        self.first_from: tuple[int, int] = (-1, -1)
        """What the log said last: the first record from this offset on is that one."""


class Assignment:
    """Owns the work under way. `failed` is told what ends the process; nothing here raises it to the caller."""

    def __init__(
        self, handler: RecordHandler, log: Rereading, *, at_once: int, span: int, failed: Callable[[Exception], None]
    ) -> None:
        self._handler, self._log, self._span, self._failed = handler, log, span, failed
        self._room = asyncio.Semaphore(at_once)
        self._parts: dict[int, _Part] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved = asyncio.Event()
        self._open = False
        self.steps = 0
        """Grows with every record that is taken or finished: where it stands still there is no progress."""

    @property
    def under_way(self) -> int:
        return len(self._tasks)

    @property
    def is_open(self) -> bool:
        """False between two assignments; true also with no partition of ours."""
        return self._open

    def take_up(self, committed: Mapping[int, int]) -> None:
        """These partitions are ours, each from its committed offset on."""
        self._parts = {number: _Part(offset) for number, offset in committed.items()}
        self._open = True

    async def take(self, received: Received) -> None:
        """Starts the record's work; returns when there is room for the next.

        A partition's records are started in offset order and without a gap, whatever the client delivers: one that comes
        too early is left out and read again, one that comes again is left out.
        """
        number, offset = received.position.partition, received.position.offset
        if not self._open:
            return  # it comes again: whoever owns the partition next reads from the committed offset
        part = self._parts.get(number)
        if part is None:
            self._failed(FatalError(f"a record came from partition {number}, which is not ours"))
            return
        if not await self._next_in_line(part, number, offset) or not part.offsets.begin(offset):
            return
        self.steps += 1
        while part.offsets.span > self._span and self._owns(number, part):
            self._moved.clear()
            await self._moved.wait()
        await self._room.acquire()
        if self._owns(number, part):
            self._start(asyncio.create_task(self._work(part, received))).add_done_callback(lambda _: self._room.release())
        else:
            self._room.release()

    async def tick(self) -> None:
        """Lets the stage do what time alone brings, while the partitions are ours."""
        if self._open and self._parts:
            task = asyncio.create_task(self._ticked())
            self._start(task)
            await asyncio.wait((task,))

    def committable(self) -> dict[int, int]:
        """For each partition that moved the offset to commit: never past an unfinished record."""
        return {
            number: offset
            for number, part in self._parts.items()
            if (offset := part.offsets.committable) is not None and offset > part.committed
        }

    def position(self, number: int) -> int | None:
        """The lowest offset of a partition that is not finished; None where the partition is not ours."""
        part = self._parts.get(number)
        if part is None:
            return None
        return part.committed if part.offsets.committable is None else part.offsets.committable

    def committed(self, offsets: Mapping[int, int]) -> None:
        """The group has these offsets."""
        for number, offset in offsets.items():
            if (part := self._parts.get(number)) is not None:
                part.committed = max(part.committed, offset)

    async def drain(self, seconds: float) -> None:
        """Starts nothing new, waits for what is under way, then cancels it. What is finished can be committed afterwards."""
        self._open = False
        self._moved.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        if left:
            _, deaf = await asyncio.wait(left, timeout=_CANCEL_SECONDS)
            _log.warning("work was cancelled", tasks=len(left), still_running=len(deaf))

    def give_up(self) -> None:
        """The partitions are not ours any more. Call it after the last commit."""
        self._open = False
        self._parts = {}
        self._moved.set()

    async def _next_in_line(self, part: _Part, number: int, offset: int) -> bool:
        """Whether nothing lies between what was begun last and this record.

        Around a rebalance a client may deliver records that were fetched before it went back to the committed offset. Begun
        too early, they would make those before them look like repetitions: lost, and committed over.
        """
        expected = part.offsets.expected
        if expected is None or offset <= expected:
            return True
        while part.first_from[0] != expected and self._owns(number, part):
            try:
                first = await self._log.first_from(number, expected)
                if first < offset and self._owns(number, part):
                    _log.warning("read again", partition=number, expected=expected, came=offset)
                    await self._log.seek(number, expected)
                part.first_from = (expected, first)
            except Transient:
                await asyncio.sleep(_AGAIN_SECONDS)
        return part.first_from == (expected, offset)

    def _owns(self, number: int, part: _Part) -> bool:
        return self._open and self._parts.get(number) is part

    def _start(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _work(self, part: _Part, received: Received) -> None:
        try:
            await self._handler.process(received)
        except Exception as fault:
            self._failed(fault)
        else:
            part.offsets.finish(received.position.offset)
            self.steps += 1
            self._moved.set()

    async def _ticked(self) -> None:
        try:
            await self._handler.tick()
        except Exception as fault:
            self._failed(fault)
