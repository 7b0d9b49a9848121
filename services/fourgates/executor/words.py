"""The executor's entries: how each word of the ledger and of the other logs is written. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fourgates.contract import ids
from fourgates.contract.codes import Code
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    CallCleared,
    EffectEntry,
    EffectKind,
    Held,
    HoldReason,
    LedgerEntry,
    LedgerKind,
)
from fourgates.contract.parts import Call, Cause, EffectClaim, Gate, ResultBox, ref_of
from fourgates.executor.attempts import Attempt
from fourgates.gates.quota import Asked
from fourgates.gates.refusal import Refusal

STAGE = "executor"


class Words:
    """Writes the entries of one executor process."""

    def __init__(self, producer: str) -> None:
        self._producer = producer

    def entry(self, kind: LedgerKind, about: Call, cause: Cause | None, *more: str, **fields: Any) -> LedgerEntry:
        """Any entry; its id follows from what caused it, so that a redelivered input repeats it."""
        root = cause.event_id if cause is not None else fields.get("claim_id", "")
        return LedgerEntry(
            event_id=ids.event_id(root, STAGE, kind.value, *more), producer=self._producer, cause=cause, kind=kind,
            call_id=about.call_id, about=ref_of(about), **fields,
        )  # fmt: skip

    def claimed(self, cleared: CallCleared, cause: Cause, claim_id: str, lease_ms: int) -> LedgerEntry:
        return self.entry(
            LedgerKind.CLAIMED, cleared.call, cause, claim_id, claim_id=claim_id, call=cleared.call,
            verdicts=cleared.verdicts, hold_id=cleared.hold_id, lease_ms=lease_ms,
            approved_until_ms=cleared.approved_until_ms,
        )  # fmt: skip

    def attempted(self, call: Call, claim_id: str, attempt: str, by: str) -> LedgerEntry:
        return self.entry(LedgerKind.ATTEMPTED, call, None, attempt, claim_id=claim_id, attempt=attempt, by=by)

    def refused(
        self, call: Call, cause: Cause | None, refusal: Refusal, claim_id: str = "", vouches: int | None = None
    ) -> LedgerEntry:
        """The end of the call; without a claim, the word of a gate or the answer to a read."""
        return self.entry(LedgerKind.REFUSED, call, cause, claim_id, claim_id=claim_id, vouches=vouches, **_told(refusal))

    def released(
        self, call: Call, cause: Cause | None, claim_id: str, vouches: int, refusal: Refusal | None = None
    ) -> LedgerEntry:
        """Nothing ran: the key may try again. With a refusal, its (transient) code is told."""
        told = _told(refusal) if refusal is not None else {}
        return self.entry(LedgerKind.RELEASED, call, cause, claim_id, claim_id=claim_id, vouches=vouches, **told)

    def finished(
        self,
        call: Call,
        cause: Cause | None,
        attempt: Attempt,
        *,
        claim_id: str = "",
        outcome: str,
        vouches: int | None = None,
        result: ResultBox | None = None,
        started_ms: int = 0,
        duration_ms: int = 0,
        detail: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        code = "" if outcome == "committed" else attempt.code.value
        return self.entry(
            LedgerKind.FINISHED, call, cause, claim_id, outcome, claim_id=claim_id, outcome=outcome, vouches=vouches,
            code=code, reason=attempt.reason, sentence=attempt.sentence, result=result,
            state_change=json.dumps(attempt.state_change or {}, sort_keys=True, default=str),
            started_ms=started_ms, duration_ms=duration_ms, detail=_json(detail or {}),
        )  # fmt: skip

    def in_doubt(
        self, call: Call, cause: Cause | None, claim_id: str, reason: str, detail: Mapping[str, Any] | None = None
    ) -> LedgerEntry:
        return self.entry(
            LedgerKind.IN_DOUBT, call, cause, claim_id, claim_id=claim_id, code=Code.IN_DOUBT.value, reason=reason,
            detail=_json(detail or {}),
        )  # fmt: skip

    def replayed(self, call: Call, cause: Cause) -> LedgerEntry:
        """The call has ended: its first answer is told again."""
        return self.entry(LedgerKind.REPLAYED, call, cause)

    def effect_claimed(self, cleared: CallCleared, cause: Cause, claim_id: str, fence: int, window_ms: int) -> EffectEntry:
        call = cleared.call
        return EffectEntry(
            event_id=ids.event_id(claim_id, STAGE, "EffectClaimed"), producer=self._producer, cause=cause,
            kind=EffectKind.CLAIMED, effect_key=call.effect_key, call_id=call.call_id, fence=fence, claim_id=claim_id,
            window_ms=window_ms, supersedes=cleared.supersedes, subject=call.principal.subject,
        )  # fmt: skip

    def effect_released(self, effect_key: str, call_id: str, fence: int) -> EffectEntry:
        return EffectEntry(
            event_id=ids.event_id(call_id, STAGE, "EffectReleased", effect_key, str(fence)), producer=self._producer,
            kind=EffectKind.RELEASED, effect_key=effect_key, call_id=call_id, fence=fence,
        )  # fmt: skip

    def reserved(self, cleared: CallCleared, cause: Cause, claim_id: str, fence: int, ask: Asked) -> EffectEntry:
        return EffectEntry(
            event_id=ids.event_id(claim_id, STAGE, "Reserved", ask.key), producer=self._producer, cause=cause,
            kind=EffectKind.RESERVED, effect_key=ask.key, call_id=cleared.call.call_id, fence=fence, claim_id=claim_id,
            window_ms=ask.lasts_ms, amount=ask.amount, limit=ask.limit,
        )  # fmt: skip

    def returned(self, key: str, call_id: str, fence: int, amount: int) -> EffectEntry:
        return EffectEntry(
            event_id=ids.event_id(call_id, STAGE, "Returned", key, str(fence)), producer=self._producer,
            kind=EffectKind.RETURNED, effect_key=key, call_id=call_id, fence=fence, amount=amount,
        )  # fmt: skip

    def held_near_duplicate(
        self, cleared: CallCleared, cause: Cause, rivals: tuple[EffectClaim, ...], expires_ms: int, default_group: str
    ) -> ApprovalEvent:
        group, quorum = _obliged(cleared, default_group)
        first = rivals[0]
        held = Held(
            call=cleared.call, verdicts=cleared.verdicts, reason=HoldReason.NEAR_DUPLICATE,
            detail=json.dumps({"first_call": first.call_id, "effect_key": cleared.call.effect_key}, sort_keys=True),
            group=group, quorum=quorum, expires_ms=expires_ms, supersedes=(*cleared.supersedes, *rivals),
        )  # fmt: skip
        return self._held(ids.event_id(cause.event_id, STAGE, "Held", first.call_id, str(first.fence)), cause, held)

    def held_afresh(
        self, cleared: CallCleared, cause: Cause, refusal: Refusal, expires_ms: int, default_group: str
    ) -> ApprovalEvent:
        """Asks people once more, about what the call would do now. Nothing of their first yes answers this question."""
        group, quorum = _obliged(cleared, default_group)
        held = Held(
            call=cleared.call, verdicts=cleared.verdicts,
            reason=HoldReason.NEAR_DUPLICATE if cleared.supersedes else HoldReason.POLICY,
            detail=json.dumps({"changed": refusal.reason, "instead_of": cleared.hold_id}, sort_keys=True),
            group=group, quorum=quorum, expires_ms=expires_ms, supersedes=cleared.supersedes, instead_of=cleared.hold_id,
        )  # fmt: skip
        return self._held(ids.event_id(cause.event_id, STAGE, "Held", "afresh", cleared.hold_id), cause, held)

    def held_in_doubt(
        self, claim: LedgerEntry, attempts: int, reason: str, not_before_ms: int, default_group: str
    ) -> ApprovalEvent:
        """Asks people about a claim in doubt; the same claim with the same attempts is the same hold."""
        call = claim.call
        if call is None:
            raise ValueError("a Claimed entry carries its call")
        held = Held(
            call=call, verdicts=claim.verdicts, reason=HoldReason.IN_DOUBT,
            detail=json.dumps({"attempts": attempts, "reason": reason}, sort_keys=True), group=default_group, quorum=1,
            expires_ms=None, not_before_ms=not_before_ms, claim_id=claim.claim_id, attempts=attempts,
        )  # fmt: skip
        return self._held(ids.event_id(claim.claim_id, STAGE, "Held", "in_doubt", str(attempts)), None, held)

    def _held(self, hold_id: str, cause: Cause | None, held: Held) -> ApprovalEvent:
        return ApprovalEvent(
            event_id=hold_id, producer=self._producer, cause=cause, kind=ApprovalKind.HELD, hold_id=hold_id,
            call_id=held.call.call_id, held=held,
        )  # fmt: skip

    def resolved(self, cleared: CallCleared, cause: Cause) -> LedgerEntry:
        """What a person of the resolving group says, as the ledger's word."""
        said = cleared.resolution
        if said is None:
            raise ValueError("a resolution says what was resolved")
        return self.entry(
            LedgerKind.RESOLVED, cleared.call, cause, claim_id=said.claim_id, outcome=said.outcome,
            vouches=said.attempts, hold_id=cleared.hold_id,
            detail=json.dumps({"person": said.person}, sort_keys=True),
        )  # fmt: skip


def _told(refusal: Refusal) -> dict[str, Any]:
    return {
        "code": refusal.code.value, "reason": refusal.reason, "field": refusal.field, "faults": tuple(refusal.faults),
        "sentence": refusal.sentence, "detail": _json(refusal.detail),
    }  # fmt: skip


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, default=str)


def _obliged(cleared: CallCleared, default_group: str) -> tuple[str, int]:
    """The group and quorum that the policy named for this call, else the default."""
    for verdict in cleared.verdicts:
        if verdict.gate is Gate.AUTHORIZER:
            for obligation in verdict.obligations:
                kind, _, rest = obligation.partition(":")
                group, _, quorum = rest.rpartition(":")
                if kind == "approval" and group and quorum.isdigit():
                    return group, int(quorum)
    return default_group, 1
