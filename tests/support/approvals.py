"""Holds, people and what they say: what the tests of approval are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from fourgates.contract.events import ApprovalEvent, ApprovalKind, Decided, Held, HoldReason, Requested
from fourgates.contract.parts import Call, Principal, Verdict
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import APPROVALS
from support.samples import CALL, PRINCIPAL

GROUP = "finance"
SHOWN = "5" * 64


def person(name: str, **other: Any) -> Principal:
    """Somebody of the call's tenant who may decide for its group."""
    plain = Principal(issuer=PRINCIPAL.issuer, subject=name, tenant=PRINCIPAL.tenant, person=name, groups=(GROUP,))
    return dataclasses.replace(plain, **other)


def held(
    hold_id: str,
    call: Call = CALL,
    *,
    reason: HoldReason = HoldReason.RISK,
    verdicts: tuple[Verdict, ...] = (),
    **other: Any,
) -> ApprovalEvent:
    """A Held with this id; `other` goes to the Held itself."""
    fields: dict[str, Any] = {"detail": "{}", "group": GROUP, "quorum": 1, "expires_ms": 1_000} | other
    inner = Held(call=call, verdicts=verdicts, reason=reason, **fields)
    return _event(ApprovalKind.HELD, hold_id, call.call_id, event_id=hold_id, held=inner)


def requested(hold_id: str, *, call_id: str = CALL.call_id, shown_digest: str = SHOWN, approvable: bool = True) -> ApprovalEvent:
    inner = Requested(shown="{}", shown_digest=shown_digest, preview_digest="p" + shown_digest[1:], approvable=approvable)
    return _event(ApprovalKind.REQUESTED, hold_id, call_id, requested=inner)


def decided(
    hold_id: str, verdict: str, who: Principal, *, call_id: str = CALL.call_id, shown_digest: str = SHOWN, **other: Any
) -> ApprovalEvent:
    inner = Decided(verdict=verdict, shown_digest=shown_digest, principal=who, **other)
    return _event(ApprovalKind.DECIDED, hold_id, call_id, decided=inner)


def expired(hold_id: str, *, call_id: str = CALL.call_id) -> ApprovalEvent:
    return _event(ApprovalKind.EXPIRED, hold_id, call_id)


def withdrawn(hold_id: str, *, call_id: str = CALL.call_id) -> ApprovalEvent:
    return _event(ApprovalKind.WITHDRAWN, hold_id, call_id)


def _event(kind: ApprovalKind, hold_id: str, call_id: str, *, event_id: str = "", **part: Any) -> ApprovalEvent:
    name = event_id or f"{kind.value}-{hold_id}"
    return ApprovalEvent(event_id=name, producer="test", kind=kind, hold_id=hold_id, call_id=call_id, **part)


def log_of(entries: Iterable[tuple[int, ApprovalEvent]], writer: str = "waiter") -> list[Envelope]:
    """(broker time in ms, entry) pairs as one partition."""
    return [Envelope(entry, Position(APPROVALS, 0, n), time_ms, writer) for n, (time_ms, entry) in enumerate(entries)]
