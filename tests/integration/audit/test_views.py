"""The views: one row per call with what was asked, why it was allowed and what happened; rates with named denominators."""

from __future__ import annotations

from typing import Any

import pytest

from fourgates.audit.report import By, refusals, success
from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from support.auditing import Engine
from support.stories import Life, Tape, a_denied_write, a_doubt, a_misspelt_call, a_read, a_waived_write, an_approved_write

pytestmark = pytest.mark.engine


def call_row(engine: Engine, life: Life) -> dict[str, Any]:
    (row,) = engine.ask("SELECT * FROM fourgates.calls WHERE call_id = {call_id:String}", call_id=life.call_id)
    return row


def test_a_call_says_who_asked_for_what_why_it_was_allowed_and_what_happened(engine: Engine) -> None:
    """L1."""
    tape = Tape()
    life = an_approved_write(tape)
    engine.take(tape.received)
    row = call_row(engine, life)
    expected = {
        "tenant": "acme", "subject": "anna", "agent": "support-bot", "run_id": life.call.run_id, "tool_call_id": "approved-1",
        "tool": "refund_order", "tool_version": life.call.tool_version, "risk": "write", "arguments": life.call.arguments,
        "rules": ["own_order"], "policies": ["support-may-refund"], "policies_digest": "abc", "approvers": ["fiona"],
        "hold_reasons": ["risk"], "hold_states": ["approved"], "claims": 1, "attempts": 1, "ran": 1, "duration_ms": 40,
        "code": "ok", "status": "succeeded", "outcome": "committed", "output_bytes": 8, "truncated": False,
        "state_change": '{"refunded":5}', "attributed_to": "",
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["args_digest"] not in ("", life.call.args_digest)
    assert row["latency_ms"] > row["waited_ms"] > 0


def test_success_has_named_denominators(engine: Engine) -> None:
    """L4."""
    tape = Tape()
    for number in range(3):
        a_waived_write(tape, f"write-{number}")
    a_denied_write(tape)
    a_misspelt_call(tape)
    a_doubt(tape)
    a_read(tape)
    failed = Life(tape, "failed")
    failed.validated()
    failed.cleared()
    failed.claimed()
    failed.attempted()
    failed.finished("failed", code=Code.TOOL_FAILED.value, reason="no_such_order", vouches=1)
    failed.told(Code.TOOL_FAILED, None)
    waiting = Life(tape, "waiting")
    waiting.validated()
    waiting.held()
    engine.take(tape.received)
    writes, reads = success(engine.store.query, By.TOOL)
    assert (writes.key, writes.asked, writes.allowed, writes.ran, writes.decided) == ("refund_order", 8, 5, 5, 6)
    assert (writes.succeeded, writes.failed, writes.refused, writes.in_doubt, writes.open) == (3, 1, 2, 1, 1)
    assert (writes.of_asked, writes.of_decided, writes.of_ran) == (3 / 8, 3 / 6, 3 / 5)
    assert (reads.key, reads.asked, reads.of_ran) == ("read_order", 1, 1.0)
    assert [row.key for row in success(engine.store.query, By.TENANT)] == ["acme"]
    assert [row.asked for row in success(engine.store.query, By.DAY)] == [9]
    assert [row.asked for row in success(engine.store.query, By.AGENT)] == [9]
    assert [row.asked for row in success(engine.store.query, By.VERSION)] == [8, 1]
    by_tool = engine.ask("SELECT tool, asked, succeeded_of_ran FROM fourgates.success_by_tool ORDER BY tool")
    assert by_tool[1] == {"tool": "refund_order", "asked": 8, "succeeded_of_ran": 3 / 5}


def test_a_request_that_proved_nothing_is_no_call(engine: Engine) -> None:
    """L4: whoever can write to the topic must not be able to spoil the rates."""
    tape = Tape()
    Life(tape, "forged").asked()
    engine.take(tape.received)
    assert success(engine.store.query) == []
    assert engine.one("SELECT count() FROM fourgates.records") == 1


def test_refusals_are_counted_by_code_and_attributed(engine: Engine) -> None:
    """L4."""
    tape = Tape()
    a_misspelt_call(tape, "m1")
    a_misspelt_call(tape, "m2")
    a_denied_write(tape)
    engine.take(tape.received)
    assert [(r.code, r.attributed_to, r.reason, r.calls) for r in refusals(engine.store.query)] == [
        ("invalid_arguments", "model", "unknown_field", 2),
        ("approval_denied", "approver", "", 1),
    ]


def test_every_code_is_attributed(engine: Engine) -> None:
    """L4."""
    rows = {row["code"]: row["attributed_to"] for row in engine.ask("SELECT code, attributed_to FROM fourgates.attribution")}
    assert set(rows) == {code.value for code in Code}
    assert set(rows.values()) == {"", "model", "host", "rule_or_policy", "approver", "tool", "downstream", "us"}
    assert [code for code, who in rows.items() if not who] == ["ok"]


def test_retries_doubts_and_approval_times_have_their_views(engine: Engine) -> None:
    """L4."""
    tape = Tape()
    an_approved_write(tape)
    doubt = a_doubt(tape)
    doubt.decided("committed", "fiona")
    doubt.resolution("committed", "fiona")
    doubt.resolved("committed")
    doubt.told()
    again = Life(tape, "again")
    again.validated()
    again.cleared()
    again.claimed()
    again.released()
    again.claimed()
    again.attempted("a1")
    again.attempted("a2")
    again.finished()
    again.told()
    engine.take(tape.received)
    (retried,) = engine.ask("SELECT call_id, claims, attempts, releases FROM fourgates.retries")
    assert retried == {"call_id": again.call_id, "claims": 2, "attempts": 2, "releases": 1}
    (doubted,) = engine.ask("SELECT call_id, phase, resolved_as, resolved_by FROM fourgates.doubts")
    assert doubted == {"call_id": doubt.call_id, "phase": "final", "resolved_as": "committed", "resolved_by": "fiona"}
    times = engine.ask("SELECT hold_reason, state, p50_waited_ms FROM fourgates.approval_times ORDER BY hold_reason")
    assert times == [
        {"hold_reason": "in_doubt", "state": "resolved", "p50_waited_ms": 40},
        {"hold_reason": "risk", "state": "approved", "p50_waited_ms": 40},
    ]
    (latency,) = engine.ask("SELECT decided, p50_ms_in_tool FROM fourgates.latency_by_tool")
    assert latency == {"decided": 3, "p50_ms_in_tool": 40}
    assert call_row(engine, doubt)["status"] == "succeeded"


def test_a_call_in_doubt_is_neither_a_success_nor_a_failure(engine: Engine) -> None:
    """L4, E6."""
    tape = Tape()
    life = a_doubt(tape)
    engine.take(tape.received)
    row = call_row(engine, life)
    assert (row["status"], row["code"], row["attributed_to"], row["decided"]) == ("in_doubt", "in_doubt", "downstream", 0)
    assert HoldReason.IN_DOUBT.value in row["hold_reasons"]


def test_what_speaks_to_a_model_is_counted_once_a_call(engine: Engine) -> None:
    """L4: also where the answer was told once more."""
    tape = Tape()
    for name, signals in (("quiet", ()), ("loud", ("tool_order", "hidden")), ("orders", ("tool_order",))):
        life = Life(tape, name)
        life.validated()
        life.told(signals=signals)
        life.told(signals=signals)
    engine.take(tape.received)
    rows = engine.ask("SELECT tool, signal, calls FROM fourgates.signals_by_tool ORDER BY signal")
    assert rows == [
        {"tool": "refund_order", "signal": "hidden", "calls": 1}, {"tool": "refund_order", "signal": "tool_order", "calls": 2},
    ]  # fmt: skip
    assert sorted(row["signals"] for row in engine.ask("SELECT signals FROM fourgates.signals")) == [
        ["hidden", "tool_order"], ["tool_order"],
    ]  # fmt: skip
