"""The records that the waiter writes."""

from __future__ import annotations

import json
from dataclasses import dataclass

from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    CallCleared,
    ClearedKind,
    Decided,
    Held,
    LedgerEntry,
    LedgerKind,
    Requested,
)
from fourgates.contract.parts import Cause, Gate, Resolution, Verdict, ref_of
from fourgates.contract.ports import Envelope, Signer
from fourgates.contract.seals import seal_verdict
from fourgates.contract.stage import cause_of
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import HoldState

STAGE = "waiter"
TOLD_CHARS = 500
"""As much of a denial's text as may reach a model."""


@dataclass(frozen=True, slots=True)
class Emits:
    """Makes the waiter's records; each names its input as cause and repeats its id when the input comes again."""

    producer: str
    signer: Signer
    """The waiter's own seal on its verdicts; the records themselves are sealed when they are published."""

    def requested(self, held: Envelope, requested: Requested) -> ApprovalEvent:
        return ApprovalEvent(
            event_id=self._id(held, "Requested"), producer=self.producer, cause=cause_of(held),
            kind=ApprovalKind.REQUESTED, hold_id=held.record.event_id, call_id=held.record.call_id, requested=requested,
        )  # fmt: skip

    def pending(self, held: Envelope, hold_id: str) -> LedgerEntry:
        """Tells the asker that people decide. The place in its id lets a repeated question be answered once more."""
        return LedgerEntry(
            event_id=self._id(held, "Pending", _place(held)), producer=self.producer, cause=cause_of(held),
            kind=LedgerKind.PENDING, call_id=held.record.call_id, about=ref_of(held.record.held.call),
            code=Code.APPROVAL_PENDING.value, hold_id=hold_id,
        )  # fmt: skip

    def replayed(self, cause: Envelope, hold: HoldState) -> LedgerEntry:
        """The call has ended: its first answer is sent again."""
        return LedgerEntry(
            event_id=self._id(cause, "Replayed", _place(cause)), producer=self.producer, cause=cause_of(cause),
            kind=LedgerKind.REPLAYED, call_id=hold.call_id, about=hold.about,
        )  # fmt: skip

    def refused(self, cause: Envelope, hold: HoldState, code: Code, reason: str = "") -> LedgerEntry:
        """The call's last word. What a person wrote reaches the model only where they marked it so."""
        said: Decided | None = cause.record.decided
        sentence = ""
        if said is not None and said.tell_model and said.reason:
            sentence = f"{CODES[code].message} The person's words: {said.reason[:TOLD_CHARS]}"
        return LedgerEntry(
            event_id=self._id(cause, "Refused", hold.hold_id), producer=self.producer, cause=cause_of(cause),
            kind=LedgerKind.REFUSED, call_id=hold.call_id, about=hold.about, code=code.value, reason=reason or hold.reason.value,
            sentence=sentence, hold_id=hold.hold_id,
            detail=json.dumps({"hold_id": hold.hold_id, "group": hold.group, "by": hold.ended_by}),
        )  # fmt: skip

    def cleared(self, cause: Envelope, held: Held, hold: HoldState) -> CallCleared:
        """What people approved, with the waiter's sealed verdict in the place of any earlier one of its own."""
        reasons = {
            "hold_id": hold.hold_id, "reason": hold.reason.value, "group": hold.group, "quorum": hold.quorum,
            "approvers": list(hold.approvers), "shown_digest": hold.shown_digest,
        }  # fmt: skip
        yes = Verdict(
            gate=Gate.WAITER, key_id="", at_ms=hold.ended_ms, reasons=json.dumps(reasons), preview_digest=hold.preview_digest
        )
        gates = tuple(v for v in held.verdicts if v.gate is not Gate.WAITER)
        return CallCleared(
            event_id=self._id(cause, "CallCleared", hold.hold_id, _place(cause)), producer=self.producer, cause=cause_of(cause),
            kind=ClearedKind.CLEARED, call=held.call, verdicts=seal_verdict(self.signer, held.call, yes, gates),
            hold_id=hold.hold_id, hold_reason=hold.reason.value, approved_until_ms=hold.expires_ms,
            approvers=hold.approvers, supersedes=held.supersedes,
        )  # fmt: skip

    def resolved(self, cause: Envelope, held: Held, hold: HoldState) -> CallCleared:
        """A person's word on a call in doubt; it covers the attempts that they were shown and no others."""
        return CallCleared(
            event_id=self._id(cause, "Resolution", hold.hold_id), producer=self.producer, cause=cause_of(cause),
            kind=ClearedKind.RESOLUTION, call=held.call, verdicts=held.verdicts, hold_id=hold.hold_id,
            hold_reason=hold.reason.value,
            resolution=Resolution(
                claim_id=held.claim_id, outcome=hold.verdict, attempts=held.attempts, person=hold.ended_by
            ),
        )  # fmt: skip

    def withdrawn(self, hold: HoldState, reason: str) -> ApprovalEvent:
        return self._of_time(ApprovalKind.WITHDRAWN, hold, reason)

    def expired(self, hold: HoldState) -> ApprovalEvent:
        return self._of_time(ApprovalKind.EXPIRED, hold, "")

    def _of_time(self, kind: ApprovalKind, hold: HoldState, reason: str) -> ApprovalEvent:
        """What no input brings bears a random id: said again, it must count again."""
        where = hold.position
        cause = Cause(event_id=hold.hold_id, topic=APPROVALS, partition=where.partition, offset=where.offset)
        return ApprovalEvent(
            event_id=ids.random_id(), producer=self.producer, cause=cause,
            kind=kind, hold_id=hold.hold_id, call_id=hold.call_id, reason=reason,
        )  # fmt: skip

    def _id(self, cause: Envelope, kind: str, *more: str) -> str:
        return ids.event_id(cause.record.event_id, STAGE, kind, *more)


def _place(envelope: Envelope) -> str:
    return f"{envelope.position.partition}/{envelope.position.offset}"
