"""The evidence of approval, at a small size: it measures what it says, and what it measures is right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from evidence.approval import expiring, judged, waiting, written_on
from fourgates.contract.events import ApprovalKind
from fourgates.contract.ports import Position
from fourgates.contract.topology import APPROVALS
from fourgates.runtime.local_broker import LocalBroker


@pytest.mark.kafka
@pytest.mark.timeout(300)
async def test_many_holds_are_found_again_and_more_are_asked(fresh_kafka: LocalBroker, tmp_path: Path) -> None:
    """A6: a waiter's process over real Kafka finds what waited, asks nothing about that again, and goes on asking."""
    async with written_on(fresh_kafka.bootstrap, tmp_path) as many:
        found = await waiting(many, pending=120, asked=5)
        assert (found["pending"], found["asked"]) == (120, 5)
        assert 0 < found["rss_mb"] <= found["peak_rss_mb"] and found["ready_cpu_s"] > 0 and found["ready_s"] > 0
        records = [envelope.record for envelope in await many.bus.opened(APPROVALS)]
        assert Counter(record.kind for record in records) == {ApprovalKind.HELD: 125, ApprovalKind.REQUESTED: 125}
        asked = {record.hold_id: record.requested for record in records if record.kind is ApprovalKind.REQUESTED}
        for number in (0, 119, 120, 124):  # what the tests wrote for the waiter is what it writes itself
            held = next(r for r in records if r.event_id == many.scribe.hold_id(number)).held
            question, _ = many.scribe.asked(number, held.expires_ms, Position(APPROVALS, 0, 0))
            assert asked[many.scribe.hold_id(number)] == question.requested


@pytest.mark.kafka
@pytest.mark.timeout(300)
async def test_those_that_wait_expire_on_time(fresh_kafka: LocalBroker, tmp_path: Path) -> None:
    """A5: each is said to have expired once its time has come, and not before."""
    async with written_on(fresh_kafka.bootstrap, tmp_path) as many:
        errors = await expiring(many, 40, spread_s=2.0, lead_s=10.0)
        assert len(errors) == 40 and 0 <= errors[0] <= errors[-1] < 30
        assert Counter(e.record.kind for e in await many.bus.opened(APPROVALS))[ApprovalKind.REQUESTED] == many.written


async def test_a_run_of_all_kinds_of_calls_is_judged_without_a_finding(tmp_path: Path) -> None:
    """A3, A6"""
    assert await judged(tmp_path, 30) == {"agentack_calls": 30, "agentack_events": 73, "agentack_findings": 0}
