"""The ledger's fold: each rule of the table, and agreement with the reference model on generated sequences."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import ALL_ATTEMPTS, LedgerEntry, LedgerKind
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Envelope, Position, Received, UnreadAttempt
from fourgates.contract.seals import writers_of
from fourgates.gates.call_state import identity_of
from fourgates.gates.call_states import CallStates
from fourgates.gates.ledger import OPEN, CallState, LedgerFold, Outcome, OutcomeKind, Phase, conflicts, fold_entry
from support.sealing import opener, writer
from support.shared import shared_module

K = LedgerKind
ABOUT = CallRef(
    tenant="acme", run_id="r", tool_call_id="t", subject="anna", agent="bot", tool="refund", risk="write", args_digest="d1"
)


def entry(kind: LedgerKind, claim: str = "", **fields: Any) -> LedgerEntry:
    return LedgerEntry(event_id="e", producer="p", kind=kind, call_id="call", about=ABOUT, claim_id=claim, **fields)


def fold(*entries: LedgerEntry, time_ms: int = 0) -> CallState:
    state = OPEN
    for offset, one in enumerate(entries):
        state = fold_entry(state, one, offset, time_ms)
    return state


CLAIM = entry(K.CLAIMED, "x")
SENT = entry(K.ATTEMPTED, "x", attempt="a1", by="holder")
DOUBT = entry(K.IN_DOUBT, "x")
CANCEL = entry(K.CANCELLED)
GATE_NO = entry(K.REFUSED, code="rule_violated")
COMMITTED = entry(K.FINISHED, "x", outcome="committed")


def failed(vouches: int | None) -> LedgerEntry:
    return entry(K.FINISHED, "x", outcome="failed", vouches=vouches, code="tool_failed")


def released(vouches: int) -> LedgerEntry:
    return entry(K.RELEASED, "x", vouches=vouches)


@pytest.mark.parametrize(
    ("entries", "phase", "outcome"),
    [
        ((CLAIM,), Phase.CLAIMED, None),
        ((CLAIM, entry(K.CLAIMED, "y")), Phase.CLAIMED, None),
        ((CANCEL, CLAIM), Phase.FINAL, OutcomeKind.CANCELLED),
        ((GATE_NO, CLAIM), Phase.FINAL, OutcomeKind.REFUSED),
        ((CLAIM, GATE_NO), Phase.CLAIMED, None),
        ((CLAIM, CANCEL), Phase.CLAIMED, None),
        ((CLAIM, released(0)), Phase.OPEN, None),
        ((CLAIM, CANCEL, released(0)), Phase.FINAL, OutcomeKind.CANCELLED),
        ((CLAIM, SENT, released(0)), Phase.CLAIMED, None),
        ((CLAIM, SENT, released(1)), Phase.OPEN, None),
        ((CLAIM, SENT, failed(0)), Phase.CLAIMED, None),
        ((CLAIM, SENT, failed(1)), Phase.FINAL, OutcomeKind.FAILED),
        ((CLAIM, SENT, failed(ALL_ATTEMPTS)), Phase.FINAL, OutcomeKind.FAILED),
        ((CLAIM, SENT, COMMITTED), Phase.FINAL, OutcomeKind.COMMITTED),
        ((CLAIM, SENT, DOUBT, COMMITTED), Phase.FINAL, OutcomeKind.COMMITTED),
        ((CLAIM, SENT, entry(K.IN_DOUBT, "y")), Phase.CLAIMED, None),
        ((CLAIM, DOUBT, SENT, failed(0)), Phase.FINAL, OutcomeKind.FAILED),
        ((CLAIM, DOUBT, entry(K.ATTEMPTED, "x", attempt="a2", by="recoverer"), failed(0)), Phase.IN_DOUBT, None),
        ((CLAIM, SENT, DOUBT, entry(K.RESOLVED, "x", outcome="committed")), Phase.FINAL, OutcomeKind.COMMITTED),
        ((CLAIM, SENT, DOUBT, entry(K.RESOLVED, "x", outcome="not_applied", vouches=0)), Phase.IN_DOUBT, None),
        ((CLAIM, SENT, DOUBT, entry(K.RESOLVED, "x", outcome="not_applied", vouches=1)), Phase.FINAL, OutcomeKind.NOT_APPLIED),
        ((CLAIM, SENT, entry(K.RESOLVED, "x", outcome="committed")), Phase.CLAIMED, None),
        ((CLAIM, entry(K.REFUSED, "x", code="rule_violated", vouches=0)), Phase.FINAL, OutcomeKind.REFUSED),
        ((entry(K.REFUSED, "x", code="rule_violated", vouches=0),), Phase.OPEN, None),
        ((entry(K.FINISHED, outcome="committed"),), Phase.FINAL, OutcomeKind.COMMITTED),
        ((CLAIM, entry(K.FINISHED, outcome="committed")), Phase.CLAIMED, None),
        ((entry(K.REFUSED, code="unavailable"),), Phase.OPEN, None),
        ((entry(K.REFUSED, code="idempotency_conflict"), CLAIM), Phase.CLAIMED, None),
        ((COMMITTED,), Phase.OPEN, None),
    ],
)
def test_each_rule_of_the_table(entries: tuple[LedgerEntry, ...], phase: Phase, outcome: OutcomeKind | None) -> None:
    """E1, E5, E7: what counts, in which order."""
    state = fold(*entries)
    assert state.phase is phase
    assert (state.outcome.kind if state.outcome else None) is outcome


def test_a_lost_claim_never_moves_up() -> None:
    """E5: after the winner released, the loser's old Claimed stays lost; its id is used up."""
    state = fold(CLAIM, entry(K.CLAIMED, "y"), released(0), entry(K.CLAIMED, "y"))
    assert state.phase is Phase.OPEN


def test_a_final_state_never_changes() -> None:
    """E1: the first last word wins, whoever writes later."""
    final = fold(CLAIM, SENT, COMMITTED)
    for late in (CLAIM, CANCEL, GATE_NO, failed(ALL_ATTEMPTS), DOUBT, released(1), entry(K.CLAIMED, "z")):
        assert fold_entry(final, late, 99, 0) == final


def test_a_read_is_remembered_for_ten_minutes_of_broker_time() -> None:
    """E1: a read's first answer holds for ten minutes, then the call is read afresh."""
    first = fold_entry(OPEN, entry(K.FINISHED, outcome="committed"), 0, 1_000)
    again = entry(K.FINISHED, outcome="failed", code="tool_failed")
    assert fold_entry(first, again, 1, 600_999).outcome == first.outcome
    afresh = fold_entry(first, again, 1, 601_000)
    assert afresh.outcome is not None
    assert afresh.outcome.kind is OutcomeKind.FAILED


def test_another_tool_or_other_arguments_under_one_key_conflict() -> None:
    """E2: the first entry that counts decides what the key is about."""
    state = fold(CLAIM)
    assert not conflicts(state, "refund", "d1")
    assert conflicts(state, "refund", "d2")
    assert conflicts(state, "other", "d1")
    assert not conflicts(OPEN, "refund", "d1")


def test_the_index_folds_each_offset_once_and_forgets_old_reads() -> None:
    """E1: a redelivered entry is left alone; reads leave the index after their ten minutes."""
    index = LedgerFold()

    def put(one: LedgerEntry, offset: int, time_ms: int) -> bool:
        return index.apply(Envelope(one, Position("calls.ledger", 0, offset), time_ms, "executor")).counted

    assert put(entry(K.FINISHED, outcome="committed"), 0, 0)
    assert not put(entry(K.FINISHED, outcome="committed"), 0, 0)
    assert index.state("call", 1_000).phase is Phase.FINAL
    assert index.state("call", 600_000).phase is Phase.OPEN
    beside = next(name for n in range(1_000) if partition_of((name := f"other-{n}").encode(), 12) == partition_of(b"call", 12))
    other = LedgerEntry(event_id="e", producer="p", kind=K.CLAIMED, call_id=beside, about=ABOUT, claim_id="x")
    assert put(other, 1, 1_300_000)
    assert len(index) == 1


def test_a_read_is_remembered_by_the_time_of_its_own_partition() -> None:
    """E1: a partition that was folded up to today does not make one that is still at yesterday forget; the order is no matter."""
    index = LedgerFold()
    read = entry(K.FINISHED, outcome="committed")
    elsewhere = next(name for n in range(1_000) if partition_of((name := f"far-{n}").encode(), 12) != partition_of(b"call", 12))
    later = LedgerEntry(event_id="e", producer="p", kind=K.FINISHED, call_id=elsewhere, about=ABOUT, outcome="committed")
    assert index.apply(Envelope(read, Position("calls.ledger", 0, 0), 0, "executor")).counted
    assert index.apply(Envelope(later, Position("calls.ledger", 1, 0), 86_400_000, "executor")).counted
    assert not index.apply(Envelope(read, Position("calls.ledger", 0, 1), 599_999, "executor")).counted
    assert index.apply(Envelope(read, Position("calls.ledger", 0, 2), 600_000, "executor")).counted


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_packed_call_says_what_the_whole_one_says(data: st.DataObject) -> None:
    """E1, E2: outcome, code, time, whether it is a read and which call it was outlast the packing; no id meets another's."""
    states = CallStates()
    whole: dict[str, CallState] = {}
    ids = st.sampled_from(["a", "0" * 64, "0" * 63 + "1", "f" * 64, "F" * 64, " " * 64])
    for _ in range(data.draw(st.integers(1, 6))):
        call_id, read = data.draw(ids), data.draw(st.booleans())
        kind, code = data.draw(st.sampled_from(list(OutcomeKind))), data.draw(st.sampled_from(["", *Code]))
        state = CallState(
            phase=Phase.FINAL, outcome=Outcome(kind, code), final_ms=data.draw(st.integers(0, 2**43)), read=read,
            identity=identity_of(data.draw(st.text()), "d"),
        )  # fmt: skip
        if (before := whole.get(call_id)) is None or before.read == read:  # a call does not turn from a read into a write
            states.put(call_id, state)
            whole[call_id] = state
    assert {call_id: states.get(call_id) for call_id in whole} == whole
    assert len(states) == len(whole)


CLAIMS = st.sampled_from(["x", "y"])
VOUCHES = st.sampled_from([0, 1, 2, ALL_ATTEMPTS])
ENTRIES = st.one_of(
    st.builds(lambda c: entry(K.CLAIMED, c), CLAIMS),
    st.just(CANCEL),
    st.just(GATE_NO),
    st.builds(
        lambda c, a, by: entry(K.ATTEMPTED, c, attempt=a, by=by),
        CLAIMS, st.sampled_from(["a1", "a2", "a3"]), st.sampled_from(["holder", "recoverer"]),
    ),
    st.builds(lambda c, n: entry(K.RELEASED, c, vouches=n), CLAIMS, VOUCHES),
    st.builds(lambda c, n: entry(K.REFUSED, c, vouches=n, code="rule_violated"), CLAIMS, VOUCHES),
    st.builds(lambda c: entry(K.FINISHED, c, outcome="committed"), CLAIMS),
    st.builds(lambda c, n: entry(K.FINISHED, c, outcome="failed", vouches=n, code="tool_failed"), CLAIMS, VOUCHES),
    st.builds(lambda c: entry(K.IN_DOUBT, c), CLAIMS),
    st.builds(lambda c: entry(K.RESOLVED, c, outcome="committed"), CLAIMS),
    st.builds(lambda c, n: entry(K.RESOLVED, c, outcome="not_applied", vouches=n), CLAIMS, st.sampled_from([0, 1, 2])),
    st.sampled_from([entry(K.PENDING), entry(K.REPLAYED), entry(K.BARRIER)]),
)  # fmt: skip


SENDS = st.builds(
    lambda attempt, by: entry(K.ATTEMPTED, "x", attempt=attempt, by=by),
    st.sampled_from(["a1", "a2", "a3"]), st.sampled_from(["holder", "holder", "recoverer"]),
)  # fmt: skip
ENDS = st.builds(
    lambda kind, n: entry(kind, "x", vouches=n, outcome="not_applied" if kind is K.RESOLVED else "failed", code="rule_violated"),
    st.sampled_from([K.FINISHED, K.REFUSED, K.RELEASED, K.RESOLVED]), st.sampled_from([0, 1, 1, 2]),
)  # fmt: skip
LATER = st.sampled_from([SENDS, SENDS, ENDS, ENTRIES]).flatmap(lambda kind: kind)
LIVES = st.lists(ENTRIES, max_size=14) | st.lists(LATER, max_size=14).map(lambda later: [CLAIM, *later])
"""Any entries; and those of a claim that is attempted and ends by the number of its attempts, which is rare among them."""


@settings(max_examples=2_000, deadline=None)
@given(LIVES)
def test_the_fold_agrees_with_the_reference_model(entries: list[LedgerEntry]) -> None:
    """E1, E5: the same entries give the same state as the model that was searched exhaustively."""
    spec = shared_module("model/spec.py")
    ours, theirs = OPEN, spec.Call()
    for at, one in enumerate(entries):
        before, ours = ours, fold_entry(ours, one, at, 0)
        assert (ours is before) == (ours == before)
        theirs = spec.ledger(theirs, {
            "kind": one.kind.value, "claim": one.claim_id or None, "at": at, "code": one.code, "attempt": one.attempt,
            "by": one.by, "outcome": one.outcome, "accounts": spec.ALL if one.vouches == ALL_ATTEMPTS else one.vouches,
        })  # fmt: skip
        assert ours.phase.value == theirs.state
        assert (ours.claim_id or None) == theirs.claim or ours.phase is Phase.FINAL
        assert ours.fence == theirs.fence
        if ours.phase is not Phase.FINAL:
            assert ours.attempts == theirs.attempts
            assert ours.stop == theirs.stop
        assert (ours.outcome.kind.value if ours.outcome else None) == (theirs.outcome[0] if theirs.outcome else None)


def received(one: LedgerEntry, offset: int, valid: bool) -> Received:
    """As the broker gives it; one that is not valid has another mac."""
    topic, key, value = writer(min(writers_of("calls.ledger", one))).encode(one)
    if not valid:
        value = value[:-1] + bytes([value[-1] ^ 1])
    return Received(Position(topic, partition_of(key, 12), offset), offset * 1_000, key, value)


@settings(max_examples=300, deadline=None)
@given(LIVES, st.data())
def test_a_fold_that_leaves_attempts_unread_knows_what_one_that_reads_everything_knows(
    entries: list[LedgerEntry], data: st.DataObject
) -> None:
    """E1, E5: whatever is forged among it, and whenever somebody looks."""
    reading, whole, brief = opener(), LedgerFold(), LedgerFold()
    for offset, one in enumerate(entries):
        valid, looks = data.draw(st.sampled_from([*[True] * 7, False])), data.draw(st.sampled_from([*[False] * 5, True]))
        record = received(one, offset, valid)
        for fold, opened in ((whole, reading.open), (brief, reading.open_if_needed)):
            try:
                fold.apply(opened(record))
            except Poison:
                assert not valid
        if looks:
            assert brief.state("call") == whole.state("call")
    assert sorted(brief.items()) == sorted(whole.items())


def test_an_attempt_of_what_was_committed_is_not_read_and_many_do_not_fill_the_memory() -> None:
    """E1: what a cold fold saves; and forged attempts are looked at before they are many."""
    reading, fold, opened = opener(), LedgerFold(), 0

    def counting(record: Received) -> Envelope:
        nonlocal opened
        opened += 1
        return reading.open_briefly(record)

    def put(one: LedgerEntry, offset: int, valid: bool = True) -> None:
        envelope = reading.open_if_needed(received(one, offset, valid))
        if type(envelope.record) is UnreadAttempt:
            unread = envelope.record._replace(opener=counting)
            envelope = Envelope(unread, envelope.position, envelope.time_ms, envelope.writer)
        fold.apply(envelope)

    put(CLAIM, 0)
    put(SENT, 1)
    put(COMMITTED, 2)
    assert (opened, fold.state("call").phase) == (0, Phase.FINAL)
    put(SENT, 3)
    assert (opened, fold.state("call").phase) == (0, Phase.FINAL)
    fold = LedgerFold()
    put(CLAIM, 0)
    for offset in range(1, 101):
        put(SENT, offset, valid=False)
    assert opened >= 90
    assert fold.state("call").attempts == frozenset()
