"""Plays recorded runs to the real marking and the real validator, in process: the host's book, a request, the stage's word."""

from __future__ import annotations

import json
from dataclasses import dataclass

from corpora.agentdyn_trial.runs import RecordedCall, RecordedRun, structured
from fourgates.catalog import Catalog
from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import CallRequested, CallValidated, LedgerEntry, RequestKind
from fourgates.contract.parts import Breach, Principal
from fourgates.contract.ports import Envelope, Position
from fourgates.gates.origins import OriginBook
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.memory import MemoryBus
from fourgates.sdk.request import marks_of, newest_turns
from fourgates.validator import ValidatorSettings, build
from fourgates.validator.stage import ValidatorStage
from support.sealing import keyring, opener

NOW_MS = 1_750_000_000_000
ANNA = Principal(issuer="https://issuer.example", subject="anna", tenant="acme", person="anna", agent="assistant")


@dataclass(frozen=True, slots=True)
class Judged:
    """What the first two gates say to one recorded call."""

    call: RecordedCall
    writes: bool
    breaches: tuple[Breach, ...] = ()
    """Why it goes to a person."""
    refused: str = ""
    """The code with which it ends; empty where it goes on."""

    @property
    def held(self) -> bool:
        """For where a value came from: by a person's leave only, or not at all where the contract says `refuse`."""
        return bool(self.breaches) or self.refused == Code.ORIGIN_REFUSED

    @property
    def stopped(self) -> bool:
        return self.held or bool(self.refused)


class _Granted:
    """The corpus is about what is asked for, not about who asks."""

    def open(self, request: CallRequested, raw: bytes, at_ms: int) -> Principal:
        return ANNA

    def claimed(self, request: CallRequested) -> Principal:
        return ANNA


class Judge:
    """The validator over one catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._stage = _stage(catalog)

    async def start(self) -> None:
        await self._stage.start()

    async def close(self) -> None:
        await self._stage.close()

    async def judge(self, run: RecordedRun) -> list[Judged]:
        """Each call of a run in its order, marked by what the run had heard until then."""
        book, run_id = OriginBook(), ids.new_run_id(NOW_MS)
        book.user_said(run.request)
        judged = []
        for call in run.calls:
            judged.append(await self._call(book, run_id, call))
            if call.result is not None:
                tool = self._catalog.get(call.tool)
                book.saw(call.tool, structured(call.result), tool.trusted_results if tool else (), call_id=call.id)
        return judged

    async def _call(self, book: OriginBook, run_id: str, call: RecordedCall) -> Judged:
        raw = json.dumps(call.arguments, ensure_ascii=False)
        request = CallRequested(
            event_id=ids.random_id(), producer="corpus", kind=RequestKind.CALL,
            call_id=ids.call_id(ANNA.issuer, ANNA.tenant, ANNA.subject, ANNA.agent, run_id, call.id),
            run_id=run_id, tool_call_id=call.id, tool=call.tool, arguments=raw, origins=await marks_of(book, raw),
            user_turns=newest_turns(book.user_turns), intent="", deadline_ms=NOW_MS + 60_000, grant="",
        )  # fmt: skip
        (word,) = await self._stage.handle(Envelope(request, Position("calls.requested", 0, 0), NOW_MS, "run"))
        tool = self._catalog.get(call.tool)
        writes = tool is not None and tool.writes
        if isinstance(word, LedgerEntry):
            return Judged(call, writes, refused=word.code)
        assert isinstance(word, CallValidated), "the validator lets a call go on or ends it"
        return Judged(call, writes, word.breaches)


def _stage(catalog: Catalog) -> ValidatorStage:
    clock = ManualClock(NOW_MS)
    return build(
        catalog=catalog, log=MemoryBus(opener(), clock), grants=_Granted(), signer=keyring().signer("validator"), clock=clock,
        producer="validator@corpus", settings=ValidatorSettings(),
    )  # fmt: skip
