"""The records that the validator writes; each names its request as cause and repeats its id when the request comes again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import CallValidated, LedgerEntry, LedgerKind
from fourgates.contract.parts import Breach, Call, CallRef, Gate, Verdict
from fourgates.contract.ports import Envelope, Signer
from fourgates.contract.seals import seal_verdict
from fourgates.contract.stage import cause_of
from fourgates.gates.refusal import Refusal

STAGE = "validator"


@dataclass(frozen=True, slots=True)
class Emits:
    """Makes the validator's records."""

    producer: str
    signer: Signer
    """The seal on its verdicts; the records themselves are sealed when they are published."""

    def refused(self, request: Envelope, about: CallRef, refusal: Refusal) -> LedgerEntry:
        return LedgerEntry(
            event_id=self._id(request, "Refused"), producer=self.producer, cause=cause_of(request),
            kind=LedgerKind.REFUSED, call_id=request.record.call_id, about=about, code=refusal.code.value,
            reason=refusal.reason, field=refusal.field, faults=tuple(refusal.faults), sentence=refusal.sentence,
            detail=json.dumps(dict(refusal.detail), sort_keys=True),
        )  # fmt: skip

    def cancelled(self, request: Envelope, about: CallRef) -> LedgerEntry:
        return LedgerEntry(
            event_id=self._id(request, "Cancelled"), producer=self.producer, cause=cause_of(request),
            kind=LedgerKind.CANCELLED, call_id=request.record.call_id, about=about, code=Code.CANCELLED.value,
        )  # fmt: skip

    def validated(
        self, request: Envelope, call: Call, facts: dict[str, Any], facts_ms: int, breaches: tuple[Breach, ...], rules: list[str]
    ) -> CallValidated:
        """The call with the first seal on it: format and business rules are satisfied."""
        verdict = Verdict(
            gate=Gate.VALIDATOR, key_id="", at_ms=request.time_ms,
            reasons=json.dumps({"rules": rules, "breaches": len(breaches)}),
        )  # fmt: skip
        return CallValidated(
            event_id=self._id(request, "CallValidated"), producer=self.producer, cause=cause_of(request),
            call=call, facts=json.dumps(facts, sort_keys=True, allow_nan=False), facts_ms=facts_ms, breaches=breaches,
            verdicts=seal_verdict(self.signer, call, verdict, ()),
        )  # fmt: skip

    def _id(self, request: Envelope, kind: str) -> str:
        # With the call id: a host chooses its requests' event ids, and must not be able to repeat another call's entry.
        return ids.event_id(request.record.event_id, STAGE, kind, request.record.call_id)
