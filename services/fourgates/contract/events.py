"""The records of the topics, one class a topic, in the order a call lives. `schemas/*.avsc` are derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated as D

from .ids import run_key
from .parts import (
    EMPTY_SEAL,
    Breach,
    Call,
    CallRef,
    Cause,
    EffectClaim,
    Fault,
    Origin,
    Principal,
    Resolution,
    ResultBox,
    Seal,
    Verdict,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What every record carries first. `key()` is its Kafka key, as text."""

    event_id: D[str, "derived from the cause, the stage and the kind; random where there is no cause"]
    producer: D[str, "which process wrote it, for operators; proves nothing"]
    cause: D[Cause | None, "the record that made this one happen"] = None

    def key(self) -> str:
        raise TypeError(f"{type(self).__name__} is not a topic's record")


class RequestKind(StrEnum):
    CALL = "call"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequested(Record):
    """A host publishes what a model suggested, or cancels it. Nothing in it is believed before the validator has checked it."""

    kind: D[RequestKind, "call or cancel"]
    call_id: D[str, "the idempotency key as the host derives it; the validator derives it again"]
    run_id: D[str, "UUIDv7 of the run"]
    tool_call_id: D[str, "the model's id of the call inside the run"]
    tool: D[str, "the tool's name as the model wrote it"]
    arguments: D[str, "the model's raw argument text, unparsed"]
    origins: D[tuple[Origin, ...], "the host's marks"] = ()
    user_turns: D[tuple[str, ...], "what the user said in this run"] = ()
    intent: D[str, "what the run is for, in the user's words"] = ""
    allowed_actions: D[tuple[str, ...] | None, "tools or effects that the request can cause; null: not declared"] = None
    deadline_ms: D[int, "absolute end of the call's budget, ms since the epoch"]
    grant: D[str, "JWE to the validator: token and run key, the same for the whole run"]
    seal: D[Seal, "HMAC by the run key"] = EMPTY_SEAL

    def key(self) -> str:
        return self.call_id


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValidated(Record):
    """Gates 1 and 2 are passed: the call, the facts and the time it was judged on."""

    call: D[Call, "the call"]
    facts: D[str, "JSON of the facts that the rules saw"]
    facts_ms: D[int, "when they were read"]
    breaches: D[tuple[Breach, ...], "origins that need a person"]
    verdicts: D[tuple[Verdict, ...], "the validator's"]
    seal: D[Seal, "validator"] = EMPTY_SEAL

    def key(self) -> str:
        return self.call.call_id


class ApprovalKind(StrEnum):
    HELD = "Held"
    REQUESTED = "Requested"
    DECIDED = "Decided"
    EXPIRED = "Expired"
    WITHDRAWN = "Withdrawn"


class HoldReason(StrEnum):
    RISK = "risk"
    POLICY = "policy"
    ORIGIN_BREACH = "origin_breach"
    NEAR_DUPLICATE = "near_duplicate"
    IN_DOUBT = "in_doubt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A call waits for people. The event_id of its record is the hold's id."""

    call: D[Call, "the call"]
    verdicts: D[tuple[Verdict, ...], "of the gates so far"]
    reason: D[HoldReason, "why it is held"]
    detail: D[str, "JSON: what the reason is about (policies, first call of a near duplicate, attempts of a doubt)"]
    breaches: D[tuple[Breach, ...], "origins that need a person"] = ()
    facts: D[str, "JSON of the facts the call was judged on"] = "{}"
    group: D[str, "who may decide"]
    quorum: D[int, "how many distinct persons must say yes"]
    expires_ms: D[int | None, "when it ends by itself; null: never (in doubt)"]
    not_before_ms: D[int, "before this, not_applied does not count (settle time)"] = 0
    supersedes: D[tuple[EffectClaim, ...], "claims that a yes sets aside (near duplicate)"] = ()
    claim_id: D[str, "the claim in doubt"] = ""
    attempts: D[int, "its attempts"] = 0
    instead_of: D[str, "the hold that was approved for an effect which is another one by now"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requested:
    """What people see, byte for byte."""

    shown: D[str, "RFC 8785 JSON of everything that is shown"]
    shown_digest: D[str, "its sha256"]
    preview_digest: D[str, "sha256 of the preview's binding fields"]
    approvable: D[bool, "false where a destructive tool's preview failed"] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What one person says."""

    verdict: D[str, "approve, deny, committed or not_applied"]
    shown_digest: D[str, "what they saw"]
    principal: D[Principal, "who; never with an agent"]
    reason: D[str, "in their words"] = ""
    tell_model: D[bool, "whether the words may reach the model"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalEvent(Record):
    """The life of a hold. First valid terminal event wins."""

    kind: D[ApprovalKind, "Held, Requested, Decided, Expired or Withdrawn"]
    hold_id: D[str, "event_id of the Held"]
    call_id: D[str, "the call"]
    held: D[Held | None, "for Held"] = None
    requested: D[Requested | None, "for Requested"] = None
    decided: D[Decided | None, "for Decided"] = None
    reason: D[str, "for Withdrawn: why"] = ""
    seal: D[Seal, "authorizer or executor (Held), waiter, a registered decider's Ed25519 key (Decided)"] = EMPTY_SEAL

    def key(self) -> str:
        return self.call_id


class ClearedKind(StrEnum):
    CLEARED = "cleared"
    RESOLUTION = "resolution"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCleared(Record):
    """The call may run, by these verdicts; or a person has resolved a doubt."""

    kind: D[ClearedKind, "cleared or resolution"]
    call: D[Call, "the call"]
    verdicts: D[tuple[Verdict, ...], "validator, authorizer and, where people decided, waiter"]
    hold_id: D[str, "the hold that was approved; empty where none was needed"] = ""
    hold_reason: D[str, "why it had been held"] = ""
    approved_until_ms: D[int | None, "an approval is used before this"] = None
    approvers: D[tuple[str, ...], "persons who said yes"] = ()
    supersedes: D[tuple[EffectClaim, ...], "claims set aside by a yes to a near duplicate"] = ()
    resolution: D[Resolution | None, "for kind resolution"] = None
    seal: D[Seal, "authorizer or waiter"] = EMPTY_SEAL

    def key(self) -> str:
        return self.call.call_id


class LedgerKind(StrEnum):
    REFUSED = "Refused"
    CANCELLED = "Cancelled"
    PENDING = "Pending"
    CLAIMED = "Claimed"
    ATTEMPTED = "Attempted"
    RELEASED = "Released"
    FINISHED = "Finished"
    IN_DOUBT = "InDoubt"
    RESOLVED = "Resolved"
    REPLAYED = "Replayed"
    BARRIER = "Barrier"


ALL_ATTEMPTS = -1
"""`vouches` of a writer who speaks for every attempt, because the downstream itself now refuses the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Record):
    """The life log of one call; the first valid last word wins for everybody."""

    kind: D[LedgerKind, "what happened"]
    call_id: D[str, "the call; for a Barrier any text that lands on the partition"]
    about: D[CallRef | None, "the call in short; null for a Barrier"] = None
    claim_id: D[str, "the claim it belongs to; empty for a gate's word, a cancel, a read"] = ""
    attempt: D[str, "Attempted: its id"] = ""
    by: D[str, "Attempted: holder or recoverer"] = ""
    vouches: D[int | None, "how many attempts the writer vouches for as not executed; -1: all"] = None
    outcome: D[str, "Finished: committed or failed; Resolved: committed or not_applied"] = ""
    code: D[str, "Refused, Released, InDoubt, Finished: the code to tell"] = ""
    reason: D[str, "finer than the code: a short stable word"] = ""
    field: D[str, "JSON Pointer of the first fault"] = ""
    faults: D[tuple[Fault, ...], "up to ten"] = ()
    sentence: D[str, "a safe sentence written by the tool's owner or the rule; empty: the code's own"] = ""
    detail: D[str, "JSON for the audit, redacted; never told to a model"] = "{}"
    call: D[Call | None, "Claimed: the whole call"] = None
    verdicts: D[tuple[Verdict, ...], "Claimed: its seals"] = ()
    hold_id: D[str, "Claimed, Pending, Resolved: the hold"] = ""
    lease_ms: D[int, "Claimed: how long the claim may stay open, by the watcher's own clock"] = 0
    result: D[ResultBox | None, "Finished: what came back, encrypted to the sanitizer"] = None
    state_change: D[str, "Finished: JSON, what the tool says it changed"] = "{}"
    started_ms: D[int, "Finished: start of the run"] = 0
    duration_ms: D[int, "Finished: how long it ran"] = 0
    approved_until_ms: D[int | None, "Claimed: nothing is sent by the approval after this"] = None
    seal: D[Seal, "the writer"] = EMPTY_SEAL

    def key(self) -> str:
        return self.call_id


class EffectKind(StrEnum):
    CLAIMED = "Claimed"
    RELEASED = "Released"
    RESERVED = "Reserved"
    RETURNED = "Returned"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectEntry(Record):
    """Who holds what may happen only once; and quotas, in calls and amounts."""

    kind: D[EffectKind, "Claimed, Released, Reserved or Returned"]
    effect_key: D[str, "the key"]
    call_id: D[str, "the call"]
    fence: D[int, "offset of the call's Claimed in its ledger partition"]
    claim_id: D[str, "the claim"] = ""
    window_ms: D[int, "Claimed: how long the claim excludes others once it is done, broker time"] = 0
    supersedes: D[tuple[EffectClaim, ...], "Claimed: rivals that a person set aside"] = ()
    amount: D[int, "Reserved, Returned: how much, in the quota's smallest unit"] = 0
    subject: D[str, "Claimed: the account that asked; a result is replayed only to it"] = ""
    limit: D[int, "Reserved: what the quota holds in its period, by the writer's contract"] = 0
    seal: D[Seal, "executor"] = EMPTY_SEAL

    def key(self) -> str:
        return self.effect_key


RUN_SUBJECT = "run:"
"""How a control's subject begins that is about a run."""


class ControlKind(StrEnum):
    DISABLE = "disable"
    ENABLE = "enable"
    STOP = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control(Record):
    """A kill switch. `subject` is `tool:NAME`, `agent:NAME`, `tenant:NAME` or `run:TENANT/RUN_ID`."""

    kind: D[ControlKind, "disable, enable or stop"]
    subject: D[str, "what it is about"]
    reason: D[str, "why"]
    by: D[str, "who"]
    said_ms: D[int, "when it was said; one that is not later than the last of its subject does not count, it is a repetition"] = 0
    seal: D[Seal, "operator or sanitizer"] = EMPTY_SEAL

    def key(self) -> str:
        return self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCompleted(Record):
    """What the host is told; `observation` is all that a model ever gets, byte for byte."""

    call_id: D[str, "the call"]
    run_id: D[str, "its run"]
    tenant: D[str, "its tenant"]
    tool_call_id: D[str, "the model's id"]
    code: D[str, "the observation's code"]
    final: D[bool, "whether the call has ended; readers keep the first final one"]
    observation: D[str, "JSON"]
    output_bytes: D[int, "size of the whole redacted result"] = 0
    truncated: D[bool, "whether the model got less than the whole"] = False
    redactions: D[int, "how many places were redacted"] = 0
    signals: D[tuple[str, ...], "what in the raw result speaks to a model; counted, never trusted as a control"] = ()
    seal: D[Seal, "sanitizer"] = EMPTY_SEAL

    def key(self) -> str:
        return run_key(self.tenant, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditWatermark(Record):
    """Everything of a partition below `offset` is in the store."""

    topic: D[str, "topic"]
    partition: D[int, "partition"]
    offset: D[int, "the first offset that is not yet in the store"]
    said_ms: D[int, "when the sink said so, by its own clock; a mark that was said before the last one does not count"] = 0
    seal: D[Seal, "audit"] = EMPTY_SEAL

    def key(self) -> str:
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRecord(Record):
    """A record that proved nothing, kept for operators."""

    worker: D[str, "who could not use it"]
    topic: D[str, "where it lay"]
    partition: D[int, "its partition"]
    offset: D[int, "its offset"]
    at_ms: D[int, "its broker time"]
    reason: D[str, "a short stable word"]
    detail: D[str, "one sentence without payload"]
    digest: D[str, "sha256 of its value"]
    size: D[int, "bytes of its value"]
    record_key: D[bytes, "first 1 KiB of its key"]
    payload: D[bytes, "first 64 KiB of its value"]
    seal: D[Seal, "the worker"] = EMPTY_SEAL

    def key(self) -> str:
        return f"{self.topic}/{self.partition}"


RECORDS: tuple[type[Record], ...] = (
    CallRequested, CallValidated, ApprovalEvent, CallCleared, LedgerEntry, EffectEntry, Control, CallCompleted,
    AuditWatermark, DeadRecord,
)  # fmt: skip
