"""The executor's look at the audit store: how far behind it may be, by risk."""

from __future__ import annotations

import asyncio
from typing import Any

from fourgates.contract.codes import Code
from fourgates.contract.events import AuditWatermark
from fourgates.contract.parts import Risk
from fourgates.contract.ports import Envelope, Position, Sink
from fourgates.executor.audit_gate import AuditGate
from fourgates.runtime.clock import ManualClock


class Log:
    """Hands the gate's sink to the test."""

    sink: Sink

    async def follow(self, topic: str, sink: Sink, partitions: Any = None) -> Any:
        self.sink = sink
        return self

    async def reached_end(self) -> None:
        """Nothing lies there."""

    async def close(self) -> None:
        """Nothing runs."""


class Gate:
    """An AuditGate with the log and the clock under it."""

    def __init__(self) -> None:
        self.clock, self.log = ManualClock(), Log()
        self.gate = AuditGate(self.log, self.clock, wait=5, lag=10)  # type: ignore[arg-type]  # as much of a Log as it uses

    async def started(self) -> Gate:
        await self.gate.start()
        return self

    def mark(self, offset: int, said_ms: int | None = None) -> None:
        said_ms = self.clock.now_ms() if said_ms is None else said_ms
        record = AuditWatermark(event_id="e", producer="p", topic="calls.ledger", partition=3, offset=offset, said_ms=said_ms)
        self.log.sink(Envelope(record, Position("audit.watermarks", 0, 0), self.clock.now_ms(), "audit"))

    def entry(self, offset: int) -> None:
        self.gate.note(Envelope(None, Position("calls.ledger", 3, offset), self.clock.now_ms(), "executor"))

    async def code(self, risk: Risk, fence: int = 0) -> Code | None:
        refusal = await self.gate.check(risk, 3, fence)
        return refusal.code if refusal else None


async def test_reads_go_on_without_any_audit() -> None:
    """L3: reads need no store."""
    assert await (await Gate().started()).code(Risk.READ) is None


async def test_a_write_needs_a_store_that_has_spoken_and_keeps_up() -> None:
    """L3: the store's last word is at most ten seconds old."""
    gate = await Gate().started()
    asking = asyncio.create_task(gate.code(Risk.WRITE))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await gate.clock.advance(5.1)
    assert await asking is Code.AUDIT_UNAVAILABLE
    gate.mark(1)
    assert await gate.code(Risk.WRITE) is None
    await gate.clock.advance(10.1)
    assert await gate.code(Risk.WRITE) is Code.AUDIT_UNAVAILABLE


async def test_fresh_words_about_old_offsets_are_no_freshness() -> None:
    """L3: a sink that is behind still speaks; what counts is the oldest entry that it has not saved."""
    gate = await Gate().started()
    gate.mark(1)
    gate.entry(1)
    await gate.clock.advance(9.0)
    gate.mark(1)
    assert await gate.code(Risk.WRITE) is None
    await gate.clock.advance(2.0)
    gate.mark(1)
    assert await gate.code(Risk.WRITE) is Code.AUDIT_UNAVAILABLE
    gate.mark(2)
    assert await gate.code(Risk.WRITE) is None


async def test_a_destructive_call_waits_for_its_own_claim() -> None:
    """L3: its Claimed must be in the store before it runs, within five seconds."""
    gate = await Gate().started()
    gate.mark(4)
    asking = asyncio.create_task(gate.code(Risk.DESTRUCTIVE, fence=4))
    await asyncio.sleep(0)
    assert not asking.done()
    gate.mark(5)
    assert await asyncio.wait_for(asking, 5) is None
    late = asyncio.create_task(gate.code(Risk.DESTRUCTIVE, fence=5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await gate.clock.advance(5.1)
    assert await asyncio.wait_for(late, 5) is Code.AUDIT_UNAVAILABLE


async def test_an_old_mark_appended_once_more_is_no_sign_of_life() -> None:
    """P6, L3: whoever can write to the topic could else keep effects running while the store is away."""
    gate = await Gate().started()
    early = gate.clock.now_ms()
    gate.mark(4)
    await gate.clock.advance(1.0)
    gate.mark(5)
    late = gate.clock.now_ms()
    await gate.clock.advance(10.1)
    for offset, said_ms in ((4, early), (5, late)):
        gate.mark(offset, said_ms)
        assert await gate.code(Risk.WRITE) is Code.AUDIT_UNAVAILABLE
    gate.mark(5)
    assert await gate.code(Risk.WRITE) is None
