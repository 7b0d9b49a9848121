"""Holds and the questions about them by the thousand, sealed as the stages seal them, and made by several processes."""

from __future__ import annotations

import asyncio
import dataclasses
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from fourgates.approval.emits import Emits
from fourgates.approval.settings import WaiterSettings
from fourgates.approval.shown import shown_of
from fourgates.catalog.outcome import Preview
from fourgates.contract import ids
from fourgates.contract.avro import AvroCodec
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.events import ApprovalEvent, HoldReason, Record
from fourgates.contract.parts import Gate, Principal, Verdict
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.seals import RecordWriter, seal_verdict
from fourgates.gates.preview import bind
from fourgates.runtime.data import data_folder
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.registry import LocalRegistry
from support.approvals import held
from support.samples import CALL
from support.toolbox import make_catalog
from support.worlds import TENANT

Sealed: TypeAlias = tuple[str, bytes, bytes]
"""(topic, key, value)"""
_PROCESSES = 2
_OF_ONE_AGENT = 50
_CENTS = 9_000


class Scribe:
    """Makes holds as the authorizer writes them, and the questions about them as the waiter does: with their keys."""

    def __init__(self, folder: Path) -> None:
        self.keyring = DevKeys.load(folder / "home" / "keys")
        self.codec = AvroCodec(LocalRegistry(data_folder("schemas")))
        tool = make_catalog(folder).get("pay")
        assert tool is not None
        self._tool = tool
        self._writers = {name: RecordWriter(self.codec, self.keyring.signer(name)) for name in ("authorizer", "waiter")}
        self._emits = Emits("scribe", self.keyring.signer("waiter"))
        self._shown_bytes = WaiterSettings().shown_bytes

    def hold_id(self, number: int) -> str:
        return ids.event_id(self._call_id(number), "authorizer", "Held")

    def held(self, number: int, expires_ms: int) -> ApprovalEvent:
        """The Held of a call of its own, sealed by every gate before it."""
        who, call_id = self._asker(number), self._call_id(number)
        arguments = {"order": f"A-{number}", "cents": _CENTS, "mode": "ok"}
        text = canonical(arguments).decode()
        call = dataclasses.replace(
            CALL, call_id=call_id, tool_call_id=f"call_{number}", principal=who, tool="pay", tool_version=self._tool.version,
            risk=self._tool.risk, arguments=text, args_digest=digest(arguments),
        )  # fmt: skip
        verdicts: tuple[Verdict, ...] = ()
        for gate in (Gate.VALIDATOR, Gate.AUTHORIZER):
            verdict = Verdict(gate=gate, key_id="", at_ms=1, reasons='{"policies":["large-payments"],"digest":"x"}')
            verdicts = seal_verdict(self.keyring.signer(gate.value), call, verdict, verdicts)
        return held(
            self.hold_id(number), call, reason=HoldReason.POLICY, verdicts=verdicts, expires_ms=expires_ms,
            facts='{"owned":true}',
        )  # fmt: skip

    def asked(self, number: int, expires_ms: int, position: Position) -> tuple[Record, Record]:
        """What the waiter writes of that hold, whose Held lies there: the question to people, and the word to who asked."""
        event = self.held(number, expires_ms)
        envelope = Envelope(event, position, 0, "authorizer")
        preview = Preview(  # as the toolbox's own, of an order for which nothing was paid
            target=f"order A-{number}", before={"payments": 0}, after={"payments": 1}, recoverable=False,
            amount=f"{_CENTS / 100:.2f}",
        )  # fmt: skip
        shown = shown_of(event, self._tool, bind(preview), self._shown_bytes)
        return self._emits.requested(envelope, shown), self._emits.pending(envelope, event.event_id)

    def helds(self, expires: Mapping[int, int]) -> list[Sealed]:
        """The Held of each number, in their order."""
        return [self._sealed("authorizer", self.held(number, at_ms)) for number, at_ms in expires.items()]

    def questions(self, expires: Mapping[int, int], places: Sequence[Position]) -> list[Sealed]:
        """What the waiter writes of each, whose Held lie at those places."""
        asked = (self.asked(number, at_ms, place) for (number, at_ms), place in zip(expires.items(), places, strict=True))
        return [self._sealed("waiter", record) for pair in asked for record in pair]

    def _sealed(self, writer: str, record: Record) -> Sealed:
        return self._writers[writer].encode(record)

    def _call_id(self, number: int) -> str:
        who = self._asker(number)
        return ids.call_id(who.issuer, who.tenant, who.subject, who.agent, CALL.run_id, f"call_{number}")

    def _asker(self, number: int) -> Principal:
        return dataclasses.replace(CALL.principal, tenant=TENANT, agent=f"bot-{number // _OF_ONE_AGENT}")


_scribe: Scribe | None = None


def _begin(folder: Path) -> None:
    global _scribe
    _scribe = Scribe(folder)


def _helds(expires: Mapping[int, int]) -> list[Sealed]:
    assert _scribe is not None
    return _scribe.helds(expires)


def _questions(expires: Mapping[int, int], places: Sequence[Position]) -> list[Sealed]:
    assert _scribe is not None
    return _scribe.questions(expires, places)


class Scribes:
    """Several of them, each in a process of its own. Use it as a context manager."""

    def __init__(self, folder: Path) -> None:
        self._pool = ProcessPoolExecutor(_PROCESSES, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(folder,))

    async def __aenter__(self) -> Scribes:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self._pool.shutdown)

    async def helds(self, expires: Mapping[int, int]) -> list[Sealed]:
        """See Scribe."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _helds, expires)

    async def questions(self, expires: Mapping[int, int], places: Sequence[Position]) -> list[Sealed]:
        """See Scribe."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _questions, expires, places)
