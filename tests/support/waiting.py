"""A waiter, a bus and a shop with things worth asking about: what the tests of the waiter and the approver are run on."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict

from fourgates.approval import WaiterSettings, build
from fourgates.catalog import Catalog, Preview
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    Control,
    ControlKind,
    HoldReason,
    LedgerEntry,
    LedgerKind,
    Record,
)
from fourgates.contract.parts import Call, Gate, Risk, Verdict
from fourgates.contract.ports import Envelope, Position, Publisher
from fourgates.contract.seals import RecordOpener, RecordWriter, seal_verdict
from fourgates.contract.topology import APPROVALS, CALLS_CLEARED, CALLS_LEDGER, RECORDS_DEAD
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.intake import RecordHandler
from fourgates.runtime.keys import Keyring, new_development_content
from fourgates.runtime.memory import MemoryBus, MemoryPublisher
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import held
from support.records import codec
from support.samples import CALL


@cache
def keyring() -> Keyring:
    return Keyring(new_development_content())


class RefundArgs(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str
    amount: int = 100


class Shop:
    """A catalog whose previews can be made to fail, and a list of what was really done: nothing, by a waiter."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.preview: Callable[[Any], Any] = lambda args: Preview(
            target=f"order {args.order_id}", before={"paid": 250, "refunded": 0}, after={"paid": 250, "refunded": args.amount},
            recoverable=False, amount=f"{args.amount}.00 EUR",
        )  # fmt: skip
        self.catalog = Catalog("shop")
        for name, risk in (("refund_order", Risk.WRITE), ("delete_account", Risk.DESTRUCTIVE)):
            self._register(name, risk)

    def _register(self, name: str, risk: Risk) -> None:
        def run(args: RefundArgs, ctx: Any) -> None:
            self.done.append(args.order_id)

        run.__annotations__["args"] = RefundArgs
        self.catalog.tool(
            risk=risk, timeout=5, name=name, description=f"{name}: does it to one order.",
            preview=lambda args, principal: self.preview(args),
        )(run)  # fmt: skip


def call_of(shop: Shop, tool: str = "refund_order", call_id: str = CALL.call_id, **other: Any) -> Call:
    """A validated call of the shop's tool."""
    arguments = {"order_id": "A-1001", "amount": 100} | other.pop("arguments", {})
    contract = shop.catalog.get(tool)
    assert contract is not None
    return dataclasses.replace(
        CALL, call_id=call_id, tool=tool, tool_version=contract.version, risk=contract.risk,
        arguments=canonical(arguments).decode(), args_digest=digest(arguments), **other,
    )  # fmt: skip


def sealed(call: Call, *gates: Gate) -> tuple[Verdict, ...]:
    """Verdicts of these gates, each really sealed."""
    verdicts: tuple[Verdict, ...] = ()
    for gate in gates or (Gate.VALIDATOR, Gate.AUTHORIZER):
        reasons = json.dumps({"policies": ["refunds-need-people"]} if gate is Gate.AUTHORIZER else {})
        verdict = Verdict(gate=gate, key_id="", at_ms=1, reasons=reasons, preview_digest="old" if gate is Gate.WAITER else "")
        verdicts = seal_verdict(keyring().signer(gate.value), call, verdict, verdicts)
    return verdicts


class Waiting:
    """The bus with its writers. Time stands still unless a test moves it."""

    def __init__(self, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.shop = Shop()
        self.switches = 0
        self.opener = RecordOpener(codec(), keyring().verifier())
        self.bus = MemoryBus(self.opener, self.clock)

    def publisher(self, writer: str) -> MemoryPublisher:
        return self.bus.publisher(RecordWriter(codec(), keyring().signer(writer)))

    async def publish(self, writer: str, record: Record) -> Position:
        return await self.publisher(writer).publish(record)

    async def hold(
        self, hold_id: str = "h" * 32, call: Call | None = None, *, writer: str = "authorizer", **other: Any
    ) -> ApprovalEvent:
        """A Held with real seals, an hour before its expiry."""
        call = call or call_of(self.shop)
        fields = {"verdicts": sealed(call), "expires_ms": self.clock.now_ms() + 3_600_000} | other
        record = held(hold_id, call, **fields)
        await self.publish(writer, record)
        return record

    async def doubt(self, hold_id: str = "d" * 32, call: Call | None = None, **other: Any) -> ApprovalEvent:
        """An in-doubt hold of the executor."""
        fields: dict[str, Any] = {"claim_id": "1" * 32, "attempts": 1, "expires_ms": None, "reason": HoldReason.IN_DOUBT} | other
        return await self.hold(hold_id, call, writer="executor", **fields)

    async def waiter(
        self, settings: WaiterSettings | None = None, producer: str = "waiter@test:1", *,
        publisher: Publisher | None = None, partitions: Iterable[int] | None = None,
    ) -> MemoryWorker:  # fmt: skip
        """A running waiter; several of them at once are zombies of each other."""
        keys = keyring()
        stage = build(
            catalog=self.shop.catalog, log=self.bus, clock=self.clock, signer=keys.signer("waiter"), verifier=keys.verifier(),
            producer=producer, settings=settings,
        )  # fmt: skip
        handler = RecordHandler(stage, self.opener, publisher or self.publisher("waiter"), self.clock, producer)
        worker = MemoryWorker(self.bus, stage, handler, self.clock, partitions=partitions)
        await worker.start()
        return worker

    async def switch(self, kind: ControlKind, subject: str) -> None:
        """An operator's word."""
        self.switches += 1
        control = Control(
            event_id=f"c{self.switches}", producer="test", kind=kind, subject=subject, reason="a test", by="ops",
            said_ms=self.clock.now_ms() + self.switches,
        )  # fmt: skip
        await self.publish("operator", control)

    async def settle(self, *workers: MemoryWorker) -> None:
        """Returns once every worker is idle, also with what they caused each other."""
        for _ in range(20):
            for worker in workers:
                assert worker.failed is None, worker.failed
                await worker.drained()
            await asyncio.sleep(0)

    def approvals(self, kind: ApprovalKind, hold_id: str | None = None) -> list[Envelope]:
        entries = [e for e in self.bus.opened(APPROVALS) if e.record.kind is kind]
        return [e for e in entries if hold_id is None or hold_id in (e.record.hold_id, e.record.event_id)]

    def shown(self, hold_id: str = "h" * 32) -> dict[str, Any]:
        """What people see of a hold."""
        return dict(json.loads(self.approvals(ApprovalKind.REQUESTED, hold_id)[0].record.requested.shown))

    def ledger(self, kind: LedgerKind | None = None) -> list[LedgerEntry]:
        return [e.record for e in self.bus.opened(CALLS_LEDGER) if kind is None or e.record.kind is kind]

    def cleared(self) -> list[Any]:
        return [e.record for e in self.bus.opened(CALLS_CLEARED)]

    def dead(self) -> list[str]:
        return [e.record.reason for e in self.bus.opened(RECORDS_DEAD)]
