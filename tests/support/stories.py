"""Lives of calls as sealed records on a tape: what the tests of the audit are made from."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest
from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    CallCleared,
    CallCompleted,
    CallRequested,
    CallValidated,
    ClearedKind,
    Decided,
    EffectEntry,
    EffectKind,
    Held,
    HoldReason,
    LedgerEntry,
    LedgerKind,
    Record,
    Requested,
    RequestKind,
)
from fourgates.contract.observation import Observation
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import Call, Gate, Resolution, Risk, Verdict, ref_of
from fourgates.contract.ports import Position, Received
from fourgates.contract.topology import BY_NAME
from support.approvals import person
from support.samples import CALL, PRINCIPAL, RUN_ID
from support.sealing import writer

START_MS = 1_800_000_000_000
GROUP = "finance"
PREVIEW = digest({"target": "A-1001", "before": "100", "after": "0"})


class Tape:
    """Records in the order in which they were appended, each ten milliseconds after the one before."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms
        self.received: list[Received] = []
        self._next: dict[tuple[str, int], int] = {}

    def put(self, sealed_by: str, record: Record, headers: tuple[tuple[str, bytes], ...] = ()) -> Received:
        """Appends it as its writer's sealed bytes; a host's request is sealed by nobody here."""
        topic, key, value = writer("executor" if sealed_by == "run" else sealed_by).encode(record)
        return self.put_raw(topic, key, value, headers=headers)

    def put_raw(
        self,
        topic: str,
        key: bytes,
        value: bytes | None,
        partition: int | None = None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Received:
        number = partition_of(key, BY_NAME[topic].partitions) if partition is None else partition
        offset = self._next.get((topic, number), 0)
        self._next[topic, number] = offset + 1
        self.now_ms += 10
        self.received.append(Received(Position(topic, number, offset), self.now_ms, key, value, headers))
        return self.received[-1]

    def lose(self, topic: str) -> None:
        """The next offset of every partition of the topic is never read."""
        for place in [place for place in self._next if place[0] == topic]:
            self._next[place] += 1


class Life:
    """One call's records, each as the stage would write it. Every method appends one record (or two) and returns nothing."""

    def __init__(self, tape: Tape, name: str = "call-1", **call: Any) -> None:
        self.tape = tape
        arguments = call.pop("arguments", {"order_id": "A-1001", "amount": 5})
        text = canonical(arguments).decode()
        self.call: Call = dataclasses.replace(
            CALL,
            call_id=ids.call_id(PRINCIPAL.issuer, PRINCIPAL.tenant, PRINCIPAL.subject, PRINCIPAL.agent, RUN_ID, name),
            tool_call_id=name,
            arguments=text,
            args_digest=digest(arguments),
            effect_key=ids.effect_key("acme", "refund", name),
            deadline_ms=tape.now_ms + 60_000,
            requested_ms=tape.now_ms,
            **call,
        )
        self.hold_id, self.claim_id, self._count = "", "", 0
        self._held: Call = self.call
        self._shown = "{}"

    @property
    def call_id(self) -> str:
        return self.call.call_id

    def asked(self, arguments: str | None = None, **other: Any) -> None:
        request = CallRequested(
            **self._head("asked"), kind=RequestKind.CALL, call_id=self.call_id, run_id=self.call.run_id,
            tool_call_id=self.call.tool_call_id, tool=self.call.tool, deadline_ms=self.call.deadline_ms, grant="opaque.grant",
            arguments=self.call.arguments if arguments is None else arguments, intent=self.call.intent,
            **({"user_turns": ("Please refund order A-1001.",)} | other),
        )  # fmt: skip
        self.tape.put("run", request)

    def validated(self, **other: Any) -> None:
        fields: dict[str, Any] = {"facts": '{"owned":true}', "facts_ms": self.tape.now_ms, "breaches": ()} | other
        record = CallValidated(**self._head("validated"), call=self.call, verdicts=(self._validator(),), **fields)
        self.tape.put("validator", record)

    def refused(self, by: str, code: Code, reason: str, **other: Any) -> None:
        self._ledger(LedgerKind.REFUSED, by, code=code.value, reason=reason, **other)

    def held(self, reason: HoldReason = HoldReason.RISK, quorum: int = 1, expires_ms: int | None = None, **other: Any) -> None:
        head = self._head("held", reason.value)
        self.hold_id, self._held = head["event_id"], self.call
        expires = self.tape.now_ms + 3_600_000 if expires_ms is None else expires_ms
        in_doubt = reason is HoldReason.IN_DOUBT
        inner = Held(
            call=self.call, verdicts=(self._validator(), self._authorizer(f"approval:{GROUP}:{quorum}")), reason=reason,
            detail="{}", group=GROUP, quorum=quorum, expires_ms=None if in_doubt else expires,
            **({"claim_id": self.claim_id, "attempts": 1} if in_doubt else {}), **other,
        )  # fmt: skip
        record = ApprovalEvent(**head, kind=ApprovalKind.HELD, hold_id=self.hold_id, call_id=self.call_id, held=inner)
        by = "executor" if reason in (HoldReason.IN_DOUBT, HoldReason.NEAR_DUPLICATE) else "authorizer"
        self.tape.put(by, record)

    def shown(self, **more: Any) -> None:
        self._shown = canonical({"tool": self.call.tool, "arguments": json.loads(self._held.arguments)} | more).decode()
        shown = self._shown
        inner = Requested(shown=shown, shown_digest=digest(shown), preview_digest=PREVIEW)
        self._approval(ApprovalKind.REQUESTED, "waiter", requested=inner)
        self._ledger(LedgerKind.PENDING, "waiter", code=Code.APPROVAL_PENDING.value, hold_id=self.hold_id)

    def decided(self, verdict: str, who: str, words: str = "") -> None:
        inner = Decided(verdict=verdict, shown_digest=digest(self._shown), principal=person(who), reason=words)
        self._approval(ApprovalKind.DECIDED, "approver", decided=inner)

    def expired(self) -> None:
        self._approval(ApprovalKind.EXPIRED, "waiter")

    def cleared(self, *approvers: str) -> None:
        """By the policies alone, or by the waiter where people approved."""
        by, held = ("waiter", True) if approvers else ("authorizer", False)
        record = CallCleared(
            **self._head("cleared"), kind=ClearedKind.CLEARED, call=self.call, verdicts=self._verdicts(approvers),
            hold_id=self.hold_id if held else "", hold_reason="risk" if held else "", approvers=approvers,
        )  # fmt: skip
        self.tape.put(by, record)

    def resolution(self, outcome: str, who: str) -> None:
        resolution = Resolution(claim_id=self.claim_id, outcome=outcome, attempts=1, person=who)
        record = CallCleared(
            **self._head("resolution"), kind=ClearedKind.RESOLUTION, call=self.call, verdicts=self._verdicts(()),
            hold_id=self.hold_id, hold_reason="in_doubt", resolution=resolution,
        )  # fmt: skip
        self.tape.put("waiter", record)

    def claimed(self, *approvers: str, **other: Any) -> None:
        self._count += 1
        self.claim_id = digest([self.call_id, self._count])[:32]
        fields: dict[str, Any] = {
            "call": self.call, "verdicts": self._verdicts(approvers), "hold_id": self.hold_id if approvers else "",
            "lease_ms": 5_000,
        } | other  # fmt: skip
        self._ledger(LedgerKind.CLAIMED, "executor", claim_id=self.claim_id, **fields)
        effect = EffectEntry(
            **self._head("effect"), kind=EffectKind.CLAIMED, effect_key=self.call.effect_key, call_id=self.call_id, fence=1,
            claim_id=self.claim_id, window_ms=86_400_000, subject=self.call.principal.subject,
        )  # fmt: skip
        self.tape.put("executor", effect)

    def attempted(self, attempt: str = "a1", by: str = "holder") -> None:
        self._ledger(LedgerKind.ATTEMPTED, "executor", claim_id=self.claim_id, attempt=attempt, by=by)

    def released(self, code: Code = Code.AUDIT_UNAVAILABLE, vouches: int = 0) -> None:
        self._ledger(LedgerKind.RELEASED, "executor", claim_id=self.claim_id, code=code.value, reason="x", vouches=vouches)

    def finished(self, outcome: str = "committed", **other: Any) -> None:
        fields: dict[str, Any] = {
            "claim_id": self.claim_id, "started_ms": self.tape.now_ms - 40, "duration_ms": 40, "state_change": '{"refunded":5}',
        } | other  # fmt: skip
        self._ledger(LedgerKind.FINISHED, "executor", outcome=outcome, **fields)

    def in_doubt(self) -> None:
        self._ledger(LedgerKind.IN_DOUBT, "executor", claim_id=self.claim_id, code=Code.IN_DOUBT.value, reason="lost_answer")

    def resolved(self, outcome: str, vouches: int = 1) -> None:
        self._ledger(LedgerKind.RESOLVED, "executor", claim_id=self.claim_id, outcome=outcome, vouches=vouches)

    def cancelled(self) -> None:
        self._ledger(LedgerKind.CANCELLED, "validator")

    def told(self, code: Code = Code.OK, content: str | None = "refunded", signals: tuple[str, ...] = (), **other: Any) -> None:
        observation = Observation(code=code, call_id=self.call_id, content=content, **other).to_json()
        record = CallCompleted(
            **self._head("told", str(self.tape.now_ms)), call_id=self.call_id, run_id=self.call.run_id, tenant="acme",
            tool_call_id=self.call.tool_call_id, code=code.value, final=CODES[code].final, observation=observation,
            output_bytes=len(content or ""), signals=signals,
        )  # fmt: skip
        self.tape.put("sanitizer", record)

    def _ledger(self, kind: LedgerKind, sealed_by: str, **fields: Any) -> None:
        head = self._head(kind.value, str(self.tape.now_ms))
        self.tape.put(sealed_by, LedgerEntry(**head, kind=kind, call_id=self.call_id, about=ref_of(self.call), **fields))

    def _approval(self, kind: ApprovalKind, by: str, **part: Any) -> None:
        head = self._head(kind.value, str(self.tape.now_ms))
        self.tape.put(by, ApprovalEvent(**head, kind=kind, hold_id=self.hold_id, call_id=self.call_id, **part))

    def _head(self, *what: str) -> dict[str, Any]:
        return {"event_id": ids.event_id(self.call_id, "story", *what), "producer": "story@localhost:1"}

    def _validator(self) -> Verdict:
        return Verdict(gate=Gate.VALIDATOR, key_id="validator:1", at_ms=self.tape.now_ms, reasons='{"rules":["own_order"]}')

    def _authorizer(self, *obligations: str) -> Verdict:
        reasons = '{"policies":["support-may-refund"],"digest":"abc"}'
        return Verdict(
            gate=Gate.AUTHORIZER, key_id="authorizer:1", at_ms=self.tape.now_ms, reasons=reasons, obligations=obligations
        )

    def _verdicts(self, approvers: tuple[str, ...]) -> tuple[Verdict, ...]:
        if not approvers:
            return (self._validator(), self._authorizer())
        yes = Verdict(
            gate=Gate.WAITER, key_id="waiter:1", at_ms=self.tape.now_ms, preview_digest=PREVIEW,
            reasons=json.dumps({"approvers": list(approvers), "shown_digest": "s" * 64}),
        )  # fmt: skip
        return (self._validator(), self._authorizer(f"approval:{GROUP}:{len(approvers)}"), yes)


def a_read(tape: Tape, name: str = "read-1") -> Life:
    """A read that succeeds."""
    life = Life(tape, name, tool="read_order", risk=Risk.READ)
    life.asked()
    life.validated()
    life.cleared()
    life.finished(claim_id="", state_change="{}")
    life.told()
    return life


def a_waived_write(tape: Tape, name: str = "write-1") -> Life:
    """A write that a policy lets through without people."""
    life = Life(tape, name)
    life.asked()
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    life.finished()
    life.told()
    return life


def an_approved_write(tape: Tape, name: str = "approved-1") -> Life:
    """A write that waits for one person, who says yes."""
    life = Life(tape, name)
    life.asked()
    life.validated()
    life.held()
    life.shown()
    life.told(Code.APPROVAL_PENDING, None)
    life.decided("approve", "fiona", "looks right")
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    life.finished()
    life.told()
    return life


def a_denied_write(tape: Tape, name: str = "denied-1") -> Life:
    """A write that a person declines."""
    life = Life(tape, name)
    life.asked()
    life.validated()
    life.held()
    life.shown()
    life.decided("deny", "fiona", "wrong order")
    life.refused("waiter", Code.APPROVAL_DENIED, "risk", hold_id=life.hold_id)
    life.told(Code.APPROVAL_DENIED, None)
    return life


def a_misspelt_call(tape: Tape, name: str = "misspelt-1") -> Life:
    """A call whose arguments do not fit; nothing of it was validated."""
    life = Life(tape, name)
    life.asked('{"order_idd": "A-1001"}')
    life.refused("validator", Code.INVALID_ARGUMENTS, "unknown_field", field="/order_idd")
    life.told(Code.INVALID_ARGUMENTS, None, reason="unknown_field", field="/order_idd")
    return life


def a_doubt(tape: Tape, name: str = "doubt-1") -> Life:
    """A write whose answer is lost; people are asked."""
    life = Life(tape, name)
    life.asked()
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    life.in_doubt()
    life.held(HoldReason.IN_DOUBT)
    life.shown()
    life.told(Code.IN_DOUBT, None)
    return life


def good_stories(tape: Tape) -> list[Life]:
    """One of each; nothing in them is wrong."""
    return [story(tape) for story in (a_read, a_waived_write, an_approved_write, a_denied_write, a_misspelt_call, a_doubt)]
