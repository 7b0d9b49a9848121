"""The six reports over the views: every call counted where it belongs, on the embedded engine."""

from __future__ import annotations

import pytest

from fourgates.audit.attribution import PARTY_OF
from fourgates.audit.durations import approvals, latency
from fourgates.audit.page import page
from fourgates.audit.report import By, refusals, success
from fourgates.audit.tables import REPORTS
from fourgates.audit.troubles import in_doubt, open_doubts, retries
from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Risk
from support.auditing import Engine
from support.busy_days import busy_days
from support.stories import Life, Tape, a_denied_write, a_doubt, a_read, a_waived_write, an_approved_write, good_stories

pytestmark = pytest.mark.engine


def test_attribution_in_the_store_is_the_one_of_the_code(engine: Engine) -> None:
    """L4."""
    rows = engine.ask("SELECT code, attributed_to FROM fourgates.attribution WHERE code != 'ok'")
    assert {row["code"]: row["attributed_to"] for row in rows} == {str(code): str(party) for code, party in PARTY_OF.items()}


def test_approvals_are_counted_by_what_became_of_them(engine: Engine) -> None:
    """L4, A5: approval times."""
    tape = Tape()
    an_approved_write(tape)
    a_denied_write(tape)
    expired = Life(tape, "expired")
    expired.validated()
    expired.held(expires_ms=tape.now_ms + 5)
    expired.shown()
    expired.expired()
    waiting = Life(tape, "waiting")
    waiting.validated()
    waiting.held()
    waiting.shown()
    a_doubt(tape)
    engine.take(tape.received)
    [finance] = approvals(engine.store.query)
    assert (finance.key, finance.asked, finance.approved, finance.denied, finance.expired, finance.open) == (
        "finance",
        5,
        1,
        1,
        1,
        2,
    )
    assert finance.decided == 2
    assert finance.p50_waited_ms is not None
    assert finance.p95_waited_ms is None, "two waits have no 95 % quantile"
    assert [one.key for one in approvals(engine.store.query, By.TENANT)] == ["acme"]


def test_latencies_of_few_calls_have_no_high_quantile(engine: Engine) -> None:
    """L4."""
    tape = Tape()
    for number in range(25):
        a_read(tape, f"read-{number}")
    an_approved_write(tape)
    engine.take(tape.received)
    reads, writes = latency(engine.store.query)
    assert (reads.key, reads.decided, reads.p50_ms, reads.p95_ms, reads.p99_ms) == ("read_order", 25, 40, 40, None)
    assert (writes.decided, writes.p95_ms) == (1, None)
    assert writes.p50_ms is not None
    assert writes.p50_ms_without_people is not None
    assert writes.p50_ms_without_people < writes.p50_ms


def test_retries_say_how_many_recovered(engine: Engine) -> None:
    """L4."""
    tape = Tape()
    a_waived_write(tape)
    for outcome in ("committed", "failed"):
        life = Life(tape, outcome)
        life.validated()
        life.cleared()
        life.claimed()
        life.released()
        life.claimed()
        for attempt in ("a1", "a2", "a3"):
            life.attempted(attempt)
        life.finished(outcome, vouches=3, code="" if outcome == "committed" else Code.TOOL_FAILED.value)
        life.told(Code.OK if outcome == "committed" else Code.TOOL_FAILED, None)
    engine.take(tape.received)
    [row] = retries(engine.store.query)
    assert (row.ran, row.retried, row.recovered, row.attempts, row.most_attempts, row.released) == (3, 2, 1, 7, 3, 2)


def test_doubts_say_how_they_ended_and_which_are_open(engine: Engine) -> None:
    """L4, E6."""
    tape = Tape()
    open_one = a_doubt(tape, "open")
    for verdict in ("committed", "not_applied"):
        life = Life(tape, verdict)
        life.validated()
        life.cleared()
        life.claimed()
        life.attempted()
        life.in_doubt()
        life.held(HoldReason.IN_DOUBT)
        life.shown()
        life.decided(verdict, "fiona")
        life.resolved(verdict)
    a_read(tape)
    engine.take(tape.received)
    [row] = in_doubt(engine.store.query)
    assert (row.ran, row.doubted, row.open, row.found, row.committed, row.not_applied) == (3, 3, 1, 0, 1, 1)
    assert row.p50_open_ms is not None
    assert [one.call_id for one in open_doubts(engine.store.query)] == [open_one.call_id]


def test_what_began_before_is_left_out(engine: Engine) -> None:
    """L4: --since."""
    tape = Tape()
    good_stories(tape)
    start = tape.now_ms
    tape.now_ms += 86_400_000
    Life(tape, "later", tool="read_order", risk=Risk.READ).validated()
    engine.take(tape.received)
    assert [(row.key, row.asked) for row in success(engine.store.query, By.TOOL, start)] == [("read_order", 1)]
    assert [row.asked for row in success(engine.store.query, By.DAY)] == [6, 1]
    assert refusals(engine.store.query, By.TOOL, start) == []
    assert all(report.ask(engine.store.query, report.default_by, tape.now_ms + 1) == [] for report in REPORTS.values())


def test_every_way_of_counting_gives_the_same_sum(engine: Engine) -> None:
    """L4: by tool, version, agent, tenant and day; and the page draws all of it."""
    tape = busy_days(150)
    engine.take(tape.received)
    sums = {
        name: {by: sum(getattr(row, field) for row in REPORTS[name].ask(engine.store.query, by, 0)) for by in REPORTS[name].by}
        for name, field in {"success": "asked", "refusals": "calls", "approvals": "asked", "latency": "decided", "retries": "ran",
                            "in-doubt": "ran"}.items()
    }  # fmt: skip
    assert {name: len(set(found.values())) for name, found in sums.items()} == dict.fromkeys(REPORTS, 1), sums
    assert sums["success"]["tool"] == 150
    drawn = page(engine.store.query, list(REPORTS), None, 0, tape.now_ms)
    assert drawn.count("<svg") > 12
    assert "NaN" not in drawn
