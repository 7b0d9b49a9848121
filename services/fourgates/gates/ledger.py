"""The fold of calls.ledger, one call: the first valid last word wins, for everybody.

A fold looks at nothing but entries, their order and their broker time. Void entries change nothing. The rules are those of the
model-checked table; leaving out any of them gives a second effect, a lost call or two final answers within a few steps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from fourgates.contract.avro_beginning import LedgerBeginning, RefBeginning
from fourgates.contract.codes import Code, ends_call
from fourgates.contract.errors import Poison
from fourgates.contract.events import ALL_ATTEMPTS, LedgerEntry, LedgerKind
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Envelope, UnreadAttempt

from .call_state import OPEN, READ_MEMORY, CallState, Outcome, OutcomeKind, Phase, identity_of
from .call_states import CallStates

__all__ = [
    "OPEN", "READ_MEMORY", "CallState", "Change", "LedgerFold", "Outcome", "OutcomeKind", "Phase", "conflicts", "fold_entry",
]  # fmt: skip
Entry: TypeAlias = LedgerEntry | LedgerBeginning
_UNREAD = 8
"""So many attempts of a call wait unread: whoever forges them is not to fill the memory."""
_SAYS_NOTHING = frozenset({LedgerKind.PENDING, LedgerKind.REPLAYED, LedgerKind.BARRIER})


def conflicts(state: CallState, tool: str, args_digest: str) -> bool:
    """Same key, other tool or arguments than the call that the ledger knows under it."""
    return bool(state.identity) and state.identity != identity_of(tool, args_digest)


def fold_entry(state: CallState, entry: Entry, offset: int, time_ms: int) -> CallState:
    """The next state; the very same one where the entry is void.

    `offset` is the entry's place in its partition, `time_ms` the broker's time of it.
    """
    if state.read and state.forgotten(time_ms):
        state = OPEN
    kind, claim = entry.kind, entry.claim_id
    if state.phase is Phase.FINAL or kind in _SAYS_NOTHING:
        return state
    if kind is LedgerKind.CLAIMED:
        return _claimed(state, entry, offset)
    if kind is LedgerKind.CANCELLED:
        if state.phase is Phase.OPEN:
            return _final(state, entry, OutcomeKind.CANCELLED, time_ms)
        return state if state.stop else state._replace(stop=True)
    if not claim:
        return _without_claim(state, entry, time_ms)
    if state.phase is Phase.OPEN or claim != state.claim_id:
        return state
    return _of_the_claim(state, entry, time_ms)


def _claimed(state: CallState, entry: Entry, offset: int) -> CallState:
    claim = entry.claim_id
    if claim in state.used:
        return state
    used = state.used | {claim}
    if state.phase is not Phase.OPEN or not claim:
        return state._replace(used=used)  # lost, and it never moves up later
    return CallState(Phase.CLAIMED, claim, offset, used=used, identity=_known(state, entry.about))


def _without_claim(state: CallState, entry: Entry, time_ms: int) -> CallState:
    """A gate's word, or a read's answer: both count only while nobody has claimed the call."""
    if state.phase is not Phase.OPEN:
        return state
    if entry.kind is LedgerKind.REFUSED and ends_call(Code(entry.code)):
        return _final(state, entry, OutcomeKind.REFUSED, time_ms)
    if entry.kind is LedgerKind.FINISHED:
        ended = OutcomeKind.COMMITTED if entry.outcome == "committed" else OutcomeKind.FAILED
        return _final(state, entry, ended, time_ms)._replace(read=True)
    return state


def _of_the_claim(state: CallState, entry: Entry, time_ms: int) -> CallState:
    match entry.kind:
        case LedgerKind.ATTEMPTED:
            by_holder = entry.by == "holder"
            if by_holder == (state.phase is Phase.CLAIMED) and entry.attempt and entry.attempt not in state.attempts:
                return state._replace(attempts=state.attempts | {entry.attempt})
        case LedgerKind.IN_DOUBT if state.phase is Phase.CLAIMED:
            return state._replace(phase=Phase.IN_DOUBT)
        case LedgerKind.FINISHED if entry.outcome == "committed":
            return _final(state, entry, OutcomeKind.COMMITTED, time_ms)
        case LedgerKind.FINISHED if _vouches(state, entry):
            return _final(state, entry, OutcomeKind.FAILED, time_ms)
        case LedgerKind.REFUSED if _vouches(state, entry):
            return _final(state, entry, OutcomeKind.REFUSED, time_ms)
        case LedgerKind.RELEASED if _vouches(state, entry):
            if state.stop:
                return _final(state, entry, OutcomeKind.CANCELLED, time_ms)
            return state._replace(phase=Phase.OPEN, claim_id="", attempts=frozenset(), stop=False)
        case LedgerKind.RESOLVED if state.phase is Phase.IN_DOUBT:
            if entry.outcome == "committed":
                return _final(state, entry, OutcomeKind.COMMITTED, time_ms)
            if entry.vouches == len(state.attempts):  # a person's word covers only the attempts that they were shown
                return _final(state, entry, OutcomeKind.NOT_APPLIED, time_ms)
    return state


def _vouches(state: CallState, entry: Entry) -> bool:
    """Nobody may vouch for an attempt that he did not make, unless the downstream itself now refuses the key."""
    return entry.vouches in (ALL_ATTEMPTS, len(state.attempts))


def _final(state: CallState, entry: Entry, kind: OutcomeKind, time_ms: int) -> CallState:
    known = _known(state, entry.about, cancelled=kind is OutcomeKind.CANCELLED)
    return state._replace(phase=Phase.FINAL, outcome=Outcome(kind, entry.code), final_ms=time_ms, identity=known)


def _known(state: CallState, about: CallRef | RefBeginning | None, cancelled: bool = False) -> bytes:
    """Which call it is, by now."""
    if about is None or state.identity or (cancelled and not about.args_digest):  # who cancels repeats no arguments
        return state.identity
    return identity_of(about.tool, about.args_digest)


class Change(NamedTuple):
    """One entry's doing. `seen_before`: its offset had been folded already, so nothing was done."""

    before: CallState
    after: CallState
    seen_before: bool = False

    @property
    def counted(self) -> bool:
        return self.before is not self.after


class LedgerFold:
    """The states of all calls of some ledger partitions, kept by reading each partition once, in order.

    An attempt that comes unread waits for its call's next entry: what was committed is so however often it was attempted.
    """

    def __init__(self, watch: Callable[[Envelope, Change], None] | None = None) -> None:
        self._states = CallStates()
        self._next: dict[int, int] = {}
        self._unread: dict[str, list[UnreadAttempt]] = {}
        self._watch = watch

    def apply(self, envelope: Envelope) -> Change:
        """Folds one entry; an offset below the next expected one was folded before and is left alone."""
        entry, where = envelope.record, envelope.position
        if where.offset < self._next.get(where.partition, 0):
            before = self.state(entry.call_id)
            return Change(before, before, seen_before=True)
        self._next[where.partition] = where.offset + 1
        if type(entry) is UnreadAttempt:
            return self._put_off(entry)
        if entry.call_id in self._unread:
            self._catch_up(entry.call_id, entry)
        return self._fold(envelope)

    def _fold(self, envelope: Envelope) -> Change:
        entry, time_ms = envelope.record, envelope.time_ms
        before = self._states.get(entry.call_id)
        self._states.forget_reads(entry.call_id, time_ms)
        if before.read and before.forgotten(time_ms):
            before = OPEN
        after = fold_entry(before, entry, envelope.position.offset, time_ms)
        if after is not before:
            self._states.put(entry.call_id, after)
        change = Change(before, after)
        if self._watch is not None:
            self._watch(envelope, change)
        return change

    def _put_off(self, attempt: UnreadAttempt) -> Change:
        before = self._states.get(attempt.call_id)
        if before.phase in (Phase.CLAIMED, Phase.IN_DOUBT):  # else it is void, whatever it says
            unread = self._unread.setdefault(attempt.call_id, [])
            unread.append(attempt)
            if len(unread) > _UNREAD:
                self._catch_up(attempt.call_id)
        return Change(before, before)

    def _catch_up(self, call_id: str, entry: Entry | None = None) -> None:
        """Reads what was put off, unless `entry` is the next of the call and makes it no matter."""
        unread = self._unread.pop(call_id, ())
        if entry is not None and entry.kind is LedgerKind.FINISHED and entry.outcome == "committed":
            unread = unread if entry.claim_id != self._states.get(call_id).claim_id else ()
        for attempt in unread:
            with contextlib.suppress(Poison):  # it is nobody's
                self._fold(attempt.read())

    def state(self, call_id: str, now_ms: int | None = None) -> CallState:
        """The call's state; with `now_ms` a read past its ten minutes is open again."""
        if call_id in self._unread:
            self._catch_up(call_id)
        state = self._states.get(call_id)
        return OPEN if now_ms is not None and state.forgotten(now_ms) else state

    def next_offset(self, partition: int) -> int:
        """The first offset of the partition that is not folded yet."""
        return self._next.get(partition, 0)

    def items(self) -> Iterator[tuple[int, CallState]]:
        """Every call that is remembered, by number, for comparing one memory with another."""
        for call_id in tuple(self._unread):
            self._catch_up(call_id)
        return self._states.items()

    def __len__(self) -> int:
        return len(self._states)
