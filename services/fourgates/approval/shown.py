"""What people see of a held call, byte for byte: one RFC 8785 JSON text, whose digest every decision names."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from fourgates.catalog.tool import Tool
from fourgates.contract.canonical import canonical, digest_bytes
from fourgates.contract.events import ApprovalEvent, Held, HoldReason, Requested
from fourgates.contract.parts import Breach, Gate, Risk
from fourgates.gates.approval import alike
from fourgates.gates.preview import Previewed

UNTRUSTED = "untrusted"
"""Marks words that an agent, a tool's result or a user wrote: they are shown, they never count as ours."""
GONE = "This version of the tool is not in the catalog any more; the call cannot run as it is."
TOO_LARGE = "It is too large to be shown as a whole, so it is not shown at all."


def exact(text: str) -> Any:
    """JSON from a record as a value where that loses nothing, else the text as it stands (big integers, no JSON at all)."""
    try:
        value = json.loads(text)
        canonical(value)
    except (ValueError, RecursionError):
        return text
    return value


def _breach(breach: Breach) -> dict[str, Any]:
    return {
        "pointer": breach.pointer, "origin": breach.origin, "allowed": list(breach.allowed),
        "source": breach.source, "quote": breach.quote, "trust": UNTRUSTED,
    }  # fmt: skip


def _document(entry: ApprovalEvent, held: Held, tool: Tool | None, previewed: Previewed, facts: Any) -> dict[str, Any]:
    call, who = held.call, held.call.principal
    return {
        "hold_id": entry.event_id, "call_id": call.call_id, "tenant": who.tenant,
        "tool": call.tool, "tool_version": call.tool_version, "risk": call.risk.value,
        "description": tool.description if tool else "",
        "preview": None if previewed.fields is None else dict(previewed.fields), "preview_fault": previewed.fault,
        "arguments": call.arguments, "args_digest": call.args_digest,
        "origins": [dataclasses.asdict(origin) | {"trust": UNTRUSTED} for origin in call.origins],
        "asked_by": {"issuer": who.issuer, "subject": who.subject, "person": who.person, "service": who.service},
        "agent": who.agent, "intent": {"text": call.intent, "trust": UNTRUSTED}, "requested_ms": call.requested_ms,
        "why": {
            "reason": held.reason.value, "detail": exact(held.detail), "breaches": [_breach(b) for b in held.breaches],
        },
        "policies": [exact(v.reasons) for v in held.verdicts if v.gate is Gate.AUTHORIZER],
        "obligations": [o for v in held.verdicts for o in v.obligations],
        "facts": facts,
        "alike": alike(held), "group": held.group, "quorum": max(held.quorum, 1),
        "expires_ms": None if held.reason is HoldReason.IN_DOUBT else held.expires_ms, "not_before_ms": held.not_before_ms,
        "instead_of": held.instead_of, "supersedes": [dataclasses.asdict(claim) for claim in held.supersedes],
        "claim_id": held.claim_id, "attempts": held.attempts,
    }  # fmt: skip


def shown_of(entry: ApprovalEvent, tool: Tool | None, previewed: Previewed, limit: int) -> Requested:
    """The Requested of a Held. `tool` is None where its version is gone.

    A destructive call whose effect cannot be shown cannot be approved, only denied; the same where the tool is gone. What is
    larger than `limit` bytes is left out whole, the preview first, and then nothing can be approved.
    """
    held = entry.held
    assert held is not None
    if tool is None:
        previewed = Previewed(fault=GONE)
    approvable = tool is not None and not (previewed.fault and held.call.risk is Risk.DESTRUCTIVE)
    shown = canonical(_document(entry, held, tool, previewed, exact(held.facts)))
    if len(shown) > limit:
        approvable, previewed = False, Previewed(fault=TOO_LARGE)
        shown = canonical(_document(entry, held, tool, previewed, exact(held.facts)))
    if len(shown) > limit:
        shown = canonical(_document(entry, held, tool, previewed, TOO_LARGE))
    return Requested(
        shown=shown.decode(), shown_digest=digest_bytes(shown), preview_digest=previewed.digest,
        approvable=approvable or held.reason is HoldReason.IN_DOUBT,
    )  # fmt: skip
