"""A pipeline with a history: every kind of record lies on its topics, every call has ended. Then somebody attacks the log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fourgates.assembly import StageSettings
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import Control, ControlKind, Record
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.seals import RecordWriter
from fourgates.contract.topology import (
    APPROVALS,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CONTROLS,
    EFFECTS,
    RECORDS_DEAD,
    TOPOLOGY,
)
from fourgates.executor.settings import ExecutorSettings
from fourgates.gates.approval import ApprovalFold, proven_by
from fourgates.gates.controls import ControlFold
from fourgates.gates.effects import EffectsFold
from fourgates.gates.ledger import CallState, LedgerFold
from fourgates.runtime.clock import SystemClock
from fourgates.sdk import Options, RunStopped
from fourgates.testing import MemoryRows, Pipeline
from support.downstream import Downstream
from support.eventually import eventually
from support.toolbox import make_catalog

HELD_CENTS = 9_000
MINUTE_MS, DAY_MS = 60_000, 86_400_000
# As the stories' short times, but for the audit's lag: this clock is set forward by days.
SETTINGS = StageSettings(
    executor=ExecutorSettings(drain=0.5, audit_wait=1.0, audit_lag=2.0, retry_base=0.01, retry_cap=0.05, probe_every=0.1)
)


class ShiftedClock(SystemClock):
    """The wall's time and some more: broker time and deadlines move on, leases and timeouts stay real."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class Attacked:
    """Made by `play`; ended by `stop`."""

    def __init__(self, folder: Path) -> None:
        self.downstream = Downstream(folder / "downstream.sqlite")
        self.clock, self.rows = ShiftedClock(), MemoryRows()
        self.pipeline = Pipeline(
            make_catalog(folder), settings=SETTINGS, clock=self.clock, audit_store=self.rows,
            options=Options(wait_s=15, ask_again_s=60, budget_s=20),
        )  # fmt: skip
        self._ledger, self._effects, self._controls = LedgerFold(), EffectsFold(), ControlFold()
        self._holds = ApprovalFold(proven_by(self.pipeline.keyring.verifier()))
        self.answers: dict[str, list[str]] = {}
        """Call -> its final answers, in the order of the log."""
        self.buried: dict[tuple[str, int, int], str] = {}
        """(topic, partition, offset) -> reason of every dead letter."""
        self._examples: dict[str, list[tuple[Envelope, Received]]] = {}

    async def stop(self) -> None:
        await self.pipeline.__aexit__(None, None, None)

    async def play(self) -> None:
        """A history with every kind of record."""
        await self.pipeline.__aenter__()
        sinks: dict[str, Callable[[Envelope], Any]] = {
            CALLS_LEDGER: self._ledger.apply, EFFECTS: self._effects.apply, CONTROLS: self._controls.apply,
            APPROVALS: self._holds.apply, CALLS_COMPLETED: self._answered, RECORDS_DEAD: self._buried,
        }  # fmt: skip
        for topic, sink in sinks.items():
            await self.pipeline.bus.follow(topic, sink)
        run = self.pipeline.run("anna", ("staff",), agent="bot", intent="pay and tell")
        await run.call("look", '{"item": "x"}', tool_call_id="read")
        await run.call("pay", _pay("A-1"), tool_call_id="paid")
        await run.call("pay", _pay("A-1"), tool_call_id="again", wait=0.3)  # a near duplicate, held
        await self._decide(Code.APPROVAL_DENIED, run, "again", "deny")
        await run.call("pay", _pay("A-2", HELD_CENTS), tool_call_id="large", wait=0.3)
        await self._decide(Code.OK, run, "large", "approve")
        await run.call("pay", _pay("A-2", HELD_CENTS), tool_call_id="large")  # asked again: replayed
        await run.call("pay", _pay("A-3", HELD_CENTS), tool_call_id="late", wait=0.3)
        late = await run.call("pay", _pay("A-3", HELD_CENTS), tool_call_id="late", wait=0.3)
        await run.cancel(late.call_id)
        await run.call("post", json.dumps({"text": "t", "mode": "lose"}), tool_call_id="doubt", wait=0.5)
        await self._decide(Code.OK, run, "doubt", "committed")
        await run.call("pay", _pay("A-4", mode="busy"), tool_call_id="busy")  # released
        await run.call("pay", '{"order": 1}', tool_call_id="odd")
        for kind, said_ms in ((ControlKind.DISABLE, 1), (ControlKind.ENABLE, 2)):
            await self.publish("operator", _control(kind, "tool:read_file", said_ms))
        try:
            await self.pipeline.run("anna", ("staff",), agent="bot").call("look", '{"item":"x","mode":"boom"}', tool_call_id="1")
        except RunStopped:
            self.append(CALLS_CLEARED, b"rubbish", b"rubbish")
        # Nobody decides about this one.
        expiring = self.pipeline.run("anna", ("staff",), agent="bot")
        held = await expiring.call("pay", _pay("A-5", HELD_CENTS), tool_call_id="expires", wait=0.3)
        self.clock.ahead_ms += 61 * MINUTE_MS
        assert (await expiring.wait(held.call_id)).code is Code.APPROVAL_EXPIRED
        # And this one waits for people all the while.
        waiting = self.pipeline.run("anna", ("staff",), agent="bot")
        assert (await waiting.call("pay", _pay("A-6", HELD_CENTS), tool_call_id="1", wait=0.3)).code is Code.APPROVAL_PENDING
        await self.settled()
        self._who = self.pipeline.bus.opened(CALLS_CLEARED)[0].record.call.principal
        self._runs = {envelope.record.run_id for envelope in self.pipeline.bus.opened(CALLS_COMPLETED)}
        self._examples = {topic.name: self._found(topic.name) for topic in TOPOLOGY}

    def _answered(self, envelope: Envelope) -> None:
        if envelope.record.final:
            self.answers.setdefault(envelope.record.call_id, []).append(envelope.record.observation)

    def _buried(self, envelope: Envelope) -> None:
        letter = envelope.record
        self.buried[letter.topic, letter.partition, letter.offset] = letter.reason

    async def _decide(self, code: Code, run: Any, tool_call_id: str, verdict: str) -> None:
        call_id = next(c for c, asked in run._asked.items() if asked.request.tool_call_id == tool_call_id)
        groups = ("approvers", "finance")

        async def waiting() -> list[dict[str, Any]]:
            return [hold for hold in await self.pipeline.holds("ben", groups) if hold["call_id"] == call_id]

        [hold] = await eventually(waiting)
        answer = await self.pipeline.decide(hold["hold_id"], verdict, "ben", groups)
        assert answer.status_code == 200, answer.text
        assert (await run.wait(call_id)).code is code

    async def publish(self, writer: str, record: Record) -> Position:
        return await self.pipeline.publisher(writer).publish(record)

    def append(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> Position:
        return self.pipeline.bus.append(topic, key, value, partition)

    def sealed(self, writer: str, record: Record) -> tuple[str, bytes, bytes]:
        """(topic, key, value) of the record with that writer's own seal."""
        return RecordWriter(self.pipeline.codec, self.pipeline.keyring.signer(writer)).encode(record)

    async def settled(self) -> None:
        """Returns once nothing happens any more: no stage works, and no new record has come for a while."""
        before = -1
        while (now := sum(len(self.pipeline.bus.records(topic.name)) for topic in TOPOLOGY if topic.kept)) != before:
            before = now
            await self.pipeline.drained()
            await asyncio.sleep(0.06)  # expiry, withdrawal and recovery are ticks of the stages
        for name, worker in self.pipeline.workers.items():
            assert worker.failed is None, (name, worker.failed)

    def examples(self, topic: str) -> list[tuple[Envelope, Received]]:
        """One genuine record of each kind and writer on a topic, decoded and as it lies there."""
        return self._examples[topic]

    def _found(self, topic: str) -> list[tuple[Envelope, Received]]:
        found: dict[tuple[str, str, str], tuple[Envelope, Received]] = {}
        for received in self.pipeline.bus.records(topic):
            try:
                envelope = self.pipeline.opener.open(received)
            except Poison:
                continue
            kind = getattr(envelope.record, "kind", "")
            found.setdefault((str(kind), envelope.writer, getattr(envelope.record, "code", "")), (envelope, received))
        return list(found.values())

    def standing(self) -> dict[str, Any]:
        """Everything that a forged record could change, as whoever folds the logs sees it."""
        barred = {
            (tool.name, run): self._controls.barred(tool.name, self._who, run)
            for tool in self.pipeline.catalog for run in self._runs
        }  # fmt: skip
        return {
            "entries": self.downstream.entries(), "effects": self.downstream.effects(),
            "calls": {call_id: _plain(state) for call_id, state in self._ledger.items() if not state.read},
            "holds": {hold.hold_id: hold for hold in self._holds},
            "claims": {call: self._effects.held_by(call) for call in self._effects.calls()},
            "switched": barred, "answers": {call_id: told[0] for call_id, told in self.answers.items()},
        }  # fmt: skip

    def skipped(self, topic: str) -> float:
        """How many invalid records of a topic its followers have counted."""
        samples = [sample for metric in self.pipeline.metrics.skipped.collect() for sample in metric.samples]
        return sum(s.value for s in samples if s.name.endswith("_total") and s.labels["topic"] == topic)

    async def audited(self, position: Position) -> dict[str, Any]:
        """The record's row in the audit."""
        place = (position.topic, position.partition, position.offset)
        return dict(await eventually(lambda: self.rows.rows.get(place)))


def _plain(state: CallState) -> tuple[Any, ...]:
    """What a call has come to; which claim ids were seen is no end."""
    return state.phase, state.claim_id, state.fence, state.attempts, state.outcome, state.final_ms


def _pay(order: str, cents: int = 100, mode: str = "ok") -> str:
    return json.dumps({"order": order, "cents": cents, "mode": mode})


def _control(kind: ControlKind, subject: str, said_ms: int) -> Control:
    return Control(event_id=ids.random_id(), producer="cli", kind=kind, subject=subject, reason="r", by="olga", said_ms=said_ms)
