"""What each entry of a call's life tells, by what the fold says of it."""

from __future__ import annotations

from typing import Any

import pytest

from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.parts import CallRef
from fourgates.gates.answers import Told, What, answer_of
from fourgates.gates.ledger import OPEN, CallState, fold_entry

K = LedgerKind
ABOUT = CallRef(tenant="acme", run_id="r", tool_call_id="t", subject="anna", agent="bot", tool="pay")


def entry(kind: LedgerKind, **fields: Any) -> LedgerEntry:
    return LedgerEntry(event_id=repr((kind, fields)), producer="p", kind=kind, call_id="c", about=ABOUT, **fields)


def told_by(*entries: LedgerEntry, at_ms: int = 1_000) -> Told | None:
    """What the last entry tells after the others."""
    state: CallState = OPEN
    told = None
    for offset, each in enumerate(entries):
        before = OPEN if state.forgotten(at_ms) else state
        state = fold_entry(state, each, offset, at_ms)
        told = answer_of(before, state, each)
    return told


CLAIMED = entry(K.CLAIMED, claim_id="x")
DOUBT = entry(K.IN_DOUBT, claim_id="x", code="in_doubt", reason="timeout")
DONE = entry(K.FINISHED, claim_id="x", outcome="committed")
REFUSED = entry(K.REFUSED, code="rule_violated", reason="limit", sentence="Too much.", field="/cents")
CANCEL = entry(K.CANCELLED)


@pytest.mark.parametrize(
    ("entries", "code", "reason"),
    [
        ([REFUSED], Code.RULE_VIOLATED, "limit"),
        ([CANCEL], Code.CANCELLED, ""),
        ([CLAIMED, DONE], Code.OK, ""),
        ([CLAIMED, DOUBT, DONE], Code.OK, ""),
        ([entry(K.FINISHED, outcome="committed")], Code.OK, ""),
        ([entry(K.FINISHED, outcome="failed", code="internal", reason="undeclared")], Code.INTERNAL, "undeclared"),
        ([CLAIMED, entry(K.FINISHED, claim_id="x", outcome="failed", vouches=0, code="tool_failed", reason="declined")],
         Code.TOOL_FAILED, "declined"),
        ([CLAIMED, entry(K.REFUSED, claim_id="x", vouches=0, code="tool_disabled")], Code.TOOL_DISABLED, ""),
        ([CLAIMED, CANCEL, entry(K.RELEASED, claim_id="x", vouches=0)], Code.CANCELLED, ""),
        ([CLAIMED, DOUBT, entry(K.RESOLVED, claim_id="x", outcome="committed")], Code.OK, "resolved"),
        ([CLAIMED, DOUBT, entry(K.RESOLVED, claim_id="x", outcome="not_applied", vouches=0)], Code.TOOL_FAILED, "not_applied"),
    ],
)  # fmt: skip
def test_the_entry_that_ends_a_call_gives_its_first_answer(entries: list[LedgerEntry], code: Code, reason: str) -> None:
    """E1, E6"""
    told = told_by(*entries)
    assert told is not None
    assert (told.what, told.code, told.reason) == (What.FIRST, code, reason)
    assert told.with_content == (entries[-1].kind is K.FINISHED and code is Code.OK)
    assert CODES[told.code].final


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([entry(K.REFUSED, code="unavailable")], Code.UNAVAILABLE),
        ([entry(K.REFUSED, code="idempotency_conflict")], Code.IDEMPOTENCY_CONFLICT),
        ([CLAIMED, DONE, entry(K.REFUSED, code="idempotency_conflict")], Code.IDEMPOTENCY_CONFLICT),
        ([CLAIMED, entry(K.REFUSED, code="identity_invalid")], Code.IDENTITY_INVALID),
        ([CLAIMED, entry(K.RELEASED, claim_id="x", vouches=0, code="audit_unavailable")], Code.AUDIT_UNAVAILABLE),
        ([entry(K.PENDING, hold_id="h")], Code.APPROVAL_PENDING),
        ([CLAIMED, DOUBT], Code.IN_DOUBT),
        ([CLAIMED, DOUBT, DOUBT], Code.IN_DOUBT),
        ([CLAIMED, DOUBT, entry(K.REPLAYED)], Code.IN_DOUBT),
        ([CLAIMED, DOUBT, REFUSED], Code.IN_DOUBT),
        ([CLAIMED, CANCEL], Code.CANCEL_TOO_LATE),
        ([CLAIMED, CANCEL, CANCEL], Code.CANCEL_TOO_LATE),
        ([CLAIMED, DOUBT, CANCEL], Code.CANCEL_TOO_LATE),
    ],
)
def test_a_word_that_does_not_end_the_call_is_passed_on(entries: list[LedgerEntry], code: Code) -> None:
    """E2, E6, E7"""
    told = told_by(*entries)
    assert told is not None
    assert (told.what, told.code) == (What.PASSING, code)
    assert not CODES[told.code].final


@pytest.mark.parametrize("last", [REFUSED, CANCEL, DONE, entry(K.REPLAYED), entry(K.REFUSED, code="unavailable")])
@pytest.mark.parametrize("first", [[CLAIMED, DONE], [entry(K.REFUSED, code="permission_denied")], [CANCEL]])
def test_a_later_last_word_asks_for_the_first_answer_again(first: list[LedgerEntry], last: LedgerEntry) -> None:
    """E1"""
    told = told_by(*first, last)
    assert told is not None
    assert told.what is What.AGAIN


@pytest.mark.parametrize(
    "entries",
    [
        [CLAIMED],
        [entry(K.BARRIER)],
        [CLAIMED, entry(K.ATTEMPTED, claim_id="x", attempt="1", by="holder")],
        [CLAIMED, REFUSED],
        [CLAIMED, entry(K.REFUSED, code="unavailable")],
        [CLAIMED, entry(K.PENDING)],
        [CLAIMED, DOUBT, entry(K.PENDING)],
        [CLAIMED, entry(K.REPLAYED)],
        [CLAIMED, entry(K.IN_DOUBT, claim_id="y")],
        [CLAIMED, entry(K.FINISHED, claim_id="y", outcome="committed")],
        [CLAIMED, entry(K.FINISHED, outcome="committed")],
        [CLAIMED, entry(K.RELEASED, claim_id="x", vouches=0)],
        [entry(K.RELEASED, claim_id="x", vouches=0, code="unavailable")],
        [CLAIMED, DONE, entry(K.PENDING)],
        [CLAIMED, DONE, DOUBT],
        [CLAIMED, DONE, entry(K.CLAIMED, claim_id="y")],
        [entry(K.REPLAYED)],
        [DOUBT],
        [entry(K.RESOLVED, claim_id="x", outcome="committed")],
    ],
)
def test_a_void_entry_tells_nothing(entries: list[LedgerEntry]) -> None:
    """E1, P6"""
    assert told_by(*entries) is None


def test_another_calls_answer_is_named() -> None:
    """E4"""
    released = entry(K.RELEASED, claim_id="x", vouches=0)
    told = told_by(CLAIMED, released, entry(K.REPLAYED, detail='{"answers": "c-1"}'))
    assert told == Told(What.OTHERS, Code.OK, answers="c-1")
    ended = entry(K.REFUSED, claim_id="x", vouches=0, code="duplicate_effect", detail='{"answers": "c-1"}')
    told = told_by(CLAIMED, ended)
    assert told is not None
    assert (told.what, told.code, told.answers) == (What.OTHERS, Code.DUPLICATE_EFFECT, "c-1")
    again = told_by(CLAIMED, ended, entry(K.REPLAYED))
    assert again is not None
    assert (again.what, again.code) == (What.AGAIN, Code.DUPLICATE_EFFECT)


@pytest.mark.parametrize("code", [c for c in Code if not CODES[c].final or c is Code.OK])
def test_an_end_whose_code_does_not_end_a_call_still_ends_it(code: Code) -> None:
    """E1"""
    told = told_by(CLAIMED, entry(K.FINISHED, claim_id="x", outcome="failed", vouches=0, code=code.value))
    assert told is not None
    assert told.code is Code.TOOL_FAILED
