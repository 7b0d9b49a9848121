"""What a partition's owner owes the effects: claims and reservations of calls that ended without effect are given back.

Level-triggered from what the folds say, not from what this process has done: whoever owns the partition next goes on where
this one stopped, and a repetition is harmless.
"""

from __future__ import annotations

import asyncio

import structlog

from fourgates.executor.effects_view import EffectsView
from fourgates.executor.index import LedgerIndex
from fourgates.executor.words import Words
from fourgates.gates.effects import releasable

_log = structlog.get_logger("fourgates.executor")
_BREATH = 500
"""After so many calls that were looked at without waiting for anything, others have their turn."""


class Releaser:
    """One task while partitions are ours; a failure is tried again at the next tick."""

    def __init__(self, index: LedgerIndex, effects: EffectsView, words: Words) -> None:
        self._index, self._effects, self._words = index, effects, words
        self._dirty = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        index.on_change = effects.on_change = self._dirty.set

    def start(self) -> None:
        """Begins with everything that is held by calls of ours, whoever claimed it."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def again(self) -> None:
        """Looks once more at what is left over from a failure."""
        self._dirty.set()

    async def _run(self) -> None:
        left = self._effects.calls()
        while True:
            self._dirty.clear()
            left |= self._index.take_changed() | self._effects.take_changed()
            try:
                await self._release(left)
            except Exception as fault:
                _log.warning("releasing effects is tried again", fault=type(fault).__name__)
            await self._dirty.wait()

    async def _release(self, left: set[str]) -> None:
        """Takes out of `left` what needs no further look."""
        for number, call_id in enumerate(tuple(left)):
            if self._index.owns(call_id):
                await self._of_call(call_id)
            left.discard(call_id)
            if number % _BREATH == 0:
                await asyncio.sleep(0)

    async def _of_call(self, call_id: str) -> None:
        state, folded_to = self._index.state(call_id), self._index.folded_to(call_id)
        for key, fence in self._effects.held_by(call_id).items():
            if releasable(state, fence, folded_to):
                await self._effects.append(self._words.effect_released(key, call_id, fence))
        quotas = self._effects.quotas
        for key, fence in quotas.held_by(call_id).items():
            if releasable(state, fence, folded_to):
                await self._effects.append(self._words.returned(key, call_id, fence, quotas.amount(key, call_id)))
