"""What each record says, as column values and a body, not yet redacted. Never grants, seals, results or dead payloads.

`body` holds what our own stages made up (verdicts, claims, numbers), `foreign` what users, models, tools and hosts said: only
the latter needs a redactor, which is most of a row's cost.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fourgates.contract.codes import CODES
from fourgates.contract.events import (
    ApprovalEvent,
    CallCleared,
    CallCompleted,
    CallRequested,
    CallValidated,
    Control,
    DeadRecord,
    EffectEntry,
    LedgerEntry,
    LedgerKind,
    Record,
)
from fourgates.contract.parts import Breach, Call, CallRef, EffectClaim, Origin, Verdict

Values: TypeAlias = dict[str, Any]
Digest: TypeAlias = Callable[[str], str]
"""A keyed digest: equal texts give equal digests, and nobody without the key can try texts out."""

RAW_ARGUMENTS_CHARS = 65_536
"""As much of arguments that nobody has checked as lands; a record's size is in `value_bytes`."""
_ID_CHARS = 256
_CODES = {code.value: info for code, info in CODES.items()}


def fields_of(record: Record, digest: Digest) -> Values:
    """The columns that this record fills; beside them `body` and `foreign`, both JSON objects."""
    return _BY_CLASS[type(record).__name__](record, digest)


def _requested(record: CallRequested, digest: Digest) -> Values:
    return {
        "kind": record.kind.value, "call_id": _cut(record.call_id), "run_id": _cut(record.run_id),
        "tool_call_id": _cut(record.tool_call_id), "tool": _cut(record.tool), "intent": record.intent,
        "arguments": record.arguments[:RAW_ARGUMENTS_CHARS], "args_digest": digest(record.arguments),
        "deadline_ms": record.deadline_ms,
        "foreign": {
            "user_turns": list(record.user_turns), "origins": _origins(record.origins),
            "allowed_actions": _list(record.allowed_actions),
        },
    }  # fmt: skip


def _validated(record: CallValidated, digest: Digest) -> Values:
    return _call(record.call, digest) | _why(record.verdicts) | {
        "kind": "validated",
        "body": {"facts_ms": record.facts_ms, "verdicts": _verdicts(record.verdicts, digest)},
        "foreign": {
            "facts": json_or_text(record.facts), "breaches": _breaches(record.breaches),
            "origins": _origins(record.call.origins), "allowed_actions": _list(record.call.allowed_actions),
        },
    }  # fmt: skip


def _approval(record: ApprovalEvent, digest: Digest) -> Values:
    values: Values = {"kind": record.kind.value, "hold_id": record.hold_id, "call_id": record.call_id, "reason": record.reason}
    if (held := record.held) is not None:
        values |= _call(held.call, digest) | _why(held.verdicts)
        values |= {
            "hold_id": record.event_id, "hold_reason": held.reason.value, "approver_group": held.group, "quorum": held.quorum,
            "expires_ms": held.expires_ms or 0, "not_before_ms": held.not_before_ms, "claim_id": held.claim_id,
        }  # fmt: skip
        values["body"] = {"supersedes": _claims(held.supersedes), "attempts": held.attempts}
        values["foreign"] = {
            "detail": json_or_text(held.detail), "facts": json_or_text(held.facts), "breaches": _breaches(held.breaches),
        }  # fmt: skip
    if (requested := record.requested) is not None:
        values |= {
            "shown_digest": digest(requested.shown_digest), "preview_digest": _keyed(requested.preview_digest, digest),
            "approvable": requested.approvable,
        }  # fmt: skip
        values["foreign"] = {"shown": json_or_text(requested.shown)}
    if (decided := record.decided) is not None:
        who = decided.principal
        values |= {
            "verdict": decided.verdict, "shown_digest": digest(decided.shown_digest),
            "tenant": who.tenant, "subject": who.subject, "person": who.person, "agent": who.agent, "service": who.service,
            "groups": list(who.groups),
        }  # fmt: skip
        values["body"], values["foreign"] = {"tell_model": decided.tell_model}, {"words": decided.reason}
    return values


def _cleared(record: CallCleared, digest: Digest) -> Values:
    values = _call(record.call, digest) | _why(record.verdicts) | {
        "kind": record.kind.value, "hold_id": record.hold_id, "hold_reason": record.hold_reason,
        "preview_digest": _preview(record.verdicts, digest),
    }  # fmt: skip
    if record.approvers:
        values["approvers"] = list(record.approvers)
    if (resolution := record.resolution) is not None:
        values |= {"claim_id": resolution.claim_id, "outcome": resolution.outcome, "person": resolution.person}
    values["body"] = {
        "approved_until_ms": record.approved_until_ms, "supersedes": _claims(record.supersedes),
        "attempts_shown": resolution.attempts if resolution else None, "verdicts": _verdicts(record.verdicts, digest),
    }  # fmt: skip
    return values


def _ledger(record: LedgerEntry, digest: Digest) -> Values:
    values = _about(record.about, digest) if record.about else {}
    if record.call is not None:
        values |= _call(record.call, digest) | _why(record.verdicts)
        values["preview_digest"] = _preview(record.verdicts, digest)
    values |= _coded(record.code)
    if record.kind is not LedgerKind.REFUSED:
        values["final"] = False
    values |= {
        "kind": record.kind.value, "call_id": record.call_id, "claim_id": record.claim_id, "attempt": record.attempt,
        "sent_by": record.by, "vouches": record.vouches, "outcome": record.outcome, "reason": record.reason,
        "field": record.field, "sentence": record.sentence, "hold_id": record.hold_id, "started_ms": record.started_ms,
        "duration_ms": record.duration_ms,
    }  # fmt: skip
    if record.kind is LedgerKind.FINISHED:
        values["state_change"] = record.state_change
        values["output_bytes"] = record.result.size if record.result else 0
    if record.kind is LedgerKind.CLAIMED:
        values["body"] = {"lease_ms": record.lease_ms, "verdicts": _verdicts(record.verdicts, digest)}
    foreign: Values = {} if record.detail == "{}" else {"detail": json_or_text(record.detail)}
    if record.faults:
        foreign["faults"] = [{"field": fault.field, "reason": fault.reason} for fault in record.faults]
    values["foreign"] = foreign
    return values


def _effect(record: EffectEntry, digest: Digest) -> Values:
    return {
        "kind": record.kind.value, "effect_key": _effect_key(record.effect_key, digest), "call_id": record.call_id,
        "fence": record.fence, "claim_id": record.claim_id, "amount": record.amount, "subject": record.subject,
        "body": {"window_ms": record.window_ms, "supersedes": _claims(record.supersedes)},
    }  # fmt: skip


def _control(record: Control, digest: Digest) -> Values:
    return {
        "kind": record.kind.value, "reason": record.reason, "person": record.by, "foreign": {"subject": record.subject},
    }  # fmt: skip


def _completed(record: CallCompleted, digest: Digest) -> Values:
    told = json_or_text(record.observation)
    told = told if isinstance(told, dict) else {}
    return _coded(record.code) | {
        "kind": "final" if record.final else "interim", "final": record.final, "call_id": record.call_id,
        "run_id": record.run_id, "tenant": record.tenant, "tool_call_id": record.tool_call_id,
        "reason": str(told.get("reason", "")), "field": str(told.get("field", "")), "sentence": str(told.get("message", "")),
        "replayed": told.get("replayed") is True, "observation": record.observation,
        "observation_digest": digest(record.observation), "output_bytes": record.output_bytes, "truncated": record.truncated,
        "redactions": record.redactions, "body": {"signals": list(record.signals)} if record.signals else {},
    }  # fmt: skip


def _dead(record: DeadRecord, digest: Digest) -> Values:
    return {
        "kind": "dead", "reason": record.reason, "sentence": record.detail, "origin_topic": _cut(record.topic),
        "origin_partition": record.partition, "origin_offset": record.offset,
        "body": {"worker": record.worker, "at_ms": record.at_ms, "digest": record.digest, "size": record.size},
    }  # fmt: skip


_BY_CLASS: dict[str, Callable[[Any, Digest], Values]] = {
    CallRequested.__name__: _requested, CallValidated.__name__: _validated, ApprovalEvent.__name__: _approval,
    CallCleared.__name__: _cleared, LedgerEntry.__name__: _ledger, EffectEntry.__name__: _effect, Control.__name__: _control,
    CallCompleted.__name__: _completed, DeadRecord.__name__: _dead,
}  # fmt: skip


def _call(call: Call, digest: Digest) -> Values:
    who = call.principal
    return {
        "call_id": call.call_id, "run_id": call.run_id, "tool_call_id": call.tool_call_id, "tenant": who.tenant,
        "subject": who.subject, "person": who.person, "agent": who.agent, "service": who.service,
        "groups": list(who.groups), "tool": call.tool,
        "tool_version": call.tool_version, "risk": call.risk.value, "intent": call.intent, "arguments": call.arguments,
        "args_digest": _keyed(call.args_digest, digest), "effect_key": _effect_key(call.effect_key, digest),
        "deadline_ms": call.deadline_ms,
    }  # fmt: skip


def _about(about: CallRef, digest: Digest) -> Values:
    return {
        "tenant": about.tenant, "run_id": about.run_id, "tool_call_id": about.tool_call_id, "subject": about.subject,
        "agent": about.agent, "tool": _cut(about.tool), "tool_version": about.tool_version, "risk": about.risk,
        "args_digest": _keyed(about.args_digest, digest),
    }  # fmt: skip


def _coded(code: str) -> Values:
    info = _CODES.get(code)
    return {"code": code, "code_class": info.code_class.value, "final": info.final} if info else {"code": code}


def _why(verdicts: Sequence[Verdict]) -> Values:
    """Rules, policies and people, as the gates' verdicts name them."""
    values: Values = {"obligations": [duty for verdict in verdicts for duty in verdict.obligations]}
    for verdict in verdicts:
        reasons = json_or_text(verdict.reasons)
        if not isinstance(reasons, dict):
            continue
        for name in ("rules", "policies", "approvers"):
            if isinstance(said := reasons.get(name), list):
                values[name] = [str(item) for item in said]
        if isinstance(said := reasons.get("policies_digest", reasons.get("digest")), str):
            values["policies_digest"] = _cut(said.encode("ascii", "replace").decode())
    return values


def _verdicts(verdicts: Sequence[Verdict], digest: Digest) -> list[Values]:
    """What each gate said, without its seal; digests of what people saw are keyed as everywhere in the store."""
    said = []
    for verdict in verdicts:
        reasons = json_or_text(verdict.reasons)
        if isinstance(reasons, dict) and isinstance(shown := reasons.get("shown_digest"), str):
            reasons = reasons | {"shown_digest": digest(shown)}
        said.append({
            "gate": verdict.gate.value, "key_id": verdict.key_id, "at_ms": verdict.at_ms, "reasons": reasons,
            "obligations": list(verdict.obligations),
        })  # fmt: skip
    return said


def _preview(verdicts: Sequence[Verdict], digest: Digest) -> str:
    bound = [verdict.preview_digest for verdict in verdicts if verdict.preview_digest]
    return _keyed(bound[-1], digest) if bound else ""


def _keyed(text: str, digest: Digest) -> str:
    """Empty stays empty: there is nothing to compare."""
    return digest(text) if text else ""


def _effect_key(key: str, digest: Digest) -> str:
    """Tenant and effect stay readable; the rest is a plain hash of arguments, which could be found by trying."""
    readable, slash, rest = key.rpartition("/")
    return f"{readable}{slash}{digest(rest)}" if key else ""


def _origins(origins: Sequence[Origin]) -> list[Values]:
    return [{"pointer": o.pointer, "origin": o.origin, "source": o.source, "quote": o.quote} for o in origins]


def _breaches(breaches: Sequence[Breach]) -> list[Values]:
    return [
        {"pointer": b.pointer, "origin": b.origin, "allowed": list(b.allowed), "on_breach": b.on_breach, "source": b.source,
         "quote": b.quote}
        for b in breaches
    ]  # fmt: skip


def _claims(claims: Sequence[EffectClaim]) -> list[Values]:
    return [{"call_id": claim.call_id, "fence": claim.fence} for claim in claims]


def _list(words: Sequence[str] | None) -> list[str] | None:
    return None if words is None else list(words)


def json_or_text(text: str) -> Any:
    """The JSON value, or the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _cut(text: str) -> str:
    return text[:_ID_CHARS]
