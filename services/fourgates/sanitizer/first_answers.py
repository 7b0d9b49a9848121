"""The first final answer of every call, found again by its place in calls.completed, so that it is told with the same bytes."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta

from fourgates.contract.events import CallCompleted, LedgerEntry
from fourgates.contract.ports import Clock, Envelope, Following, Log, Position
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_LEDGER, HORIZON

_KEPT_MS = int((HORIZON - timedelta(hours=1)) / timedelta(milliseconds=1))
"""Younger answers are certainly still in the log."""
_SWEEP_EVERY = 50_000


class FirstAnswers:
    """Follows calls.completed whole. A call has one final answer; a read that was forgotten and read afresh has a later one.

    An entry costs about 150 bytes: sixteen of the call's digest, and one number that holds the answer's digest, time and place.
    """

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._places: dict[bytes, int] = {}
        self._later: dict[bytes, list[int]] = {}
        self._just_made: dict[str, CallCompleted] = {}
        self._following: Following | None = None
        self._since_sweep = 0

    async def start(self) -> None:
        """Returns once every answer that had been given is known: before that nothing may be answered."""
        self._following = await self._log.follow(CALLS_COMPLETED, self._add)
        await self._following.reached_end()

    async def catch_up(self) -> None:
        """Returns once every answer that was given until now, by whomever, is known."""
        if self._following is not None:
            await self._following.reached_end()

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
        self._following = None

    def forget_just_made(self) -> None:
        """Answers that were made here may never have been published; another owner may give them now."""
        self._just_made.clear()

    def remember(self, completed: CallCompleted) -> None:
        """Our own answer, until it comes back through the log: a later word may overtake it."""
        if completed.final:
            self._just_made[completed.call_id] = completed

    async def caused_by(self, entry: LedgerEntry) -> CallCompleted | None:
        """The answer that this very entry brought when it was handled before; or another call's answer that was given for it.

        Any other answer to the call is of a read that has been forgotten.
        """
        for answer in await self._answers(entry.call_id):
            if answer.cause is not None and answer.cause.event_id == entry.event_id:
                return answer
            if json.loads(answer.observation)["replayed"]:
                return answer
        return None

    async def of(self, call_id: str, since_ms: int = 0) -> CallCompleted | None:
        """The first final answer to the call; where it has several, the first to an entry not older than `since_ms`."""
        answers = await self._answers(call_id)
        if not answers:
            await self.catch_up()
            answers = await self._answers(call_id)
        for answer in answers:
            if len(answers) == 1 or await self._is_of(answer, since_ms):
                return answer
        return answers[-1] if answers else None

    async def _answers(self, call_id: str) -> list[CallCompleted]:
        if (made := self._just_made.get(call_id)) is not None:
            return [made]
        key = _key(call_id)
        first = self._places.get(key)
        if first is None:
            return []
        oldest = self._clock.now_ms() - _KEPT_MS
        places = [place for place in (first, *self._later.get(key, ())) if _time_of(place) > oldest]
        return [(await self._log.read_at(_position_of(place))).record for place in places]

    async def _is_of(self, answer: CallCompleted, since_ms: int) -> bool:
        cause = answer.cause
        if cause is None or cause.topic != CALLS_LEDGER:
            return False
        return (await self._log.read_at(Position(cause.topic, cause.partition, cause.offset))).time_ms >= since_ms

    def _add(self, envelope: Envelope) -> None:
        answer: CallCompleted = envelope.record
        if not answer.final:
            return
        made = self._just_made.get(answer.call_id)
        if made is not None and made.event_id == answer.event_id:
            del self._just_made[answer.call_id]
        key, place = _key(answer.call_id), _place_of(envelope)
        first = self._places.setdefault(key, place)
        newest = self._later[key][-1] if key in self._later else first
        if _digest_of(newest) != _digest_of(place):
            self._later.setdefault(key, []).append(place)
        self._since_sweep += 1
        if self._since_sweep > max(_SWEEP_EVERY, len(self._places)):
            self._sweep(envelope.time_ms)

    def _sweep(self, now_ms: int) -> None:
        self._since_sweep = 0
        oldest = now_ms - _KEPT_MS
        for key in [key for key, place in self._places.items() if _time_of((self._later.get(key) or (place,))[-1]) <= oldest]:
            del self._places[key]
            self._later.pop(key, None)


def _key(call_id: str) -> bytes:
    return hashlib.blake2b(call_id.encode(), digest_size=16).digest()


def _place_of(envelope: Envelope) -> int:
    digest = hashlib.blake2b(envelope.record.observation.encode(), digest_size=8).digest()
    where = envelope.position
    return ((int.from_bytes(digest, "big") << 48 | envelope.time_ms) << 16 | where.partition) << 48 | where.offset


def _position_of(place: int) -> Position:
    return Position(CALLS_COMPLETED, place >> 48 & 0xFFFF, place & 0xFFFFFFFFFFFF)


def _time_of(place: int) -> int:
    return place >> 64 & 0xFFFFFFFFFFFF


def _digest_of(place: int) -> int:
    return place >> 112
