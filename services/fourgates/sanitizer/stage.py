"""The one way out: tells the host of each call what the ledger says of it, and of results only what is fit to be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code
from fourgates.contract.errors import Poison, Transient
from fourgates.contract.events import CallCompleted, Control, ControlKind, LedgerEntry
from fourgates.contract.observation import Observation
from fourgates.contract.parts import EMPTY_SEAL, CallRef, Risk
from fourgates.contract.ports import Emit, Envelope, Publisher
from fourgates.contract.stage import BaseStage, cause_of
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.gates.answers import Told, What, answer_of
from fourgates.gates.controls import run_subject
from fourgates.gates.ledger import LedgerFold
from fourgates.gates.redaction_stream import Endless
from fourgates.sanitizer.contents import Shown
from fourgates.sanitizer.first_answers import FirstAnswers
from fourgates.sanitizer.results import Gone, Results
from fourgates.sanitizer.upkeep import Upkeep

UNREADABLE = "The call took effect, but what it returned could not be read."
NOT_SHOWN = "The call succeeded, but what it returned is not fit to be shown."
_NOTHING = Shown()
_LOOKS_FOR_THE_FIRST = 8
"""With the pauses of an intake between them some seconds."""


class SanitizerStage(BaseStage):
    """Folds the ledger and answers. All final answers of a call have the same bytes: the first one's.

    `publisher` is for one case only: a result that lies in a raw blob. Its answer is published here, because the blob may be
    removed only once the answer is acknowledged; every other answer is handed to the runtime.
    """

    name = "sanitizer"
    reads = CALLS_LEDGER
    restores = True

    def __init__(self, answers: FirstAnswers, results: Results, upkeep: Upkeep, publisher: Publisher, producer: str) -> None:
        self._answers, self._results, self._upkeep = answers, results, upkeep
        self._publisher, self._producer = publisher, producer
        self._fold = LedgerFold()
        self._looked: dict[str, int] = {}

    async def start(self) -> None:
        await self._answers.start()

    async def assigned(self, partitions: Sequence[int]) -> None:
        self._fold = LedgerFold()
        await self._answers.catch_up()  # what the owner before us has answered

    async def revoked(self) -> None:
        self._fold = LedgerFold()
        self._answers.forget_just_made()

    async def tick(self) -> Sequence[Emit]:
        self._upkeep.tick()
        return ()

    async def close(self) -> None:
        await self._upkeep.close()
        await self._answers.close()

    def fold(self, envelope: Envelope) -> Told | None:
        """What this entry tells, by what the log says up to it."""
        change = self._fold.apply(envelope)
        return answer_of(change.before, change.after, envelope.record)

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        entry: LedgerEntry = envelope.record
        told: Told | None = envelope.folded
        completed = None if told is None else await self._completed(envelope, told)
        answer = self._stopping(envelope, completed) if completed is not None else ()
        if entry.result is None or not entry.result.blob_ref:
            return answer
        for record in answer:
            await self._publisher.publish(record)
        await self._results.discard(entry.result, _about(entry).tenant)
        return ()

    def last_word(self, envelope: Envelope) -> Sequence[Emit]:
        """What is told where our own code failed on a proven entry. The ledger has spoken: a committed write stays one."""
        told, entry = envelope.folded, envelope.record
        if not isinstance(told, Told) or entry.about is None:
            return ()
        if told.what is What.OTHERS:
            return (self._written(envelope, Observation(Code.UNAVAILABLE, entry.call_id, reason="first_answer_unreadable")),)
        if told.what is not What.FIRST:
            return ()
        if told.code is Code.OK and entry.about.risk != Risk.READ.value:
            observation = Observation(Code.OK, entry.call_id, reason="result_unreadable", message=UNREADABLE)
        else:
            code = Code.INTERNAL if told.code is Code.OK else told.code
            observation = Observation(code, entry.call_id, reason="result_unreadable" if told.code is Code.OK else "")
        return self._stopping(envelope, self._written(envelope, observation))

    def _stopping(self, envelope: Envelope, answer: CallCompleted) -> Sequence[Emit]:
        """The answer; one that says `internal` only after its run is stopped, so that nobody hears of it and can still call."""
        if answer.code != Code.INTERNAL:
            return (answer,)
        stop = Control(
            event_id=ids.event_id(envelope.record.event_id, self.name, "Control"), producer=self._producer,
            cause=cause_of(envelope), kind=ControlKind.STOP, subject=run_subject(answer.tenant, answer.run_id),
            reason=f"call {answer.call_id} ended internal", by=self.name, said_ms=envelope.time_ms,
        )  # fmt: skip
        return stop, answer

    async def _completed(self, envelope: Envelope, told: Told) -> CallCompleted:
        entry: LedgerEntry = envelope.record
        match told.what:
            case What.FIRST:
                known = await self._answers.caused_by(entry)
                return self._repeated(envelope, known) if known is not None else await self._first(envelope, told)
            case What.AGAIN:
                known = await self._answers.of(entry.call_id, told.since_ms)
                return self._repeated(envelope, known) if known is not None else self._plain(envelope, told)
            case What.OTHERS:
                return await self._others(envelope, told)
        return self._plain(envelope, told)

    async def _first(self, envelope: Envelope, told: Told) -> CallCompleted:
        entry: LedgerEntry = envelope.record
        if not told.with_content or entry.result is None:
            return self._plain(envelope, told)
        about = _about(entry)
        try:
            shown = await self._results.shown(entry.result, entry.call_id, about)
        except Gone:
            # Its blob is removed after the answer: somebody has given it meanwhile, and it is on its way to our index.
            await self._answers.catch_up()
            known = await self._answers.caused_by(entry)
            if known is None:
                raise
            return self._repeated(envelope, known)
        except Endless:
            return self._plain(envelope, dataclasses.replace(told, reason="result_not_shown", sentence=NOT_SHOWN))
        return self._plain(envelope, told, shown)

    async def _others(self, envelope: Envelope, told: Told) -> CallCompleted:
        """Another call had the effect first, and the contract says that its answer is this call's as well."""
        entry: LedgerEntry = envelope.record
        own = await self._answers.of(entry.call_id)
        if own is not None:
            return self._repeated(envelope, own)
        first = await self._answers.of(told.answers)
        if first is None:
            return self._without_the_first(envelope, told)
        self._looked.pop(entry.event_id, None)
        if first.tenant != _about(entry).tenant:
            raise Poison("other_tenant", "the call that answers is another tenant's")
        observation = dataclasses.replace(Observation.from_json(first.observation), call_id=entry.call_id, replayed=True)
        shown = Shown(truncated=first.truncated, size=first.output_bytes, redactions=first.redactions)
        return self._written(envelope, observation, shown)

    def _without_the_first(self, envelope: Envelope, told: Told) -> CallCompleted:
        """The call that answers may end at any moment, or be in doubt for days: it is waited for some tries long.

        Then this one is told what it has come to by itself: the effect is another call's.
        """
        looked = self._looked.pop(envelope.record.event_id, 0) + 1
        if looked < _LOOKS_FOR_THE_FIRST:
            self._looked[envelope.record.event_id] = looked
            raise Transient("the call that answers has no answer yet")
        if told.code is Code.DUPLICATE_EFFECT:
            return self._plain(envelope, told)
        return self._written(envelope, Observation(Code.UNAVAILABLE, envelope.record.call_id, reason="first_call_not_ended"))

    def _plain(self, envelope: Envelope, told: Told, shown: Shown = _NOTHING) -> CallCompleted:
        entry: LedgerEntry = envelope.record
        details = (entry.field, entry.faults) if told.with_details else ("", ())
        words = self._results.words(entry.call_id, _about(entry), told.reason, told.sentence, *details)
        observation = Observation(
            told.code, entry.call_id, words.reason, words.field, words.faults, words.sentence, shown.text, shown.fields,
            shown.ref, shown.truncated,
        )  # fmt: skip
        return self._written(envelope, observation, shown)

    def _written(self, envelope: Envelope, observation: Observation, shown: Shown = _NOTHING) -> CallCompleted:
        entry: LedgerEntry = envelope.record
        about = _about(entry)
        completed = CallCompleted(
            event_id=ids.event_id(entry.event_id, self.name, "CallCompleted"), producer=self._producer,
            cause=cause_of(envelope), call_id=entry.call_id, run_id=about.run_id, tenant=about.tenant,
            tool_call_id=about.tool_call_id, code=observation.code.value, final=CODES[observation.code].final,
            observation=observation.to_json(), output_bytes=shown.size, truncated=shown.truncated,
            redactions=shown.redactions, signals=shown.signals,
        )  # fmt: skip
        self._answers.remember(completed)
        return completed

    def _repeated(self, envelope: Envelope, first: CallCompleted) -> CallCompleted:
        """The same bytes as an event of its own; the same event where the same entry is handled again."""
        return dataclasses.replace(
            first, event_id=ids.event_id(envelope.record.event_id, self.name, "CallCompleted"), producer=self._producer,
            cause=cause_of(envelope), seal=EMPTY_SEAL,
        )  # fmt: skip


def _about(entry: LedgerEntry) -> CallRef:
    if entry.about is None:
        raise Poison("no_call", f"a {entry.kind} does not say which call it is about")
    return entry.about
