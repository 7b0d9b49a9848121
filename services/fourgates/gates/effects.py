"""The fold of `effects`, per key: who holds what may happen only once."""

from __future__ import annotations

from dataclasses import dataclass

from fourgates.contract.events import EffectEntry, EffectKind
from fourgates.contract.parts import EffectClaim
from fourgates.contract.ports import Envelope

from .ledger import CallState, OutcomeKind, Phase


@dataclass(frozen=True, slots=True)
class Holder:
    """One call's open claim of the key."""

    fence: int
    until_ms: int
    subject: str


@dataclass(frozen=True, slots=True)
class KeyState:
    """Open claims and, per call, the highest fence that was released."""

    holders: dict[str, Holder]
    freed: dict[str, int]


EMPTY = KeyState({}, {})


def fold_effect(state: KeyState, entry: EffectEntry, time_ms: int) -> KeyState:
    """The next state of one key. Void entries give the same state."""
    if entry.kind is EffectKind.CLAIMED:
        return _claim(state, entry, time_ms)
    if entry.kind is EffectKind.RELEASED:
        held = state.holders.get(entry.call_id)
        holders = {c: h for c, h in state.holders.items() if c != entry.call_id or (held and held.fence > entry.fence)}
        freed = state.freed | {entry.call_id: max(entry.fence, state.freed.get(entry.call_id, -1))}
        return KeyState(holders, freed)
    return state  # Reserved and Returned are the fold of quotas


def _claim(state: KeyState, entry: EffectEntry, time_ms: int) -> KeyState:
    mine = state.holders.get(entry.call_id)
    if entry.fence <= state.freed.get(entry.call_id, -1) or (mine and entry.fence <= mine.fence):
        return state
    if rivals(state, entry.call_id, entry.supersedes, time_ms):
        return state
    holders = {c: h for c, h in state.holders.items() if c != entry.call_id}
    holders[entry.call_id] = Holder(entry.fence, time_ms + entry.window_ms, entry.subject)
    return KeyState(holders, state.freed)


def rivals(
    state: KeyState, call_id: str, supersedes: tuple[EffectClaim, ...], time_ms: int
) -> tuple[tuple[EffectClaim, Holder], ...]:
    """Other calls' claims that still exclude this one: inside their window and not set aside by a person."""
    aside = {(claim.call_id, claim.fence) for claim in supersedes}
    return tuple(
        (EffectClaim(call_id=other, fence=holder.fence), holder)
        for other, holder in state.holders.items()
        if other != call_id and time_ms < holder.until_ms and (other, holder.fence) not in aside
    )


def releasable(state: CallState, fence: int, folded_to: int) -> bool:
    """May the ledger partition's owner release the claim that this call made at `fence`, having folded up to `folded_to`?"""
    if fence > folded_to:
        return False
    if state.phase is Phase.FINAL:
        return state.outcome is not None and state.outcome.kind is not OutcomeKind.COMMITTED
    return state.phase is Phase.OPEN or fence != state.fence


class EffectsFold:
    """All keys, kept by reading the whole topic."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyState] = {}
        self._of_call: dict[str, dict[str, int]] = {}

    def apply(self, envelope: Envelope) -> None:
        """Folds one entry."""
        entry: EffectEntry = envelope.record
        if entry.kind not in (EffectKind.CLAIMED, EffectKind.RELEASED):
            return
        before = self._keys.get(entry.effect_key, EMPTY)
        after = fold_effect(before, entry, envelope.time_ms)
        self._keys[entry.effect_key] = after
        held = self._of_call.setdefault(entry.call_id, {})
        if (holder := after.holders.get(entry.call_id)) is not None:
            held[entry.effect_key] = holder.fence
        else:
            held.pop(entry.effect_key, None)
            if not held:
                del self._of_call[entry.call_id]

    def holds(self, key: str, call_id: str, fence: int) -> bool:
        """True where the call's claim of the key at `fence` (or a later one) stands."""
        holder = self._keys.get(key, EMPTY).holders.get(call_id)
        return holder is not None and holder.fence >= fence

    def rivals(
        self, key: str, call_id: str, supersedes: tuple[EffectClaim, ...], time_ms: int
    ) -> tuple[tuple[EffectClaim, Holder], ...]:
        """Whose claims exclude this call now."""
        return rivals(self._keys.get(key, EMPTY), call_id, supersedes, time_ms)

    def held_by(self, call_id: str) -> dict[str, int]:
        """Effect key -> fence of everything that the call holds."""
        return dict(self._of_call.get(call_id, {}))

    def calls(self) -> tuple[str, ...]:
        """Every call that holds anything."""
        return tuple(self._of_call)
