"""What has come back: one track for each call, whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from fourgates.contract.codes import CODES, Code, CodeClass
from fourgates.contract.events import CallCompleted
from fourgates.contract.ports import Clock, Envelope

from .answer import Answer, answer_of

READ_REMEMBERED_MS = 600_000
"""A read asked again after ten minutes of broker time is read afresh: a final answer after that replaces the first."""
_STILL_OPEN = frozenset({CodeClass.WAITING, CodeClass.IN_DOUBT})


class Track:
    """The answers to one call, in the order of the log. The first final one is kept."""

    def __init__(self, call_id: str) -> None:
        self.call_id = call_id
        self.final: Answer | None = None
        self.latest: Answer | None = None
        self.count = 0
        """Arrivals so far; who asks waits for it to grow."""
        self.gaps = 0
        """How often answers may have been missed."""
        self.conflicts = 0
        """Conflicts among the arrivals that belong to asks with other content than the first."""
        self.conflict: Answer | None = None
        self.differing = 0
        """Such asks under way."""
        self.first: tuple[str, str] | None = None
        """Tool and raw arguments of the first ask."""
        self._final_ms = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def take(self, answer: Answer, time_ms: int) -> None:
        """An answer arrived, appended at `time_ms`.

        An idempotency_conflict answers a record, not the call: it belongs to an ask that differs from the first, if there is one.
        """
        if answer.code is Code.IDEMPOTENCY_CONFLICT and self.differing:
            self.conflict, self.conflicts = answer, self.conflicts + 1
            return self._wake()
        if answer.final and (self.final is None or time_ms - self._final_ms > READ_REMEMBERED_MS):
            self.final, self._final_ms = answer, time_ms
        self.latest, self.count = answer, self.count + 1
        return self._wake()

    def missed(self) -> None:
        """Answers may have been missed: whoever waits asks again."""
        self.gaps += 1
        self._wake()

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    async def changed(self, seconds: float, clock: Clock) -> None:
        """Returns once something arrives, or after so many seconds."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        timer = asyncio.ensure_future(clock.sleep(seconds))
        timer.add_done_callback(lambda _: None if waiting.done() else waiting.set_result(None))
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)
            timer.cancel()

    @contextmanager
    def ask(self, tool: str, arguments: str) -> Iterator[Ask]:
        """An ask under way, from before its request is published until it is answered."""
        self.first = self.first or (tool, arguments)
        ask = Ask(self, differs=self.first != (tool, arguments))
        self.differing += ask.differs
        try:
            yield ask
        finally:
            self.differing -= ask.differs

    def standing(self) -> Answer | None:
        """What is true as far as is known when nothing new has come: the final answer, or that people or evidence decide."""
        if self.final is not None:
            return self.final
        return self.latest if self.latest is not None and is_open(self.latest) else None


class Ask:
    """One ask: what it gets is what arrives after it began."""

    def __init__(self, track: Track, *, differs: bool) -> None:
        self.differs = differs
        self._track, self._seen, self._conflicts, self._gaps = track, track.count, track.conflicts, track.gaps
        self._ended_before = track.final is not None

    def answer(self) -> Answer | None:
        """None while it has to go on waiting. A first final answer never belongs to an ask that differs from the first."""
        track = self._track
        if self.differs and track.conflicts > self._conflicts:
            return track.conflict
        if track.count <= self._seen or track.latest is None:
            return None
        if self.differs:
            return track.latest if not track.latest.final else track.final if self._ended_before else None
        return track.final or track.latest

    def missed(self) -> bool:
        """Whether its answer may have come while nobody listened, since this was asked last."""
        missed, self._gaps = self._track.gaps != self._gaps, self._track.gaps
        return missed

    def standing(self) -> Answer | None:
        """What is true of the call as far as is known, when nothing new has come in time."""
        return None if self.differs else self._track.standing()


def is_open(answer: Answer) -> bool:
    """True where the rest will come by itself: worth waiting for, never worth repeating."""
    return CODES[answer.code].code_class in _STILL_OPEN


class Inbox:
    """Routes completed calls to whoever waits. Calls of other hosts on the same topic are not looked at."""

    def __init__(self) -> None:
        self._tracks: WeakValueDictionary[str, Track] = WeakValueDictionary()

    def track(self, call_id: str) -> Track:
        """The call's track, shared by all runs of this process that hold it."""
        track = self._tracks.get(call_id)
        if track is None:
            track = self._tracks[call_id] = Track(call_id)
        return track

    def sink(self, envelope: Envelope) -> None:
        """Takes a record of calls.completed."""
        completed: CallCompleted = envelope.record
        if (track := self._tracks.get(completed.call_id)) is not None:
            track.take(answer_of(completed), envelope.time_ms)

    def missed(self) -> None:
        """The reading had a gap."""
        for track in list(self._tracks.values()):
            track.missed()
