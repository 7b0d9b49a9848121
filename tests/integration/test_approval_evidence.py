"""The evidence of approval, at a small size: it measures what it says, and what it measures is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.approval import judged, measured
from fourgates.runtime.local_broker import LocalBroker


@pytest.mark.kafka
@pytest.mark.timeout(300)
async def test_many_holds_are_found_again_and_expire_on_time(fresh_kafka: LocalBroker, tmp_path: Path) -> None:
    """A5, A6: a waiter's process over real Kafka finds what waited, and says each expiry once its time has come."""
    found = await measured(fresh_kafka.bootstrap, tmp_path, pending=120, expire=40)
    assert (found["pending"], found["expiring"], found["asked_in_time"]) == (120, 40, True)
    assert 0 < found["rss_mb"] <= found["peak_rss_mb"] and found["ready_s"] > 0
    assert 0 <= found["expiry_error_p50_s"] <= found["expiry_error_p99_s"] <= found["expiry_error_max_s"] < 30


async def test_a_run_of_all_kinds_of_calls_is_judged_without_a_finding(tmp_path: Path) -> None:
    """A3, A6"""
    assert await judged(tmp_path, 30) == {"agentack_calls": 30, "agentack_events": 73, "agentack_findings": 0}
