"""One plausible record of every topic, for tests that need a whole one rather than a random one."""

from __future__ import annotations

from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    AuditWatermark,
    CallCleared,
    CallCompleted,
    CallRequested,
    CallValidated,
    ClearedKind,
    Control,
    ControlKind,
    DeadRecord,
    EffectEntry,
    EffectKind,
    LedgerEntry,
    LedgerKind,
    Record,
    RequestKind,
)
from fourgates.contract.parts import Breach, Call, Cause, EffectClaim, Gate, Origin, Principal, Risk, Verdict, ref_of

RUN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
PRINCIPAL = Principal(
    issuer="https://issuer.example", subject="anna", tenant="acme", person="anna", agent="support-bot", groups=("support",)
)
CALL = Call(
    call_id="c" * 64,
    run_id=RUN_ID,
    tool_call_id="call-1",
    principal=PRINCIPAL,
    tool="refund_order",
    tool_version="v" * 64,
    risk=Risk.WRITE,
    arguments='{"order_id":"A-1001"}',
    args_digest="d" * 64,
    effect_key="acme/refund/1",
    origins=(Origin(pointer="/order_id", origin="user"),),
    intent="refund order A-1001",
    allowed_actions=("refund_order",),
    deadline_ms=1_700_000_060_000,
    requested_ms=1_700_000_000_000,
)
VERDICT = Verdict(gate=Gate.VALIDATOR, key_id="validator:1", at_ms=1_700_000_000_100, reasons="{}", mac=b"m" * 32)
_HEAD = {
    "event_id": "e" * 32,
    "producer": "sample@localhost:1",
    "cause": Cause(event_id="0" * 32, topic="calls.requested", partition=3, offset=7),
}

REQUESTED = CallRequested(
    **_HEAD, kind=RequestKind.CALL, call_id=CALL.call_id, run_id=RUN_ID, tool_call_id="call-1", tool="refund_order",
    arguments='{"order_id": "A-1001"}', deadline_ms=CALL.deadline_ms, grant="g",
)  # fmt: skip

SEALED: tuple[tuple[str, Record], ...] = (
    ("validator", CallValidated(
        **_HEAD, call=CALL, facts='{"owned":true}', facts_ms=1_700_000_000_050, verdicts=(VERDICT,),
        breaches=(Breach(pointer="/order_id", origin="model", allowed=("user",), on_breach="hold"),),
    )),
    ("waiter", ApprovalEvent(**_HEAD, kind=ApprovalKind.EXPIRED, hold_id="h" * 32, call_id=CALL.call_id)),
    ("authorizer", CallCleared(**_HEAD, kind=ClearedKind.CLEARED, call=CALL, verdicts=(VERDICT,))),
    ("executor", LedgerEntry(
        **_HEAD, kind=LedgerKind.CLAIMED, call_id=CALL.call_id, claim_id="1" * 32, lease_ms=5_000, call=CALL,
        about=ref_of(CALL),
    )),
    ("executor", EffectEntry(
        **_HEAD, kind=EffectKind.CLAIMED, effect_key=CALL.effect_key, call_id=CALL.call_id, fence=4,
        supersedes=(EffectClaim(call_id="b" * 64, fence=2),),
    )),
    ("operator", Control(**_HEAD, kind=ControlKind.DISABLE, subject="tool:refund_order", reason="an incident", by="olga")),
    ("sanitizer", CallCompleted(
        **_HEAD, call_id=CALL.call_id, run_id=RUN_ID, tenant="acme", tool_call_id="call-1", code="ok", final=True,
        observation="{}",
    )),
    ("audit", AuditWatermark(**_HEAD, topic="calls.ledger", partition=3, offset=8)),
    ("validator", DeadRecord(
        **_HEAD, worker="validator", topic="calls.requested", partition=1, offset=2, at_ms=3, reason="bad_grant", detail="",
        digest="f" * 64, size=2, record_key=b"k", payload=b"xx",
    )),
)  # fmt: skip
"""(writer, record) of every topic whose records a stage, an operator or the waiter seals."""
