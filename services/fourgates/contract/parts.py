"""The records inside the records: who asks, which call, which gate said what, who signed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated as D


class Risk(StrEnum):
    """What a tool may do to the world, by its own contract only."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class Gate(StrEnum):
    """Who gives a verdict on a call."""

    VALIDATOR = "validator"
    AUTHORIZER = "authorizer"
    WAITER = "waiter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The record that made this one happen."""

    event_id: D[str, "its event_id"]
    topic: D[str, "its topic"]
    partition: D[int, "its partition"]
    offset: D[int, "its offset"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """The writer's signature over every byte of the record before it: HMAC-SHA256 (32 bytes) or Ed25519 (64 bytes)."""

    key_id: D[str, "the writer's key, as writer:number"] = ""
    mac: D[bytes, "over the domain tag and all bytes of the record before this field's content"] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks, as the verified token says."""

    issuer: D[str, "who vouches for the identity"]
    subject: D[str, "the account"]
    tenant: D[str, "the customer of the platform; everything is separated by it"]
    person: D[str, "the human behind the account; one human may have several"]
    agent: D[str, "the agent that acts for the subject; empty where none does"] = ""
    groups: D[tuple[str, ...], "the subject's groups"] = ()
    service: D[bool, "an unattended run under a service account"] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where one argument leaf came from, as the host marks it; `user` is recomputed by the validator."""

    pointer: D[str, "JSON Pointer of the leaf in the arguments"]
    origin: D[str, "user, within (beneath what the user named), result:<call_id>, host or model"]
    source: D[str, "name of the source for a reader, such as the tool whose result it stood in"] = ""
    quote: D[str, "the source's words around the value, at most 500 characters"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """An argument whose origin the tool's contract does not allow, or an action that the run did not announce."""

    pointer: D[str, "JSON Pointer of the leaf; empty for the action itself"]
    origin: D[str, "where it came from"]
    allowed: D[tuple[str, ...], "what the contract allows"]
    on_breach: D[str, "hold or refuse"]
    source: D[str, "name of the source"] = ""
    quote: D[str, "the source's words around the value, untrusted"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with the arguments, for the model to mend."""

    field: D[str, "JSON Pointer"]
    reason: D[str, "a short stable word"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A validated call. It travels in each event; nobody looks it up."""

    call_id: D[str, "the idempotency key, sha256 over issuer, tenant, subject, agent, run_id, tool_call_id"]
    run_id: D[str, "UUIDv7 of the run"]
    tool_call_id: D[str, "the model's id of the call inside the run"]
    principal: D[Principal, "who asks, verified"]
    tool: D[str, "the tool's name"]
    tool_version: D[str, "digest of everything that decides or acts"]
    risk: D[Risk, "read, write or destructive, by the tool's contract"]
    arguments: D[str, "the normalised arguments in RFC 8785 form"]
    args_digest: D[str, "sha256 of `arguments`"]
    effect_key: D[str, "what may happen only once; empty for a read"]
    origins: D[tuple[Origin, ...], "where each argument leaf came from, recomputed"]
    intent: D[str, "what the run is for, in the user's words"]
    allowed_actions: D[tuple[str, ...] | None, "tools or effects that the request can cause; null: not declared"]
    deadline_ms: D[int, "absolute end of the call's budget, ms since the epoch"]
    requested_ms: D[int, "broker time of the request"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRef:
    """As much of a call as its reader at the end of the pipeline needs, also where nothing could be validated."""

    tenant: D[str, "tenant"]
    run_id: D[str, "run"]
    tool_call_id: D[str, "the model's id"]
    subject: D[str, "the account that asked"]
    agent: D[str, "the agent"]
    tool: D[str, "the tool's name as asked for"]
    tool_version: D[str, "empty where the tool is unknown"] = ""
    risk: D[str, "empty where the tool is unknown"] = ""
    args_digest: D[str, "empty where the arguments could not be read"] = ""


def ref_of(call: Call) -> CallRef:
    """The short form of a validated call."""
    who = call.principal
    return CallRef(
        tenant=who.tenant, run_id=call.run_id, tool_call_id=call.tool_call_id, subject=who.subject, agent=who.agent,
        tool=call.tool, tool_version=call.tool_version, risk=call.risk.value, args_digest=call.args_digest,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One gate's sealed yes. They accumulate: a cleared call carries who allowed it and why."""

    gate: D[Gate, "who says so"]
    key_id: D[str, "its key"]
    at_ms: D[int, "the time it was judged at"]
    reasons: D[str, "JSON: rules, policies and their digest, approvers"]
    obligations: D[tuple[str, ...], "what must still happen, such as approval:finance:2"] = ()
    preview_digest: D[str, "digest of the binding fields of what people saw; empty where nobody had to"] = ""
    mac: D[bytes, "HMAC over the call, these fields and the verdict before"] = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectClaim:
    """One call's claim of an effect key: the fence is the offset of its Claimed in the ledger."""

    call_id: D[str, "the call"]
    fence: D[int, "its fence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBox:
    """A raw result on its way to the sanitizer, encrypted to it; beyond 256 KiB by reference."""

    key_id: D[str, "the sanitizer's key"]
    nonce: D[bytes, "AES-GCM nonce"]
    ciphertext: D[bytes, "empty where blob_ref says where it lies; of a stream there, its frames' key"] = b""
    blob_ref: D[str, "reference in the raw blob store"] = ""
    size: D[int, "bytes of the plain result"] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What a person of the resolving group says about a call in doubt."""

    claim_id: D[str, "the claim it is about"]
    outcome: D[str, "committed or not_applied"]
    attempts: D[int, "how many attempts the person was shown"]
    person: D[str, "who said so"]


EMPTY_SEAL = Seal()
