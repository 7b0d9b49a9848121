"""The integrity queries: silent on good stories, and each finds the violation that is its own."""

from __future__ import annotations

from typing import Any

import pytest

from fourgates.audit.integrity import CHECKS, Finding, run_integrity
from fourgates.contract.codes import Code
from support.auditing import Engine
from support.planting import PLANTS, Plant, a_preview_that_was_right
from support.stories import Life, Tape, a_read, a_waived_write, good_stories

pytestmark = pytest.mark.engine


def findings(engine: Engine, tape: Tape, plant: Plant | None = None) -> dict[str, list[dict[str, Any]]]:
    """What each check found, of everything on the tape."""
    engine.take(tape.received)
    if plant is not None:
        plant.spoil(engine, tape)
    found: list[Finding] = run_integrity(engine.store.query, tape.now_ms + 1, younger_than=0)
    assert [finding.name for finding in found] == [check.name for check in CHECKS]
    return {finding.name: list(finding.rows) for finding in found if finding.rows}


def test_every_query_has_a_violation_of_its_own() -> None:
    """L6: one of each kind is planted."""
    assert {plant.check for plant in PLANTS} == {check.name for check in CHECKS}


def test_good_stories_leave_every_check_without_rows(engine: Engine) -> None:
    """L6."""
    tape = Tape()
    good_stories(tape)
    assert findings(engine, tape) == {}


def test_a_preview_that_was_right_is_no_finding(engine: Engine) -> None:
    """L6, A2."""
    tape = Tape()
    a_preview_that_was_right(tape)
    assert findings(engine, tape) == {}


def test_a_batch_that_came_twice_is_no_finding(engine: Engine) -> None:
    """L6, L2."""
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    assert findings(engine, tape) == {}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_planted_violation_is_found_by_its_query(engine: Engine, plant: Plant) -> None:
    """L6: one of each kind, among good calls."""
    tape = Tape()
    good_stories(tape)
    plant.plant(tape)
    assert set(findings(engine, tape, plant)) == {plant.check}


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
