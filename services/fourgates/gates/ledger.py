"""The fold of calls.ledger, one call: the first valid last word wins, for everybody.

A fold looks at nothing but entries, their order and their broker time. Void entries change nothing. The rules are those of the
model-checked table; leaving out any of them gives a second effect, a lost call or two final answers within a few steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fourgates.contract.codes import Code, ends_call
from fourgates.contract.events import ALL_ATTEMPTS, LedgerEntry, LedgerKind
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Envelope

from .call_state import OPEN, READ_MEMORY, CallState, Outcome, OutcomeKind, Phase, identity_of
from .call_states import CallStates

__all__ = [
    "OPEN", "READ_MEMORY", "CallState", "Change", "LedgerFold", "Outcome", "OutcomeKind", "Phase", "conflicts", "fold_entry",
]  # fmt: skip
_SAYS_NOTHING = frozenset({LedgerKind.PENDING, LedgerKind.REPLAYED, LedgerKind.BARRIER})


def conflicts(state: CallState, tool: str, args_digest: str) -> bool:
    """Same key, other tool or arguments than the call that the ledger knows under it."""
    return bool(state.identity) and state.identity != identity_of(tool, args_digest)


def fold_entry(state: CallState, entry: LedgerEntry, offset: int, time_ms: int) -> CallState:
    """The next state. `offset` is the entry's place in its partition, `time_ms` the broker's time of it."""
    if state.forgotten(time_ms):
        state = OPEN
    kind, claim = entry.kind, entry.claim_id
    if state.phase is Phase.FINAL or kind in _SAYS_NOTHING:
        return state
    if kind is LedgerKind.CLAIMED:
        return _claimed(state, entry, offset)
    if kind is LedgerKind.CANCELLED:
        open_ = state.phase is Phase.OPEN
        return _final(state, entry, OutcomeKind.CANCELLED, time_ms) if open_ else replace(state, stop=True)
    if not claim:
        return _without_claim(state, entry, time_ms)
    if state.phase is Phase.OPEN or claim != state.claim_id:
        return state
    return _of_the_claim(state, entry, time_ms)


def _claimed(state: CallState, entry: LedgerEntry, offset: int) -> CallState:
    claim = entry.claim_id
    fresh = bool(claim) and claim not in state.used
    state = replace(state, used=state.used | {claim})
    if state.phase is Phase.OPEN and fresh:
        return replace(
            _known(state, entry.about), phase=Phase.CLAIMED, claim_id=claim, fence=offset, attempts=frozenset(), stop=False
        )
    return state  # lost, and it never moves up later


def _without_claim(state: CallState, entry: LedgerEntry, time_ms: int) -> CallState:
    """A gate's word, or a read's answer: both count only while nobody has claimed the call."""
    if state.phase is not Phase.OPEN:
        return state
    if entry.kind is LedgerKind.REFUSED and ends_call(Code(entry.code)):
        return _final(state, entry, OutcomeKind.REFUSED, time_ms)
    if entry.kind is LedgerKind.FINISHED:
        ended = OutcomeKind.COMMITTED if entry.outcome == "committed" else OutcomeKind.FAILED
        return replace(_final(state, entry, ended, time_ms), read=True)
    return state


def _of_the_claim(state: CallState, entry: LedgerEntry, time_ms: int) -> CallState:
    match entry.kind:
        case LedgerKind.ATTEMPTED:
            by_holder = entry.by == "holder"
            if by_holder == (state.phase is Phase.CLAIMED) and entry.attempt:
                return replace(state, attempts=state.attempts | {entry.attempt})
        case LedgerKind.IN_DOUBT:
            return replace(state, phase=Phase.IN_DOUBT)
        case LedgerKind.FINISHED if entry.outcome == "committed":
            return _final(state, entry, OutcomeKind.COMMITTED, time_ms)
        case LedgerKind.FINISHED if _vouches(state, entry):
            return _final(state, entry, OutcomeKind.FAILED, time_ms)
        case LedgerKind.REFUSED if _vouches(state, entry):
            return _final(state, entry, OutcomeKind.REFUSED, time_ms)
        case LedgerKind.RELEASED if _vouches(state, entry):
            if state.stop:
                return _final(state, entry, OutcomeKind.CANCELLED, time_ms)
            return replace(state, phase=Phase.OPEN, claim_id="", attempts=frozenset(), stop=False)
        case LedgerKind.RESOLVED if state.phase is Phase.IN_DOUBT:
            if entry.outcome == "committed":
                return _final(state, entry, OutcomeKind.COMMITTED, time_ms)
            if entry.vouches == len(state.attempts):  # a person's word covers only the attempts that they were shown
                return _final(state, entry, OutcomeKind.NOT_APPLIED, time_ms)
    return state


def _vouches(state: CallState, entry: LedgerEntry) -> bool:
    """Nobody may vouch for an attempt that he did not make, unless the downstream itself now refuses the key."""
    return entry.vouches in (ALL_ATTEMPTS, len(state.attempts))


def _final(state: CallState, entry: LedgerEntry, kind: OutcomeKind, time_ms: int) -> CallState:
    known = _known(state, entry.about, cancelled=kind is OutcomeKind.CANCELLED)
    return replace(known, phase=Phase.FINAL, outcome=Outcome(kind, entry.code), final_ms=time_ms)


def _known(state: CallState, about: CallRef | None, cancelled: bool = False) -> CallState:
    if about is None or state.identity or (cancelled and not about.args_digest):  # who cancels repeats no arguments
        return state
    return replace(state, identity=identity_of(about.tool, about.args_digest))


@dataclass(frozen=True, slots=True)
class Change:
    """One entry's doing. `seen_before`: its offset had been folded already, so nothing was done."""

    before: CallState
    after: CallState
    seen_before: bool = False

    @property
    def counted(self) -> bool:
        return self.before is not self.after and self.before != self.after


class LedgerFold:
    """The states of all calls of some ledger partitions, kept by reading each partition once, in order."""

    def __init__(self, watch: Callable[[Envelope, Change], None] | None = None) -> None:
        self._states = CallStates()
        self._next: dict[int, int] = {}
        self._watch = watch

    def apply(self, envelope: Envelope) -> Change:
        """Folds one entry; an offset below the next expected one was folded before and is left alone."""
        entry, where = envelope.record, envelope.position
        before = self._states.get(entry.call_id)
        if where.offset < self._next.get(where.partition, 0):
            return Change(before, before, seen_before=True)
        self._next[where.partition] = where.offset + 1
        self._states.forget_reads(entry.call_id, envelope.time_ms)
        if before.forgotten(envelope.time_ms):
            before = OPEN
        after = fold_entry(before, entry, where.offset, envelope.time_ms)
        if after != before:
            self._states.put(entry.call_id, after)
        change = Change(before, after)
        if self._watch is not None:
            self._watch(envelope, change)
        return change

    def state(self, call_id: str, now_ms: int | None = None) -> CallState:
        """The call's state; with `now_ms` a read past its ten minutes is open again."""
        state = self._states.get(call_id)
        return OPEN if now_ms is not None and state.forgotten(now_ms) else state

    def next_offset(self, partition: int) -> int:
        """The first offset of the partition that is not folded yet."""
        return self._next.get(partition, 0)

    def items(self) -> Iterator[tuple[int, CallState]]:
        """Every call that is remembered, by number, for comparing one memory with another."""
        return self._states.items()

    def __len__(self) -> int:
        return len(self._states)
