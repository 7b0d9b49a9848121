"""The records that the authorizer writes."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    CallCleared,
    CallValidated,
    ClearedKind,
    Held,
    LedgerEntry,
    LedgerKind,
)
from fourgates.contract.parts import Gate, Verdict, ref_of
from fourgates.contract.ports import Envelope, Signer
from fourgates.contract.seals import WAIVED_BY, seal_verdict
from fourgates.contract.stage import cause_of
from fourgates.gates.clearance import Clear, Hold
from fourgates.gates.permission import Permit
from fourgates.gates.refusal import Refusal

STAGE = "authorizer"


@dataclass(frozen=True, slots=True)
class Emits:
    """Makes the authorizer's records; each names its input as cause and repeats its id when the input comes again."""

    producer: str
    signer: Signer
    """The authorizer's own seal on its verdicts; the records themselves are sealed when they are published."""

    def refused(self, cause: Envelope, refusal: Refusal) -> LedgerEntry:
        call = cause.record.call
        return LedgerEntry(
            event_id=self._id(cause, "Refused"), producer=self.producer, cause=cause_of(cause),
            kind=LedgerKind.REFUSED, call_id=call.call_id, about=ref_of(call), code=refusal.code.value, reason=refusal.reason,
            field=refusal.field, faults=tuple(refusal.faults), sentence=refusal.sentence,
            detail=json.dumps(dict(refusal.detail)),
        )  # fmt: skip

    def cleared(self, cause: Envelope, clear: Clear) -> CallCleared:
        return CallCleared(
            event_id=self._id(cause, "CallCleared"), producer=self.producer, cause=cause_of(cause),
            kind=ClearedKind.CLEARED, call=cause.record.call, verdicts=self._verdicts(cause, clear.permit),
        )  # fmt: skip

    def held(self, cause: Envelope, hold: Hold, expires_ms: int) -> ApprovalEvent:
        """The hold's id is the event id of this record."""
        validated: CallValidated = cause.record
        own, need = self._id(cause, "Held"), hold.need
        detail = {
            "policies": list(hold.permit.policies), "policies_digest": hold.permit.digest, "asked_by": hold.permit.asked_by,
            "breaches_digest": digest([dataclasses.asdict(breach) for breach in hold.breaches]) if hold.breaches else "",
        }  # fmt: skip
        obligation = f"approval:{need.group}:{need.quorum}"
        return ApprovalEvent(
            event_id=own, producer=self.producer, cause=cause_of(cause),
            kind=ApprovalKind.HELD, hold_id=own, call_id=validated.call.call_id,
            held=Held(
                call=validated.call, verdicts=self._verdicts(cause, hold.permit, obligation), reason=hold.reason,
                detail=canonical(detail).decode(), breaches=hold.breaches, facts=validated.facts,
                group=need.group, quorum=need.quorum, expires_ms=expires_ms,
            ),
        )  # fmt: skip

    def _verdicts(self, cause: Envelope, permit: Permit, *obligations: str) -> tuple[Verdict, ...]:
        validated: CallValidated = cause.record
        reasons: dict[str, Any] = {"policies": list(permit.policies), "digest": permit.digest}
        if permit.waived_by and not obligations:
            reasons[WAIVED_BY] = list(permit.waived_by)
        verdict = Verdict(
            gate=Gate.AUTHORIZER, key_id="", at_ms=cause.time_ms, reasons=canonical(reasons).decode(), obligations=obligations
        )
        return seal_verdict(self.signer, validated.call, verdict, validated.verdicts)

    def _id(self, cause: Envelope, kind: str) -> str:
        return ids.event_id(cause.record.event_id, STAGE, kind)
