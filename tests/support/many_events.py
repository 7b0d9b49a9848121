"""Millions of rows of plausible calls, made by the engine itself: for how long questions take, not for what they answer."""

from __future__ import annotations

from fourgates.audit.store import Store

EVENTS_A_CALL = 5.9
"""On average, over the mix below."""
_CALLS_AT_ONCE = 50_000
_STEPS = {
    "read": ("asked", "validated", "cleared", "read", "told"),
    "written": ("asked", "validated", "cleared", "claimed", "effect", "attempted", "finished", "told"),
    "misspelt": ("asked", "refused", "told"),
    "forbidden": ("asked", "validated", "refused", "told"),
    "approved": (
        "asked", "validated", "held", "shown", "decided", "cleared", "claimed", "effect", "attempted", "finished", "told",
    ),
}  # fmt: skip
_MIX = ("read",) * 12 + ("written",) * 5 + ("misspelt", "forbidden", "approved")
_WHAT = {
    # step: (topic, record, kind, writer)
    "asked": ("calls.requested", "CallRequested", "call", "run"),
    "validated": ("calls.validated", "CallValidated", "validated", "validator"),
    "held": ("approvals", "ApprovalEvent", "Held", "authorizer"),
    "shown": ("approvals", "ApprovalEvent", "Requested", "waiter"),
    "decided": ("approvals", "ApprovalEvent", "Decided", "approver"),
    "cleared": ("calls.cleared", "CallCleared", "cleared", "authorizer"),
    "claimed": ("calls.ledger", "LedgerEntry", "Claimed", "executor"),
    "attempted": ("calls.ledger", "LedgerEntry", "Attempted", "executor"),
    "finished": ("calls.ledger", "LedgerEntry", "Finished", "executor"),
    "read": ("calls.ledger", "LedgerEntry", "Finished", "executor"),
    "refused": ("calls.ledger", "LedgerEntry", "Refused", "authorizer"),
    "effect": ("effects", "EffectEntry", "Claimed", "executor"),
    "told": ("calls.completed", "CallCompleted", "final", "sanitizer"),
}


def _list(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


def _by_step(place: int) -> str:
    return f"transform(step, {_list(tuple(_WHAT))}, {_list(tuple(what[place] for what in _WHAT.values()))}, '')"


def _in(*steps: str) -> str:
    return f"step IN {tuple(steps)}" if len(steps) > 1 else f"step = '{steps[0]}'"


def _where(condition: str, value: str, otherwise: str = "''") -> str:
    return f"if({condition}, {value}, {otherwise})"


_LIFE = f"{_list(_MIX)}[number % {len(_MIX)} + 1]"
_LIVES = "multiIf(" + ", ".join(f"life = '{name}', {_list(steps)}" for name, steps in _STEPS.items()) + ", emptyArrayString())"
_PERSON, _CALLER = "'fiona'", "concat('user-', toString(n % 997))"
_OF_CLAIM = _in("claimed", "attempted", "finished", "effect")
_ENDS = _in("refused", "told")
_COLUMNS = {
    "topic": _by_step(0),
    "partition": "cityHash64(id) % 12",
    "offset": "n * 16 + turn",
    "at": "now64(3) - toIntervalSecond(intDiv(n * 2592000, {calls:UInt64})) + toIntervalMillisecond(turn * (3 + n % 11))",
    "record": _by_step(1),
    "kind": _by_step(2),
    "event_id": "substring(lower(hex(SHA256(concat(id, step)))), 1, 32)",
    "writer": _by_step(3),
    "producer": "'filled'",
    "value_digest": "lower(hex(SHA256(concat(id, step, 'v'))))",
    "value_bytes": "700",
    "call_id": "id",
    "run_id": "concat('run-', toString(intDiv(n, 20)))",
    "tool_call_id": "concat('call-', toString(n))",
    "tenant": "concat('tenant-', toString(n % 5))",
    "subject": _where(_in("decided"), _PERSON, _CALLER),
    "person": _where(_in("decided"), _PERSON, _CALLER),
    "agent": _where(_in("decided"), "''", "concat('agent-', toString(n % 7))"),
    "groups": _where(_in("decided"), "['finance']", "emptyArrayString()"),
    "tool": "concat('tool_', toString(n % 40))",
    "tool_version": "lower(hex(SHA256(toString(n % 40))))",
    "risk": "if(life = 'read', 'read', 'write')",
    "arguments": _where(
        _in("asked", "validated", "cleared", "claimed", "held"), "concat('{\"order_id\":\"A-', toString(n), '\"}')"
    ),
    "args_digest": "substring(id, 1, 32)",
    "code": f"multiIf({_ENDS} AND life = 'misspelt', 'invalid_arguments', {_ENDS} AND life = 'forbidden', 'permission_denied',"
    f" {_in('told')}, 'ok', '')",
    "final": _ENDS,
    "hold_id": _where(_in("held", "shown", "decided"), "substring(id, 1, 32)"),
    "hold_reason": _where(_in("held"), "'risk'"),
    "approver_group": _where(_in("held"), "'finance'"),
    "quorum": "1",
    "approvable": _in("shown"),
    "verdict": _where(_in("decided"), "'approve'"),
    "shown_digest": _where(_in("shown", "decided"), "substring(id, 3, 32)"),
    "claim_id": _where(_OF_CLAIM, "substring(id, 5, 32)"),
    "attempt": _where(_in("attempted"), "substring(id, 7, 32)"),
    "sent_by": _where(_in("attempted"), "'holder'"),
    "outcome": _where(_in("finished", "read"), "'committed'"),
    "duration_ms": _where(_in("finished", "read"), "5 + n % 90", "0"),
    "observation": _where(_in("told"), 'concat(\'{"ok":true,"call_id":"\', id, \'"}\')'),
    "output_bytes": "60",
    "rules": "['own_order']",
    "policies": "['support']",
    "fence": "-1",
    "body": "'{}'",
}
_INSERT = f"""
INSERT INTO fourgates.events ({", ".join(_COLUMNS)})
SELECT {", ".join(_COLUMNS.values())}
FROM
(
    SELECT number AS n, lower(hex(SHA256(toString(number)))) AS id, {_LIFE} AS life, step, turn
    FROM numbers({{first:UInt64}}, {{count:UInt64}})
    ARRAY JOIN {_LIVES.replace("life", _LIFE)} AS step, arrayEnumerate({_LIVES.replace("life", _LIFE)}) AS turn
)
"""


def fill(store: Store, rows: int) -> int:
    """Puts about so many rows of the last 30 days into an empty store; how many calls they are of."""
    calls = int(rows / EVENTS_A_CALL)
    for first in range(0, calls, _CALLS_AT_ONCE):
        store.command(_INSERT, {"first": first, "count": min(_CALLS_AT_ONCE, calls - first), "calls": calls})
    return calls
