"""The roll-up of calls: what it says is what the records say, however often they come and whenever it was made."""

from __future__ import annotations

import random
import time

import pytest

from support.auditing import Engine
from support.stories import Life, Tape, good_stories

pytestmark = pytest.mark.engine

DAY_MS = 86_400_000
SHARED = (
    "call_id, tenant, agent, run_id, tool, tool_version, risk, asked_at, day, validated, cleared, duration_ms, decided, reason,"
    " answered_at, latency_ms, phase, outcome, outcome_code, attempts, claims, releases, replays, claimed_at, ended_at, ran,"
    " code, status, attributed_to"
)
"""Columns that `call_facts` and `calls` have in common."""


def lives(tape: Tape, dice: random.Random, count: int) -> None:
    """Calls that take any steps in any order."""
    for number in range(count):
        life = Life(tape, f"life-{number}")
        steps = [
            life.asked, life.validated, life.held, life.cleared, life.claimed, life.attempted, life.released, life.finished,
            life.in_doubt, life.cancelled, life.told, lambda life=life: life.resolved(dice.choice(["committed", "not_applied"])),
            lambda life=life: life.finished("failed", vouches=dice.choice([None, -1, 0, 1, 2])),
        ]  # fmt: skip
        life.validated()
        if dice.random() < 0.3:  # else most lives would be folded
            life.claimed()
            life.attempted()
            steps = [life.attempted, life.told, *([life.finished, life.told] if dice.random() < 0.5 else steps[-1:])]
        for _ in range(dice.randrange(8)):
            dice.choice(steps)()
            tape.now_ms += dice.choice([0, 0, 0, 700_000])


def test_it_says_of_every_call_what_its_records_say(engine: Engine) -> None:
    """L4: whatever happened to it."""
    seed = random.SystemRandom().randrange(2**32)
    tape = Tape()
    good_stories(tape)
    lives(tape, random.Random(seed), 300)
    engine.take(tape.received)
    facts = engine.ask(f"SELECT {SHARED} FROM fourgates.call_facts ORDER BY call_id")
    calls = engine.ask(f"SELECT {SHARED} FROM fourgates.calls ORDER BY call_id")
    differing = [(one, other) for one, other in zip(facts, calls, strict=True) if one != other]
    assert not differing, f"seed {seed}: {differing[:2]}"


def test_batches_that_come_twice_in_parts_and_in_disorder_change_nothing(engine: Engine) -> None:
    """L2, L4: sets and extremes do not over-count."""
    dice, tape = random.Random(7), Tape()
    good_stories(tape)
    lives(tape, dice, 40)
    engine.take(tape.received)
    once = engine.ask("SELECT * FROM fourgates.call_facts ORDER BY call_id")
    for _ in range(4):
        engine.take(dice.sample(tape.received, dice.randrange(1, len(tape.received))))
    assert engine.ask("SELECT * FROM fourgates.call_facts ORDER BY call_id") == once, "in parts that are not merged yet"
    engine.store.command("OPTIMIZE TABLE fourgates.call_rollup FINAL")
    assert engine.ask("SELECT * FROM fourgates.call_facts ORDER BY call_id") == once


def test_it_keeps_nothing_that_somebody_said_or_is(engine: Engine) -> None:
    """L8: erasing the records' words and names is enough."""
    tape = Tape()
    life = Life(tape, "words", arguments={"order_id": "A-1001", "note": "by-the-blue-door"})
    life.asked()
    life.validated()
    life.held()
    life.shown()
    life.decided("approve", "fiona", "looks-right-to-me")
    life.told(content="left-at-the-blue-door")
    engine.take(tape.received)
    (row,) = engine.ask("SELECT toString(tuple(*)) AS all FROM fourgates.call_rollup FINAL")
    for word in ("blue-door", "looks-right", "anna", "fiona"):
        assert word not in row["all"]


def test_what_is_older_than_400_days_goes(engine: Engine) -> None:
    """L8: from the records and from the roll-up."""
    now_ms = time.time_ns() // 1_000_000
    old, young = Tape(now_ms - 401 * DAY_MS), Tape(now_ms - 399 * DAY_MS)
    Life(old, "old").validated()
    kept = Life(young, "young")
    kept.validated()
    engine.take([*old.received, *young.received])
    for table in ("events", "call_rollup"):
        engine.store.command(f"OPTIMIZE TABLE fourgates.{table} FINAL")
        assert engine.ask(f"SELECT call_id FROM fourgates.{table}") == [{"call_id": kept.call_id}]
