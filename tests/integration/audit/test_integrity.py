"""The integrity queries: silent on good stories, and each finds the violation that is its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from fourgates.audit.integrity import CHECKS, Finding, run_integrity
from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Risk
from support.auditing import Engine
from support.stories import Life, Tape, a_read, a_waived_write, an_approved_write, good_stories

pytestmark = pytest.mark.engine


def findings(engine: Engine, tape: Tape) -> dict[str, list[dict[str, Any]]]:
    """What each check found, of everything on the tape."""
    engine.take(tape.received)
    found: list[Finding] = run_integrity(engine.store.query, tape.now_ms + 1, younger_than=0)
    assert [finding.name for finding in found] == [check.name for check in CHECKS]
    return {finding.name: list(finding.rows) for finding in found if finding.rows}


def test_good_stories_leave_every_check_without_rows(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    assert findings(engine, tape) == {}


def test_a_batch_that_came_twice_is_no_finding(engine: Engine) -> None:
    """L6, L2."""
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    assert findings(engine, tape) == {}


def _never_cleared(tape: Tape) -> None:
    life = Life(tape)
    life.asked()
    life.validated()
    life.claimed()
    life.attempted()
    life.finished()


def _held_and_run_without_a_yes(tape: Tape) -> None:
    life = Life(tape)
    life.asked()
    life.validated()
    life.held()
    life.shown()
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    life.finished()


def _approved_after_it_ran(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.held()
    life.shown()
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    tape.now_ms += 5_000
    life.decided("approve", "fiona")
    life.finished()


def _approved_by_too_few(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.held(quorum=2)
    life.shown()
    life.decided("approve", "fiona")
    life.decided("approve", "fiona")
    life.cleared("fiona", "fiona")
    life.claimed("fiona", "fiona")
    life.attempted()
    life.finished()


def _approved_by_who_asked(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.held()
    life.shown()
    life.decided("approve", life.call.principal.person)
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    life.finished()


def _sent_without_a_claim(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claim_id = "f" * 32
    life.attempted()


def _read_without_the_yes_that_it_needed(tape: Tape) -> None:
    life = Life(tape, tool="read_order", risk=Risk.READ)
    life.validated()
    life.held()
    life.cleared("fiona")
    life.finished(claim_id="")


@pytest.mark.parametrize(
    "violation",
    [
        _never_cleared, _held_and_run_without_a_yes, _approved_after_it_ran, _approved_by_too_few, _approved_by_who_asked,
        _sent_without_a_claim, _read_without_the_yes_that_it_needed,
    ],
)  # fmt: skip
def test_what_ran_without_approval_is_found(engine: Engine, violation: Callable[[Tape], None]) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    violation(tape)
    found = findings(engine, tape)
    assert len(found["ran_without_approval"]) == 1


def test_what_was_approved_but_never_ran_is_found(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    life = Life(tape)
    life.validated()
    life.held()
    life.shown()
    life.decided("approve", "fiona")
    life.cleared("fiona")
    found = findings(engine, tape)
    assert [row["call_id"] for row in found.pop("approved_but_never_ran")] == [life.call_id]
    assert found == {}


def test_what_was_approved_and_then_refused_is_no_finding(engine: Engine) -> None:
    """L6: the executor may still say no, with its reason."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.held()
    life.shown()
    life.decided("approve", "fiona")
    life.cleared("fiona")
    life.claimed("fiona")
    life.refused("executor", Code.APPROVAL_EFFECT_CHANGED, "after", claim_id=life.claim_id, vouches=0)
    assert findings(engine, tape) == {}


def test_a_claim_without_an_end_is_found(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    found = findings(engine, tape)
    assert [(row["call_id"], row["phase"]) for row in found.pop("claimed_without_an_end")] == [(life.call_id, "claimed")]
    assert found == {}


def test_a_doubt_that_nobody_was_asked_about_is_found(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    life.in_doubt()
    found = findings(engine, tape)
    assert [row["phase"] for row in found.pop("claimed_without_an_end")] == ["in_doubt"]
    assert found == {}


@pytest.mark.parametrize(
    ("change", "differs"),
    [({"args_digest": "e" * 64}, ["arguments"]), ({"tool_version": "w" * 64}, ["tool_version"])],
)
def test_what_was_shown_and_is_not_what_was_claimed_is_found(engine: Engine, change: dict[str, str], differs: list[str]) -> None:
    """L6, A3."""
    tape = Tape()
    good_stories(tape)
    life = Life(tape)
    life.validated()
    life.held()
    life.shown()
    life.decided("approve", "fiona")
    life.cleared("fiona")
    life.claimed("fiona", call=dataclasses.replace(life.call, **change))
    life.attempted()
    life.finished()
    found = findings(engine, tape)
    assert [row["differs"] for row in found.pop("shown_differs_from_executed")] == [differs]
    assert found == {}


def test_an_effect_other_than_the_one_shown_is_found(engine: Engine) -> None:
    """L6, A3."""
    tape = Tape()
    life = an_approved_write(tape)
    verdicts = tuple(
        dataclasses.replace(v, preview_digest="0" * 64 if v.preview_digest else "") for v in life._verdicts(("fiona",))
    )
    life.claimed("fiona", verdicts=verdicts)
    found = findings(engine, tape)
    assert [row["differs"] for row in found["shown_differs_from_executed"]] == [["effect"]]


def test_missing_offsets_are_found_with_their_place(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    for number in range(40):
        a_read(tape, f"before-{number}")
    tape.lose("calls.ledger")
    for number in range(40):
        a_read(tape, f"after-{number}")
    found = findings(engine, tape)
    rows = found.pop("offsets_missing")
    assert found == {}
    assert {row["topic"] for row in rows} == {"calls.ledger"}
    assert all(row["missing"] == 1 for row in rows)
    assert len(rows) >= 6


def test_two_different_final_answers_are_found(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    life = a_waived_write(tape, "twice")
    life.told(content="something else")
    found = findings(engine, tape)
    assert [row["call_id"] for row in found.pop("two_final_answers")] == [life.call_id]
    assert found == {}


def test_the_same_final_answer_again_is_no_finding(engine: Engine) -> None:
    """L6, E1."""
    tape = Tape()
    a_waived_write(tape).told()
    assert findings(engine, tape) == {}


@pytest.mark.parametrize(("minutes", "found"), [(5, True), (11, False)])
def test_a_read_may_answer_otherwise_after_ten_minutes(engine: Engine, minutes: int, found: bool) -> None:
    """L6, E1."""
    tape = Tape()
    life = a_read(tape)
    tape.now_ms += minutes * 60_000
    life.finished(claim_id="")
    life.told(content="another state of the world")
    assert ("two_final_answers" in findings(engine, tape)) is found


def test_younger_calls_are_left_out(engine: Engine) -> None:
    """L6: a call under way is no violation."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    engine.take(tape.received)
    young = run_integrity(engine.store.query, tape.now_ms + 60_000, younger_than=3_600)
    old = run_integrity(engine.store.query, tape.now_ms + 3_700_000, younger_than=3_600)
    assert [finding.name for finding in young if finding.rows] == []
    assert [finding.name for finding in old if finding.rows] == ["claimed_without_an_end"]


def test_a_near_duplicate_hold_that_was_denied_and_ran_anyway_is_found(engine: Engine) -> None:
    """L6, E4."""
    tape = Tape()
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.released(Code.DUPLICATE_EFFECT)
    life.held(HoldReason.NEAR_DUPLICATE)
    life.shown()
    life.decided("deny", "fiona")
    life.claimed("fiona")
    life.attempted()
    life.finished()
    assert len(findings(engine, tape)["ran_without_approval"]) == 1
