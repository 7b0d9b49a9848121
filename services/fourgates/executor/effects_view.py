"""The executor's view of `effects`: every key and every quota of the whole topic."""

from __future__ import annotations

from collections.abc import Callable

from fourgates.contract.events import EffectEntry
from fourgates.contract.parts import EffectClaim
from fourgates.contract.ports import Envelope, Following, Log, Position, Publisher
from fourgates.contract.topology import EFFECTS
from fourgates.gates.effects import EffectsFold, Holder
from fourgates.gates.quota import QuotaFold


class EffectsView:
    """Follows the topic whole; an entry that we append counts for us once we have read it back."""

    def __init__(self, log: Log, publisher: Publisher) -> None:
        self._log, self._publisher = log, publisher
        self._fold = EffectsFold()
        self.quotas = QuotaFold()
        self._following: Following | None = None
        self._changed: set[str] = set()
        self._loaded = False
        self.on_change: Callable[[], None] = lambda: None

    async def start(self) -> None:
        self._following = await self._log.follow(EFFECTS, self._sink, briefly=lambda: not self._loaded)
        await self._following.reached_end()
        self._loaded = True

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

    def calls(self) -> set[str]:
        """Every call that holds or has reserved anything."""
        return {*self._fold.calls(), *self.quotas.calls()}

    def take_changed(self) -> set[str]:
        """Calls with new entries since this was asked: they may have claimed what can be released."""
        changed, self._changed = self._changed, set()
        return changed

    def _sink(self, envelope: Envelope) -> None:
        self._fold.apply(envelope)
        self.quotas.apply(envelope.record, envelope.time_ms)
        if self._loaded:
            self._changed.add(envelope.record.call_id)
            self.on_change()
