"""The closed list of codes that an observation may carry, each with its class and its fixed sentence.

What a code means follows from its class, once: whether it is final, whether the same key may be asked again (retryable),
whether the model can mend the call itself (recoverable). `reason` is finer and open; a code is never added outside this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class CodeClass(StrEnum):
    """What a reader of an observation may do next."""

    OK = "ok"
    INVALID = "invalid"
    """The model may correct the arguments, as a new call."""
    TRANSIENT = "transient"
    """Nothing ran; the same key may be asked again later."""
    WAITING = "waiting"
    """People decide; ask again later with the same key."""
    DENIED = "denied"
    """Stop: no permission, or a person said no."""
    TERMINAL = "terminal"
    """The business says no; do not repeat."""
    IN_DOUBT = "in_doubt"
    """It may have happened; do not repeat; it is being found out."""
    INTERNAL = "internal"
    """Ours; the run stops."""


class Code(StrEnum):
    """Every answer that exists."""

    OK = "ok"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    UNAVAILABLE = "unavailable"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    AUDIT_UNAVAILABLE = "audit_unavailable"
    TOOL_CHANGED = "tool_changed"
    APPROVAL_PENDING = "approval_pending"
    IDENTITY_INVALID = "identity_invalid"
    PERMISSION_DENIED = "permission_denied"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    APPROVAL_EXPIRED = "approval_expired"
    QUOTA_EXCEEDED = "quota_exceeded"
    TOOL_DISABLED = "tool_disabled"
    RULE_VIOLATED = "rule_violated"
    ORIGIN_REFUSED = "origin_refused"
    DUPLICATE_EFFECT = "duplicate_effect"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    APPROVAL_EFFECT_CHANGED = "approval_effect_changed"
    TOOL_FAILED = "tool_failed"
    BUDGET_EXHAUSTED = "budget_exhausted"
    CANCELLED = "cancelled"
    CALL_TOO_OLD = "call_too_old"
    IN_DOUBT = "in_doubt"
    CANCEL_TOO_LATE = "cancel_too_late"
    INTERNAL = "internal"
    RUN_STOPPED = "run_stopped"


_C, _K = Code, CodeClass

_TABLE: dict[Code, tuple[CodeClass, str]] = {
    _C.OK: (_K.OK, "The call succeeded."),
    _C.INVALID_ARGUMENTS: (_K.INVALID, "The arguments do not fit the tool's contract; nothing ran. Correct them and call again."),
    _C.UNKNOWN_TOOL: (_K.INVALID, "There is no tool of that name; nothing ran."),
    _C.UNAVAILABLE: (_K.TRANSIENT, "Something needed for this call is not available at the moment; nothing ran."),
    _C.RATE_LIMITED: (_K.TRANSIENT, "Too many calls of this tool at the moment; nothing ran."),
    _C.TIMEOUT: (_K.TRANSIENT, "The tool did not answer in time; it changes nothing, so it may be asked again."),
    _C.AUDIT_UNAVAILABLE: (_K.TRANSIENT, "The audit store is behind, so calls with effects are held back; nothing ran."),
    _C.TOOL_CHANGED: (_K.TRANSIENT, "The tool changed while the call was under way; nothing ran."),
    _C.APPROVAL_PENDING: (_K.WAITING, "A person has to decide on this call; it has not run yet."),
    _C.IDENTITY_INVALID: (_K.DENIED, "The identity of the caller could not be verified; nothing ran."),
    _C.PERMISSION_DENIED: (_K.DENIED, "This call is not permitted; nothing ran. Do not try again."),
    _C.APPROVAL_REQUIRED: (_K.DENIED, "This call needs a person's approval and nobody can give it; nothing ran."),
    _C.APPROVAL_DENIED: (_K.DENIED, "A person declined this call; it did not run. Do not try again."),
    _C.APPROVAL_EXPIRED: (_K.DENIED, "Nobody decided in time; the call did not run."),
    _C.QUOTA_EXCEEDED: (_K.DENIED, "The quota for such calls is used up; nothing ran."),
    _C.TOOL_DISABLED: (_K.DENIED, "This tool is switched off; nothing ran."),
    _C.RULE_VIOLATED: (_K.TERMINAL, "A business rule forbids this call; nothing ran."),
    _C.ORIGIN_REFUSED: (_K.TERMINAL, "An argument came from a source that may not decide it; nothing ran."),
    _C.DUPLICATE_EFFECT: (_K.TERMINAL, "Another call already has this effect; this one did not run."),
    _C.IDEMPOTENCY_CONFLICT: (_K.TERMINAL, "This call id was already used for another call; nothing ran."),
    _C.APPROVAL_EFFECT_CHANGED: (_K.TERMINAL, "What was approved is no longer what would happen; nothing ran."),
    _C.TOOL_FAILED: (_K.TERMINAL, "The tool reports that it failed and changed nothing."),
    _C.BUDGET_EXHAUSTED: (_K.TERMINAL, "The time for this call was used up before it could run; nothing ran."),
    _C.CANCELLED: (_K.TERMINAL, "The call was cancelled before it ran."),
    _C.CALL_TOO_OLD: (_K.TERMINAL, "The run of this call is older than keys are remembered; nothing ran."),
    _C.IN_DOUBT: (_K.IN_DOUBT, "It is not known whether the call took effect; it is being found out. Do not repeat it."),
    _C.CANCEL_TOO_LATE: (_K.IN_DOUBT, "The call had already started when it was cancelled; its outcome is being found out."),
    _C.INTERNAL: (_K.INTERNAL, "An internal error ended this call and its run."),
    _C.RUN_STOPPED: (_K.INTERNAL, "The run was stopped; its calls are refused."),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One code with everything that follows from it."""

    code: Code
    code_class: CodeClass
    message: str
    final: bool
    retryable: bool
    recoverable: bool


# These two answer a record, not the call: the sanitizer passes them on and every fold skips them.
_ABOUT_THE_RECORD = frozenset({Code.IDENTITY_INVALID, Code.IDEMPOTENCY_CONFLICT})
_NOT_FINAL = frozenset({CodeClass.TRANSIENT, CodeClass.WAITING, CodeClass.IN_DOUBT})

CODES: dict[Code, CodeInfo] = {
    code: CodeInfo(
        code=code,
        code_class=code_class,
        message=message,
        final=code_class not in _NOT_FINAL and code not in _ABOUT_THE_RECORD,
        retryable=code_class is CodeClass.TRANSIENT,
        recoverable=code_class is CodeClass.INVALID,
    )
    for code, (code_class, message) in _TABLE.items()
}

if set(CODES) != set(Code):
    raise RuntimeError(f"codes without a class: {sorted(set(Code) - set(CODES))}")


def ends_call(code: Code) -> bool:
    """True where a Refused with this code is the call's last word; folds skip the others."""
    return CODES[code].final
