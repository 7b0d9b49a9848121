"""A sanitizer on the in-process bus, and a hand that writes ledger entries as the other stages do."""

from __future__ import annotations

import dataclasses
import itertools
import json
from datetime import timedelta
from typing import Any

from fourgates.catalog import Catalog, OutputLimit
from fourgates.catalog.tool import Tool
from fourgates.contract import ids
from fourgates.contract.events import CallCompleted, LedgerEntry, LedgerKind
from fourgates.contract.observation import Observation
from fourgates.contract.parts import CallRef, ResultBox, Risk
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_COMPLETED, CALLS_LEDGER
from fourgates.gates.result_box import seal_result
from fourgates.runtime.blobs import MemoryBlobStore
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.intake import RecordHandler
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_worker import MemoryWorker
from fourgates.sanitizer import SanitizerSettings, build
from fourgates.sanitizer.stage import SanitizerStage
from support.sealing import keyring, opener, writer

RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
WRITERS = {LedgerKind.PENDING: "waiter", LedgerKind.CANCELLED: "validator"}


def _tool(name: str, risk: Risk, **contract: Any) -> Tool:
    return Tool(
        name=name, description="A tool.", risk=risk, schema={"type": "object"}, model=None, run=print,
        timeout=timedelta(seconds=1), **contract,
    )  # fmt: skip


class Sanitizing:
    """The bus, the blobs and one sanitizer at a time."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bus = MemoryBus(opener(), self.clock)
        self.raw, self.results = MemoryBlobStore(), MemoryBlobStore()
        self.catalog = Catalog("shop")
        self.catalog.add(_tool("pay", Risk.WRITE, lift=("receipt", "sum"), redact=("email",)))
        self.catalog.add(_tool("look", Risk.READ, output=OutputLimit(400, 20)))
        self.stage: SanitizerStage | None = None
        self._numbers = itertools.count()
        self._worker: MemoryWorker | None = None

    async def start(self, **settings: Any) -> MemoryWorker:
        self.stage = build(
            catalog=self.catalog, log=self.bus, publisher=self.bus.publisher(writer("sanitizer")), clock=self.clock,
            raw_blobs=self.raw, result_blobs=self.results, result_keys=keyring().result_keys(),
            placeholder_key=keyring().placeholder_key(), producer="sanitizer@test:1", settings=SanitizerSettings(**settings),
        )  # fmt: skip
        publisher = self.bus.publisher(writer("sanitizer"))
        handler = RecordHandler(self.stage, opener(), publisher, self.clock, "sanitizer@test:1", self.stage.last_word)
        self._worker = MemoryWorker(self.bus, self.stage, handler, self.clock, tick_s=3_600)
        await self._worker.start()
        return self._worker

    async def drained(self) -> None:
        assert self._worker is not None
        await self._worker.drained()
        assert self._worker.failed is None, self._worker.failed

    async def crash(self) -> None:
        assert self._worker is not None
        await self._worker.crash()

    def about(self, tool: str = "pay", **other: Any) -> CallRef:
        known = self.catalog.get(tool)
        return CallRef(
            tenant="acme", run_id=RUN, tool_call_id="t-1", subject="anna", agent="bot", tool=tool,
            tool_version=known.version if known else "", risk=known.risk.value if known else "", args_digest="d", **other,
        )  # fmt: skip

    def entry(self, kind: LedgerKind, call_id: str = "c", tool: str = "pay", **fields: Any) -> LedgerEntry:
        return LedgerEntry(
            event_id=fields.pop("event_id", ids.event_id(str(next(self._numbers)), "test", kind.value)), producer="test",
            kind=kind, call_id=call_id, about=fields.pop("about", self.about(tool)), **fields,
        )  # fmt: skip

    def put(self, entry: LedgerEntry) -> LedgerEntry:
        """Appends an entry sealed by one who may write it."""
        topic, key, value = writer(WRITERS.get(entry.kind, "executor")).encode(entry)
        self.bus.append(topic, key, value)
        return entry

    async def say(self, kind: LedgerKind, call_id: str = "c", tool: str = "pay", **fields: Any) -> LedgerEntry:
        """Appends an entry and waits until the sanitizer is done with it."""
        entry = self.put(self.entry(kind, call_id, tool, **fields))
        if self._worker is not None:
            await self.drained()
        return entry

    def box(self, content: Any, call_id: str = "c") -> ResultBox:
        return seal_result(content, *keyring().result_key(), call_id)

    async def blob_box(self, content: Any, call_id: str = "c") -> ResultBox:
        """A box by reference, as the executor makes it of a large result."""
        box = self.box(content, call_id)
        ref = await self.raw.put("acme", box.ciphertext)
        return dataclasses.replace(box, ciphertext=b"", blob_ref=ref)

    async def run_write(self, content: Any, call_id: str = "c", tool: str = "pay", **fields: Any) -> LedgerEntry:
        """Claimed and Finished."""
        await self.say(LedgerKind.CLAIMED, call_id, tool, claim_id=f"x-{call_id}")
        box = fields.pop("result", self.box(content, call_id))
        return await self.say(
            LedgerKind.FINISHED, call_id, tool, claim_id=f"x-{call_id}", outcome="committed", result=box, **fields
        )

    async def run_read(self, content: Any, call_id: str = "c", tool: str = "look") -> LedgerEntry:
        return await self.say(LedgerKind.FINISHED, call_id, tool, outcome="committed", result=self.box(content, call_id))

    def completed(self, call_id: str = "c") -> list[CallCompleted]:
        """What was told of a call, in order."""
        return [e.record for e in self.bus.opened(CALLS_COMPLETED) if e.record.call_id == call_id]

    def codes(self, call_id: str = "c") -> list[str]:
        return [record.code for record in self.completed(call_id)]

    def finals(self, call_id: str = "c") -> list[str]:
        return [record.observation for record in self.completed(call_id) if record.final]

    def last(self, call_id: str = "c") -> Observation:
        return Observation.from_json(self.completed(call_id)[-1].observation)

    def last_json(self, call_id: str = "c") -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.completed(call_id)[-1].observation)
        return value

    def committed_everything(self) -> bool:
        return all(
            self.bus.committed("sanitizer", CALLS_LEDGER, number) == len(self.bus.log(CALLS_LEDGER, number))
            for number in range(CALL_PARTITIONS)
        )

    def redeliver_all(self) -> None:
        """As if no offset had been committed."""
        for number in range(CALL_PARTITIONS):
            self.bus.commit("sanitizer", CALLS_LEDGER, number, 0)
