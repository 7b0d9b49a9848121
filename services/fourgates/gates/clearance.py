"""What becomes of a validated call: refused, cleared, or held for people. Pure; the authorizer writes down what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from fourgates.catalog import OnBreach, Tool
from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Breach, Call, Gate, Verdict
from fourgates.gates.origins import breaches_of
from fourgates.gates.permission import DEFAULT_APPROVAL, ApprovalNeed, Permit, Policies
from fourgates.gates.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Clear:
    """Nobody has to be asked."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Hold:
    """Who decides, and why they are asked."""

    permit: Permit
    need: ApprovalNeed
    reason: HoldReason
    breaches: tuple[Breach, ...]


def same_tool(tool: Tool | None, call: Call) -> Tool | Refusal:
    """The tool that was validated, in the very version; another one would be judged by rules that nobody checked."""
    if tool is None or tool.version != call.tool_version or tool.risk is not call.risk:
        return Refusal(Code.TOOL_CHANGED, "tool_version", detail={"validated": call.tool_version})
    return tool


def other_approval(permit: Permit, verdicts: Sequence[Verdict]) -> Refusal | None:
    """Why a yes no longer covers the call, by what the policies say now: others decide about it, or others have to be asked."""
    said = {verdict.gate: json.loads(verdict.reasons) for verdict in verdicts}
    cleared_by, approved = said.get(Gate.AUTHORIZER, {}), said.get(Gate.WAITER, {})
    if set(permit.policies) != set(cleared_by.get("policies", ())):
        detail = {"approved_under": cleared_by.get("policies", []), "now": list(permit.policies)}
        return Refusal(Code.APPROVAL_EFFECT_CHANGED, "policies_changed", detail=detail)
    for need in permit.approvals:
        if need.group != approved.get("group") or need.quorum > len(approved.get("approvers", ())):
            return Refusal(Code.APPROVAL_EFFECT_CHANGED, "approval_changed", detail={"group": need.group, "quorum": need.quorum})
    return None


def clearance(
    tool: Tool, call: Call, facts: str, breaches: Sequence[Breach], policies: Policies, deciding: frozenset[str] | None
) -> Refusal | Clear | Hold:
    """`facts`: JSON, as the validator judged them; `breaches`: those it found; `deciding`: groups with members, None: any.

    Permission comes first: nobody is asked about what nobody may do. A breach is always held, also where a policy waives.
    """
    permit = policies.authorize(call, json.loads(call.arguments), json.loads(facts))
    if isinstance(permit, Refusal):
        return permit
    found = tuple(breaches) or breaches_of(tool, call.origins, call.allowed_actions)
    refused = next((breach for breach in found if breach.on_breach == OnBreach.REFUSE), None)
    if refused is not None:
        return Refusal(Code.ORIGIN_REFUSED, "origin", field=refused.pointer, detail={"origin": refused.origin})
    if not permit.approvals and not found:
        return Clear(permit)
    need = permit.approvals[0] if permit.approvals else DEFAULT_APPROVAL
    if deciding is not None and need.group not in deciding:
        return Refusal(Code.APPROVAL_REQUIRED, "no_approver", detail={"group": need.group, "policies": list(permit.policies)})
    reason = HoldReason.ORIGIN_BREACH if found else HoldReason.POLICY if permit.asked_by else HoldReason.RISK
    return Hold(permit, need, reason, found)
