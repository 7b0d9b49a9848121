"""Whose doing it is that a call did not succeed. The view `fourgates.attribution` says the same; a test holds both together."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from fourgates.contract.codes import Code


class Party(StrEnum):
    """In the order in which a call meets them."""

    MODEL = "model"
    HOST = "host"
    RULE_OR_POLICY = "rule_or_policy"
    APPROVER = "approver"
    TOOL = "tool"
    DOWNSTREAM = "downstream"
    US = "us"


MEANING: Mapping[Party, str] = {
    Party.MODEL: "it asked for something that does not exist or does not fit the contract, or once more for what was done",
    Party.HOST: "identity, deadline, run or key of the call, or it cancelled",
    Party.RULE_OR_POLICY: "a business rule, an origin, a permission, a quota or a switch says no",
    Party.APPROVER: "a person said no, or nobody decided in time",
    Party.TOOL: "the tool reports that it failed, or did not answer in time",
    Party.DOWNSTREAM: "what the tool depends on was away, lost an answer, or had changed since it was approved",
    Party.US: "Fourgates itself: too busy, its audit behind, a fault",
}
"""What it means that a call ended by somebody's doing."""

_P = Party
PARTY_OF: Mapping[Code, Party] = {
    Code.INVALID_ARGUMENTS: _P.MODEL, Code.UNKNOWN_TOOL: _P.MODEL, Code.DUPLICATE_EFFECT: _P.MODEL,
    Code.IDENTITY_INVALID: _P.HOST, Code.IDEMPOTENCY_CONFLICT: _P.HOST, Code.CANCELLED: _P.HOST, Code.CALL_TOO_OLD: _P.HOST,
    Code.CANCEL_TOO_LATE: _P.HOST,
    Code.PERMISSION_DENIED: _P.RULE_OR_POLICY, Code.APPROVAL_REQUIRED: _P.RULE_OR_POLICY,
    Code.QUOTA_EXCEEDED: _P.RULE_OR_POLICY, Code.TOOL_DISABLED: _P.RULE_OR_POLICY, Code.RULE_VIOLATED: _P.RULE_OR_POLICY,
    Code.ORIGIN_REFUSED: _P.RULE_OR_POLICY,
    Code.APPROVAL_DENIED: _P.APPROVER, Code.APPROVAL_EXPIRED: _P.APPROVER, Code.APPROVAL_PENDING: _P.APPROVER,
    Code.TOOL_FAILED: _P.TOOL, Code.TIMEOUT: _P.TOOL,
    Code.UNAVAILABLE: _P.DOWNSTREAM, Code.IN_DOUBT: _P.DOWNSTREAM, Code.APPROVAL_EFFECT_CHANGED: _P.DOWNSTREAM,
    Code.RATE_LIMITED: _P.US, Code.AUDIT_UNAVAILABLE: _P.US, Code.TOOL_CHANGED: _P.US, Code.BUDGET_EXHAUSTED: _P.US,
    Code.INTERNAL: _P.US, Code.RUN_STOPPED: _P.US,
}  # fmt: skip
"""Every code but ok."""
