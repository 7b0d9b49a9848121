"""The fold of `effects`, per key: who holds what may happen only once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

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


_REMEMBERED_MS = timedelta(days=1) // timedelta(milliseconds=1)
"""How long a key is remembered when its windows are over: longer than any claim of it can still be on its way."""
_SWEEP_MS = timedelta(hours=6) // timedelta(milliseconds=1)


class EffectsFold:
    """All keys, kept by reading the whole topic. Most have one claim and nothing released: those are kept small."""

    def __init__(self) -> None:
        self._one: dict[str, tuple[str, Holder]] = {}
        self._more: dict[str, tuple[KeyState, int]] = {}
        self._of_call: dict[str, tuple[str, ...]] = {}
        self._sweep_from_ms = 0

    def apply(self, envelope: Envelope) -> None:
        """Folds one entry."""
        entry: EffectEntry = envelope.record
        if entry.kind not in (EffectKind.CLAIMED, EffectKind.RELEASED):
            return
        self._sweep(envelope.time_ms)
        key, call = entry.effect_key, entry.call_id
        before = self._state(key)
        after = fold_effect(before, entry, envelope.time_ms)
        if after is before:
            return
        self._put(key, after, envelope.time_ms)
        held = self._of_call.get(call, ())
        if call in after.holders and key not in held:
            self._of_call[call] = (*held, key)
        elif call not in after.holders:
            self._let_go(call, key)

    def holds(self, key: str, call_id: str, fence: int) -> bool:
        """True where the call's claim of the key at `fence` (or a later one) stands."""
        holder = self._state(key).holders.get(call_id)
        return holder is not None and holder.fence >= fence

    def rivals(
        self, key: str, call_id: str, supersedes: tuple[EffectClaim, ...], time_ms: int
    ) -> tuple[tuple[EffectClaim, Holder], ...]:
        """Whose claims exclude this call now."""
        return rivals(self._state(key), call_id, supersedes, time_ms)

    def held_by(self, call_id: str) -> dict[str, int]:
        """Effect key -> fence of everything that the call holds."""
        return {key: self._state(key).holders[call_id].fence for key in self._of_call.get(call_id, ())}

    def calls(self) -> tuple[str, ...]:
        """Every call that holds anything."""
        return tuple(self._of_call)

    def _state(self, key: str) -> KeyState:
        if (one := self._one.get(key)) is not None:
            return KeyState({one[0]: one[1]}, {})
        more = self._more.get(key)
        return EMPTY if more is None else more[0]

    def _put(self, key: str, state: KeyState, time_ms: int) -> None:
        if len(state.holders) == 1 and not state.freed:
            self._more.pop(key, None)
            self._one[key] = next(iter(state.holders.items()))
        else:
            self._one.pop(key, None)
            self._more[key] = state, time_ms

    def _let_go(self, call_id: str, key: str) -> None:
        left = tuple(other for other in self._of_call.get(call_id, ()) if other != key)
        if left:
            self._of_call[call_id] = left
        else:
            self._of_call.pop(call_id, None)

    def _sweep(self, now_ms: int) -> None:
        """Forgets keys of which nothing excludes anybody any more, so that what is kept is a window's, not the log's."""
        if now_ms < self._sweep_from_ms:
            return
        self._sweep_from_ms = now_ms + _SWEEP_MS
        over = now_ms - _REMEMBERED_MS
        for key in [key for key, (_, holder) in self._one.items() if holder.until_ms <= over]:
            self._let_go(self._one.pop(key)[0], key)
        for key, (state, said_ms) in tuple(self._more.items()):
            if max(said_ms, *(holder.until_ms for holder in state.holders.values()), 0) <= over:
                del self._more[key]
                for call_id in state.holders:
                    self._let_go(call_id, key)
