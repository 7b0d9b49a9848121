"""What the story asks ClickHouse in the end: success, refusals, one call explained, and the queries that must return nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from fourgates.audit.explain import explain
from fourgates.audit.integrity import Finding, run_integrity
from fourgates.audit.report import Refusals, Success, refusals, success
from fourgates.audit.store import Query
from fourgates.demo.play import Difference, Narrator

_LONGEST_S = 30.0
"""How long the audit may take to catch up."""
_AGAIN_S = 0.2
"""Between two looks at another process."""
_ENDED = "SELECT toInt64(uniqExact(call_id)) AS calls FROM fourgates.records WHERE topic = 'calls.completed' AND final"


class Teller(Narrator, Protocol):
    """A narrator who can also show what the audit says."""

    def success(self, rows: Sequence[Success]) -> None: ...

    def refusals(self, rows: Sequence[Refusals]) -> None: ...

    def explained(self, text: str) -> None: ...


async def ask_the_audit(audit: Query, teller: Teller, call_id: str, ended: int) -> int:
    """Shows the reports once all `ended` calls are there; returns how many rows the integrity queries give.

    Raises Difference where the audit does not catch up or does not know the call.
    """
    await _caught_up(audit, ended)
    teller.success(await asyncio.to_thread(success, audit))
    teller.refusals(await asyncio.to_thread(refusals, audit))
    told = await asyncio.to_thread(explain, audit, call_id)
    if told is None:
        raise Difference(f"ClickHouse should know call {call_id[:12]}, but does not")
    teller.explained(told.text())
    findings = await _settled(audit)
    for finding in findings:
        if finding.rows:
            teller.wrong(f"{finding.name}: {len(finding.rows)} rows. {finding.meaning}")
    rows = sum(len(finding.rows) for finding in findings)
    if not rows:
        teller.right(f"{len(findings)} integrity queries, no rows")
    return rows


async def _caught_up(audit: Query, ended: int) -> None:
    end = time.monotonic() + _LONGEST_S
    while True:
        counted = int((await asyncio.to_thread(audit, _ENDED))[0]["calls"])
        if counted >= ended:
            return
        if time.monotonic() >= end:
            raise Difference(f"ClickHouse should have {ended} ended calls, but has {counted}")
        await asyncio.sleep(_AGAIN_S)


async def _settled(audit: Query) -> Sequence[Finding]:
    """Nothing is left out for being young: the story is over, so what is still under way gets a little time instead."""
    end = time.monotonic() + _LONGEST_S
    while True:
        findings = await asyncio.to_thread(run_integrity, audit, time.time_ns() // 1_000_000, 0)
        if not any(finding.rows for finding in findings) or time.monotonic() >= end:
            return findings
        await asyncio.sleep(_AGAIN_S)
