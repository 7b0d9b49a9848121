"""PyPI's `agentack` as the oracle of approvals: a run's trace out of the records, and its seven attacks on a live pipeline."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentack.engine import evaluate_events
from agentack.models import EvaluationReport
from agentack.parser import read_jsonl
from agentack.policy import Policy

from fourgates.approval.trace import POLICY, Trace, TraceBook
from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.codes import Code
from fourgates.contract.events import CallCleared, Control, ControlKind
from fourgates.contract.ports import Position
from fourgates.contract.seals import RecordWriter
from fourgates.contract.topology import APPROVALS, CALLS_CLEARED, CALLS_LEDGER, CALLS_VALIDATED, CONTROLS, RECORDS_DEAD
from fourgates.gates.approval import proven_by
from fourgates.gates.controls import run_subject
from fourgates.sdk import Answer, Run
from support.eventually import eventually
from support.worlds import TENANT, StoryWorld, decide, fresh_order, holds_of, not_yet_final, publish

CENTS = 9_000
"""So much needs a person."""


async def traced(world: StoryWorld, run_id: str) -> Trace:
    """What `fourgates trace` would write."""
    book = TraceBook(run_id, proven_by(world.keyring.verifier()))
    for topic in (CALLS_VALIDATED, APPROVALS, CALLS_LEDGER, CONTROLS):
        book.read(sorted(await world.records(topic), key=lambda e: (e.position.partition, e.position.offset)))
    return book.trace()


def checked(trace: Trace, folder: Path) -> EvaluationReport:
    """What `agentack check TRACE --policy POLICY` says."""
    file, policy = folder / "trace.jsonl", folder / "agentack.toml"
    file.write_text(trace.text(), encoding="utf-8")
    policy.write_text(POLICY, encoding="utf-8")
    return evaluate_events(read_jsonl(file), policy=Policy.from_toml(policy))


class Attacks:
    """Each drives one of agentack's bad scenarios against the pipeline; True where it did not come through."""

    def __init__(self, world: StoryWorld) -> None:
        self.world = world
        self.runs: list[str] = []

    def all(self) -> dict[str, Callable[[], Awaitable[bool]]]:
        return {
            "action-swap": self.action_swap, "denial-bypass": self.denial_bypass, "replay": self.replay,
            "route-around": self.route_around, "interrupt-bypass": self.interrupt_bypass, "expired": self.expired,
            "unapproved": self.unapproved,
        }  # fmt: skip

    def _run(self) -> Run:
        run = self.world.run(intent="pay")
        self.runs.append(run.id)
        return run

    async def _asked(self, run: Run, order: str, number: str = "1") -> tuple[Answer, str]:
        """A payment that waits for a person, and its hold."""
        pending = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": CENTS}), tool_call_id=number)
        [hold] = await eventually(lambda: holds_of(self.world, pending.call_id))
        return pending, hold["hold_id"]

    def paid(self, order: str) -> int:
        return sum(1 for _, _, what in self.world.downstream.effects("pay") if what == order)

    async def _cleared(self, call_id: str) -> Any:
        async def found() -> Any:
            return next((e for e in await self.world.records(CALLS_CLEARED) if e.record.call.call_id == call_id), None)

        return await eventually(found)

    async def _dead(self, position: Position) -> bool:
        """Whether the record at that place was turned down as proving nothing."""

        async def found() -> bool:
            dead = [e.record for e in await self.world.records(RECORDS_DEAD)]
            return any((d.topic, d.partition, d.offset) == (position.topic, position.partition, position.offset) for d in dead)

        return bool(await eventually(found))

    async def action_swap(self) -> bool:
        """People approve one order; a clearance with another one in it is appended, and the model swaps it in its own text."""
        run, order, other = self._run(), fresh_order(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        await decide(self.world, hold_id, "approve")
        ended = await run.wait(pending.call_id)
        cleared: CallCleared = (await self._cleared(pending.call_id)).record
        arguments = {"order": other, "cents": CENTS}
        call = dataclasses.replace(cleared.call, arguments=canonical(arguments).decode(), args_digest=digest(arguments))
        position = await publish(self.world, "waiter", dataclasses.replace(cleared, event_id=ids.random_id(), call=call))
        swapped = await not_yet_final(run, "pay", json.dumps(arguments), tool_call_id="1")
        turned_down = swapped.code is Code.IDEMPOTENCY_CONFLICT and await self._dead(position)
        return ended.code is Code.OK and turned_down and (self.paid(order), self.paid(other)) == (1, 0)

    async def tool_swap(self) -> bool:
        """People approve a payment; a clearance with another tool's name is appended, and the model swaps it in its own text."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        swapped = await not_yet_final(run, "wipe", '{"target":"attic"}', tool_call_id="1")
        await decide(self.world, hold_id, "approve")
        ended = await run.wait(pending.call_id)
        cleared: CallCleared = (await self._cleared(pending.call_id)).record
        validated = [e.record.call for e in await self.world.records(CALLS_VALIDATED)]
        [wipe] = [call for call in validated if (call.call_id, call.tool) == (swapped.call_id, "wipe")]
        renamed = dataclasses.replace(cleared.call, tool="wipe", tool_version=wipe.tool_version, risk=wipe.risk)
        for call in (wipe, renamed):
            position = await publish(self.world, "waiter", dataclasses.replace(cleared, event_id=ids.random_id(), call=call))
            if not await self._dead(position):
                return False
        wiped = any(key == swapped.call_id for _, key, _ in self.world.downstream.entries("wipe"))
        codes = (swapped.code, ended.code)
        return codes == (Code.IDEMPOTENCY_CONFLICT, Code.OK) and not wiped and self.paid(order) == 1

    async def denial_bypass(self) -> bool:
        """Denied; asked again, and approved afterwards."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        await decide(self.world, hold_id, "deny")
        ended = await run.wait(pending.call_id)
        late = await decide(self.world, hold_id, "approve", "olga")
        again = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": CENTS}), tool_call_id="1")
        codes = (ended.code, again.code)
        return codes == (Code.APPROVAL_DENIED,) * 2 and late.status_code >= 400 and self.paid(order) == 0

    async def replay(self) -> bool:
        """The approved clearance is appended once more, byte for byte, and the yes is said once more."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        await decide(self.world, hold_id, "approve")
        await run.wait(pending.call_id)
        envelope = await self._cleared(pending.call_id)
        await self.world.append(CALLS_CLEARED, pending.call_id.encode(), envelope.raw)
        late = await decide(self.world, hold_id, "approve", "olga")
        again = await not_yet_final(run, "pay", json.dumps({"order": order, "cents": CENTS}), tool_call_id="1")
        return again.code is Code.OK and late.status_code >= 400 and self.paid(order) == 1

    async def route_around(self) -> bool:
        """Denied; the model asks for the same effect under a new id, in other words."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        await decide(self.world, hold_id, "deny")
        await run.wait(pending.call_id)
        text = json.dumps({"cents": CENTS + 1, "order": order})
        around = await not_yet_final(run, "pay", text, tool_call_id="2")
        [hold] = await eventually(lambda: holds_of(self.world, around.call_id))
        held = around.code is Code.APPROVAL_PENDING and self.paid(order) == 0
        await decide(self.world, hold["hold_id"], "deny")
        return held and (await run.wait(around.call_id)).code is Code.APPROVAL_DENIED and self.paid(order) == 0

    async def interrupt_bypass(self) -> bool:
        """The run is stopped while a call waits; the yes comes after the stop, and the model goes on."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        stop = Control(
            event_id=ids.random_id(), producer="test", kind=ControlKind.STOP, subject=run_subject(TENANT, run.id),
            reason="a person said stop", by="ops", said_ms=1,
        )  # fmt: skip
        await publish(self.world, "operator", stop)
        await decide(self.world, hold_id, "approve")
        try:
            ended: Any = (await run.wait(pending.call_id)).code
        except Exception as stopped:  # RunStopped, with what the model reads
            ended = getattr(getattr(stopped, "answer", None), "code", type(stopped).__name__)
        return ended is Code.RUN_STOPPED and self.paid(order) == 0

    async def expired(self) -> bool:
        """The yes comes after the time was over: the authorizer asks once more, and gives people a second and a half."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        asked = next(e.record for e in await self.world.records(APPROVALS) if e.record.event_id == hold_id)
        short = dataclasses.replace(asked.held, instead_of=hold_id, expires_ms=int(time.time() * 1000) + 1_500)
        second = ids.random_id()
        await publish(self.world, "authorizer", dataclasses.replace(asked, event_id=second, hold_id=second, held=short))
        ended = await run.wait(pending.call_id)
        late = await decide(self.world, second, "approve")

        async def nothing_waits() -> bool:
            return not await holds_of(self.world, pending.call_id)

        await eventually(nothing_waits)  # the first question is withdrawn: its call has ended
        first = await decide(self.world, hold_id, "approve")
        refused = late.status_code >= 400 and first.status_code >= 400
        return ended.code is Code.APPROVAL_EXPIRED and refused and self.paid(order) == 0

    async def unapproved(self) -> bool:
        """A clearance without people, sealed by the authorizer itself; and one that nobody sealed."""
        run, order = self._run(), fresh_order()
        pending, hold_id = await self._asked(run, order)
        held = next(e.record.held for e in await self.world.records(APPROVALS) if e.record.event_id == hold_id)
        bare = CallCleared(event_id=ids.random_id(), producer="test", kind="cleared", call=held.call, verdicts=held.verdicts)  # type: ignore[arg-type]
        sealed = await publish(self.world, "authorizer", bare)
        _, key, value = _unsealed(self.world, bare)
        unsealed = await self.world.append(CALLS_CLEARED, key, value)
        refused = await self._dead(sealed) and await self._dead(unsealed)
        await decide(self.world, hold_id, "deny")
        return refused and (await run.wait(pending.call_id)).code is Code.APPROVAL_DENIED and self.paid(order) == 0


def _unsealed(world: StoryWorld, record: CallCleared) -> tuple[str, bytes, bytes]:
    from fourgates.contract.avro import AvroCodec
    from fourgates.runtime.data import data_folder
    from fourgates.runtime.registry import LocalRegistry

    topic, key, value = RecordWriter(AvroCodec(LocalRegistry(data_folder("schemas"))), world.keyring.signer("waiter")).encode(
        record
    )
    return topic, key, value[:-32] + bytes(32)
