"""What becomes of one received record, the same on every bus: opened, handled in turn, published, or dead-lettered."""

from __future__ import annotations

import asyncio
import random
import traceback
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, TypeAlias, TypeVar

import structlog

from fourgates.contract.dead import dead_record
from fourgates.contract.errors import Poison, Transient
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.ports import Clock, Emit, Envelope, Publisher, Received, Stage
from fourgates.contract.seals import RecordOpener
from fourgates.contract.stage import cause_of
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.trace import TRACE, trace_of

T = TypeVar("T")
OnUnforeseen: TypeAlias = Callable[[Envelope], Sequence[Emit]]
"""What a stage's process appends where its own code failed on a proven record: its last words, in this order, or nothing."""

UNFORESEEN_IN_A_ROW = 5
"""So many unforeseen exceptions without a good record between them end the process: it is broken, not the records."""
BACKOFF_BASE, BACKOFF_CAP = 0.1, 10.0
_AT_ONCE = 500

_log = structlog.get_logger("fourgates.intake")


class FatalError(Exception):
    """This process cannot go on (its producer is fenced, its code fails on every record): it ends, and starts anew."""


def backoff(attempt: int, base: float = BACKOFF_BASE, cap: float = BACKOFF_CAP) -> float:
    """Seconds before try number `attempt` + 1 (from 1): exponential, capped, full jitter."""
    return random.uniform(0, min(cap, base * 2 ** min(attempt, 30)))  # noqa: S311 - spreads load, guards nothing


class Offsets:
    """The offsets of one partition in one assignment. What may be committed never passes an unfinished one.

    `start` is where the assignment begins, where that is known.
    """

    def __init__(self, start: int | None = None) -> None:
        self._order: deque[int] = deque()
        self._under_way: set[int] = set()
        self._next = start

    def begin(self, offset: int) -> bool:
        """Notes that work on `offset` starts. False where this or a later one was begun before: it is a repetition."""
        if self._next is not None and offset < self._next:
            return False
        self._order.append(offset)
        self._under_way.add(offset)
        self._next = offset + 1
        return True

    def finish(self, offset: int) -> None:
        """Notes that everything that `offset` caused is acknowledged. Raises KeyError for one that is not under way."""
        self._under_way.remove(offset)
        while self._order and self._order[0] not in self._under_way:
            self._order.popleft()

    @property
    def expected(self) -> int | None:
        """The offset after the newest one that was begun; before the first the start."""
        return self._next

    @property
    def committable(self) -> int | None:
        """The lowest unfinished offset; after the last one where all are finished; before the first the start."""
        return self._order[0] if self._order else self._next

    @property
    def span(self) -> int:
        """How many records lie between the lowest unfinished one and the newest, both included."""
        return len(self._order)


class Turns:
    """One at a time for each key, in the order of asking."""

    def __init__(self) -> None:
        self._last: dict[Hashable, asyncio.Future[None]] = {}

    async def take(self, key: Hashable, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work` once those that asked earlier for `key` have ended; without a suspension where there are none."""
        before = self._last.get(key)
        mine = self._last[key] = asyncio.get_running_loop().create_future()
        try:
            if before is not None:
                await asyncio.wait((before,))
            return await work()
        finally:
            if before is None or before.done():
                self._end(key, mine)
            else:  # cancelled while waiting: who asked after us still waits for those before us
                before.add_done_callback(lambda _: self._end(key, mine))

    def _end(self, key: Hashable, turn: asyncio.Future[None]) -> None:
        turn.set_result(None)
        if self._last.get(key) is turn:
            del self._last[key]


def _opened(by: Callable[[Received], Envelope], received: Received) -> Envelope:
    try:
        return by(received)
    except (Poison, Transient):
        raise
    except Exception as fault:  # nothing is proved, so it ends no call, whoever's fault it is
        raise Poison("unreadable", _where(fault)) from fault


def _where(fault: BaseException) -> str:
    """Kind and place of an exception. Never its message: that may quote a payload."""
    frames = traceback.extract_tb(fault.__traceback__)
    place = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(fault).__name__}{place}"


class RecordHandler:
    """Takes a stage's records from bytes to acknowledged consequences.

    The stage's `fold` is called without a suspension, so records whose `process` is started in offset order are folded in
    that order. A record whose key is still under way then waits for the one before it; a stage must therefore not wait,
    inside `handle`, for a later record of the same key on its own topic.
    """

    def __init__(
        self,
        stage: Stage,
        opener: RecordOpener,
        publisher: Publisher,
        clock: Clock,
        producer: str,
        on_unforeseen: OnUnforeseen = lambda envelope: (),
        metrics: Metrics | None = None,
    ) -> None:
        self._stage, self._opener, self._publisher, self._clock = stage, opener, publisher, clock
        self._producer, self._on_unforeseen = producer, on_unforeseen
        self._metrics = metrics or Metrics()
        self._seconds = self._metrics.seconds.labels(stage.name)  # looking a label up costs more than counting
        self._handled = self._metrics.records.labels(stage.name, "handled")
        self._restoring = opener.open_briefly if stage.restores_briefly else opener.open
        self._openings, self._turns = Turns(), Turns()
        self._in_a_row = 0
        self._ticks_in_a_row = 0

    async def process(self, received: Received) -> None:
        """Returns once the record is finished and its offset may be committed. Raises only CancelledError and FatalError."""
        TRACE.set(trace_of(received.headers))
        envelope = await self._openings.take(received.position.partition, lambda: self._taken_in(received))
        if isinstance(envelope, Poison):
            await self._bury(received, None, envelope.reason, envelope.detail)
            return
        with self._seconds.time():
            await self._turns.take(received.key, lambda: self._judge(received, envelope))

    async def restore(self, received: Received) -> None:
        """Folds a record below the committed offset. One that is not valid was dead-lettered when it was new."""
        try:
            try:
                envelope = _opened(self._restoring, received)  # at once: there are hundreds of thousands
            except Transient:
                envelope = await self._retried(self._open(received))
        except Poison as poison:
            self._metrics.skipped.labels(received.position.topic, poison.reason).inc()
            return
        self._folded(envelope)

    async def tick(self) -> None:
        """Lets the stage do what time alone brings, and publishes it. Raises only CancelledError and FatalError."""
        try:
            await self._publish_all(await self._stage.tick())
        except (FatalError, asyncio.CancelledError):
            raise
        except Transient as fault:
            _log.info("tick is tried again", stage=self._stage.name, fault=_where(fault))
        except Exception as fault:
            self._ticks_in_a_row += 1
            _log.error("tick failed", stage=self._stage.name, fault=_where(fault), in_a_row=self._ticks_in_a_row)
            if self._ticks_in_a_row >= UNFORESEEN_IN_A_ROW:
                raise FatalError(f"{self._ticks_in_a_row} ticks in a row failed: {_where(fault)}") from fault
        else:
            self._ticks_in_a_row = 0

    async def _taken_in(self, received: Received) -> Envelope | Poison:
        """Opened and folded. In turn: where the schema registry is away, the partition's later records wait as well."""
        try:
            envelope = await self._retried(self._open(received))
        except Poison as poison:
            return poison
        folded = self._folded(envelope)
        return Envelope(envelope.record, envelope.position, envelope.time_ms, envelope.writer, folded, envelope.raw)

    def _folded(self, envelope: Envelope) -> Any:
        try:
            return self._stage.fold(envelope)
        except Exception as fault:  # a state that missed a record would decide wrongly about all that follow
            raise FatalError(f"a record could not be folded: {_where(fault)}") from fault

    async def _judge(self, received: Received, envelope: Envelope) -> None:
        try:
            emitted: Sequence[Emit] = await self._retried(lambda: self._stage.handle(envelope))
            for record in emitted:
                await self._publish(record)
        except (FatalError, asyncio.CancelledError):
            raise
        except Poison as poison:
            await self._bury(received, envelope, poison.reason, poison.detail)
        except Exception as fault:
            await self._own_up(received, envelope, fault)
        else:
            self._in_a_row = 0
            self._handled.inc()

    def _open(self, received: Received) -> Callable[[], Awaitable[Envelope]]:
        async def opened() -> Envelope:
            return _opened(self._opener.open, received)

        return opened

    async def _retried(self, work: Callable[[], Awaitable[T]]) -> T:
        """Tries `work` until it is not Transient. It has no limit of its own: the stage knows the call's budget."""
        attempt = 0
        while True:
            try:
                return await work()
            except Transient as fault:
                attempt += 1
                self._metrics.retries.labels(self._stage.name).inc()
                _log.info("tried again", stage=self._stage.name, attempt=attempt, fault=_where(fault))
            await self._clock.sleep(backoff(attempt))

    async def _publish_all(self, emitted: Sequence[Emit]) -> None:
        """Records of one key in their order, different keys at once: ten thousand holds may expire in the same second."""
        lines: dict[str, list[Emit]] = {}
        for record in emitted:
            lines.setdefault(record.key(), []).append(record)
        waiting = list(lines.values())
        while waiting:
            now, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
            said = await asyncio.gather(*map(self._publish_in_order, now), return_exceptions=True)
            if (fault := next((one for one in said if one is not None), None)) is not None:
                raise fault

    async def _publish_in_order(self, line: Sequence[Emit]) -> None:
        for record in line:
            await self._publish(record)

    async def _publish(self, record: Emit) -> None:
        await self._retried(lambda: self._publisher.publish(record))
        if isinstance(record, LedgerEntry) and record.kind is LedgerKind.REFUSED:
            self._metrics.refused.labels(self._stage.name, record.code).inc()

    async def _own_up(self, received: Received, envelope: Envelope, fault: Exception) -> None:
        """Our own code failed on a proven record: it is dead-lettered, and whoever waits for the call is told."""
        self._in_a_row += 1
        _log.error("unforeseen", stage=self._stage.name, fault=_where(fault), in_a_row=self._in_a_row)
        await self._bury(received, envelope, "unforeseen", _where(fault))
        try:
            last_words = self._on_unforeseen(envelope)
        except Exception as second:
            raise FatalError(f"no last word for a failed record: {_where(second)}") from second
        for last_word in last_words:
            await self._certainly(last_word)
        if self._in_a_row >= UNFORESEEN_IN_A_ROW:
            raise FatalError(f"{self._in_a_row} records in a row failed: {_where(fault)}") from fault

    async def _bury(self, received: Received, envelope: Envelope | None, reason: str, detail: str) -> None:
        where = received.position
        place = f"{where.topic}/{where.partition}/{where.offset}"
        _log.warning("dead record", stage=self._stage.name, place=place, reason=reason, detail=detail)
        cause = None if envelope is None else cause_of(envelope)
        await self._certainly(dead_record(received, self._stage.name, self._producer, reason, detail, cause))
        self._metrics.records.labels(self._stage.name, "unforeseen" if reason == "unforeseen" else "dead").inc()

    async def _certainly(self, record: Emit) -> None:
        """Publishes what must not fail: a dead letter or a last word that cannot be written ends the process."""
        try:
            await self._publish(record)
        except (FatalError, asyncio.CancelledError):
            raise
        except Exception as fault:
            raise FatalError(f"a {type(record).__name__} could not be written: {_where(fault)}") from fault
