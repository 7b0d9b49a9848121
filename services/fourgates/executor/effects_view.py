"""The executor's view of `effects`: every key of the whole topic."""

from __future__ import annotations

from fourgates.contract.events import EffectEntry
from fourgates.contract.parts import EffectClaim
from fourgates.contract.ports import Envelope, Following, Log, Position, Publisher
from fourgates.contract.topology import EFFECTS
from fourgates.gates.effects import EffectsFold, Holder


class EffectsView:
    """Follows the topic whole; an entry that we append counts for us once we have read it back."""

    def __init__(self, log: Log, publisher: Publisher) -> None:
        self._log, self._publisher = log, publisher
        self._fold = EffectsFold()
        self._following: Following | None = None
        self.changed: set[str] = set()
        """Calls with new entries since somebody looked whether they can be released."""

    async def start(self) -> None:
        self._following = await self._log.follow(EFFECTS, self._sink)
        await self._following.reached_end()

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()

    async def append(self, entry: EffectEntry) -> Position:
        """Appends and reads back."""
        if self._following is None:
            raise RuntimeError("the effects view was not started")
        position = await self._publisher.publish(entry)
        await self._following.reached(position.partition, position.offset)
        return position

    def holds(self, key: str, call_id: str, fence: int) -> bool:
        return self._fold.holds(key, call_id, fence)

    def rivals(
        self, key: str, call_id: str, supersedes: tuple[EffectClaim, ...], now_ms: int
    ) -> tuple[tuple[EffectClaim, Holder], ...]:
        return self._fold.rivals(key, call_id, supersedes, now_ms)

    def held_by(self, call_id: str) -> dict[str, int]:
        return self._fold.held_by(call_id)

    def calls(self) -> tuple[str, ...]:
        return self._fold.calls()

    def _sink(self, envelope: Envelope) -> None:
        self._fold.apply(envelope)
        self.changed.add(envelope.record.call_id)
