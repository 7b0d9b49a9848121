"""Millions of rows of plausible calls, made by the engine itself: for how long questions take, not for what they answer."""

from __future__ import annotations

from collections import Counter

from fourgates.audit.store import Store

_CALLS_AT_ONCE = 50_000
_STEPS = {
    "read": ("asked", "validated", "cleared", "read", "told"),
    "written": ("asked", "validated", "cleared", "claimed", "effect", "attempted", "finished", "told"),
    "misspelt": ("asked", "refused", "told"),
    "forbidden": ("asked", "validated", "refused", "told"),
    "approved": (
        "asked", "validated", "held", "shown", "decided", "cleared", "claimed", "effect", "attempted", "finished", "told",
    ),
    "failed": ("asked", "validated", "cleared", "claimed", "effect", "attempted", "not finished", "told"),
    "retried": (
        "asked", "validated", "cleared", "claimed", "given back", "claimed again", "effect", "attempted again", "finished again",
        "told",
    ),
    "doubted": (
        "asked", "validated", "cleared", "claimed", "effect", "attempted", "doubted", "asked about it", "shown", "found",
        "resolved", "told",
    ),
}  # fmt: skip
_MIX = (
    *("read",) * 57, *("written",) * 24, *("misspelt",) * 5, *("forbidden",) * 5, *("approved",) * 5, *("failed",) * 2, "retried",
    "doubted",
)  # fmt: skip
EVENTS_A_CALL = sum(len(_STEPS[life]) for life in _MIX) / len(_MIX)
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
    "not finished": ("calls.ledger", "LedgerEntry", "Finished", "executor"),
    "given back": ("calls.ledger", "LedgerEntry", "Released", "executor"),
    "claimed again": ("calls.ledger", "LedgerEntry", "Claimed", "executor"),
    "attempted again": ("calls.ledger", "LedgerEntry", "Attempted", "executor"),
    "finished again": ("calls.ledger", "LedgerEntry", "Finished", "executor"),
    "doubted": ("calls.ledger", "LedgerEntry", "InDoubt", "executor"),
    "asked about it": ("approvals", "ApprovalEvent", "Held", "executor"),
    "found": ("approvals", "ApprovalEvent", "Decided", "approver"),
    "resolved": ("calls.ledger", "LedgerEntry", "Resolved", "executor"),
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


_LIFE = f"{_list(_MIX)}[cityHash64(number) % {len(_MIX)} + 1]"
_LIVES = "multiIf(" + ", ".join(f"life = '{name}', {_list(steps)}" for name, steps in _STEPS.items()) + ", emptyArrayString())"
_PERSON, _CALLER = "'fiona'", "concat('user-', toString(n % 997))"
_BY_PEOPLE = _in("decided", "found")
_OF_CLAIM = _in("claimed", "attempted", "finished", "not finished", "given back", "effect", "doubted", "resolved")
_ENDED_WELL = _in("finished", "finished again", "read", "resolved")
_OF_SECOND = _in("claimed again", "attempted again", "finished again")
_ENDS = _in("refused", "told")
_COLUMNS = {
    "topic": "of_topic",
    "partition": "place",
    "offset": "before[concat(of_topic, toString(place))] + row_number() OVER (PARTITION BY of_topic, place ORDER BY n, turn) - 1",
    "at": "now64(3) - toIntervalSecond(intDiv(({calls:UInt64} - n) * 2592000, {calls:UInt64}))"
    " + toIntervalMillisecond(turn * (3 + n % 11))",
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
    "subject": _where(_BY_PEOPLE, _PERSON, _CALLER),
    "person": _where(_BY_PEOPLE, _PERSON, _CALLER),
    "agent": _where(_BY_PEOPLE, "''", "concat('agent-', toString(n % 7))"),
    "groups": _where(_BY_PEOPLE, "['finance']", "emptyArrayString()"),
    "tool": "concat('tool_', toString(n % 40))",
    "tool_version": "lower(hex(SHA256(toString(n % 40))))",
    "risk": "if(life = 'read', 'read', 'write')",
    "arguments": _where(
        _in("asked", "validated", "cleared", "claimed", "claimed again", "held"),
        "concat('{\"order_id\":\"A-', toString(n), '\"}')",
    ),
    "args_digest": "substring(id, 1, 32)",
    "code": f"multiIf({_ENDS} AND life = 'misspelt', 'invalid_arguments', {_ENDS} AND life = 'forbidden', 'permission_denied',"
    f" {_in('told', 'not finished')} AND life = 'failed', 'tool_failed', {_in('told')}, 'ok', '')",
    "final": _ENDS,
    "hold_id": f"if({_in('held', 'shown', 'decided', 'asked about it', 'found')}"
    f" OR (life = 'approved' AND {_in('cleared', 'claimed')}), substring(id, 1, 32), '')",
    "hold_reason": f"multiIf({_in('held')}, 'risk', {_in('asked about it')}, 'in_doubt', '')",
    "approver_group": _where(_in("held", "asked about it"), "'finance'"),
    "quorum": "1",
    "approvable": _in("shown"),
    "verdict": f"multiIf({_in('decided')}, 'approve', {_in('found')}, 'committed', '')",
    "shown_digest": _where(_in("shown", "decided", "found"), "substring(id, 3, 32)"),
    "claim_id": f"multiIf({_OF_CLAIM}, substring(id, 5, 32), {_OF_SECOND}, substring(id, 6, 32), '')",
    "attempt": _where(_in("attempted", "attempted again"), "substring(id, 7, 32)"),
    "sent_by": _where(_in("attempted", "attempted again"), "'holder'"),
    "outcome": f"multiIf({_ENDED_WELL}, 'committed', {_in('not finished')}, 'failed', '')",
    "vouches": _where(_in("not finished", "given back"), "-1", "NULL"),
    "duration_ms": _where(_in("finished", "finished again", "not finished", "read"), "5 + n % 90", "0"),
    "observation": _where(_in("told"), 'concat(\'{"ok":true,"call_id":"\', id, \'"}\')'),
    "output_bytes": "60",
    "rules": "['own_order']",
    "policies": "['support']",
    "fence": "-1",
    "body": "'{}'",
}
_EVENTS = f"""
(
    SELECT number AS n, lower(hex(SHA256(toString(number)))) AS id, cityHash64(id) % 12 AS place, {_LIFE} AS life, step, turn,
           {_by_step(0)} AS of_topic
    FROM numbers({{first:UInt64}}, {{count:UInt64}})
    ARRAY JOIN {_LIVES.replace("life", _LIFE)} AS step, arrayEnumerate({_LIVES.replace("life", _LIFE)}) AS turn
)
"""
_COUNT = f"SELECT of_topic, place, toInt64(count()) AS records FROM {_EVENTS} GROUP BY of_topic, place"
_INSERT = f"""
INSERT INTO fourgates.events ({", ".join(_COLUMNS)})
WITH mapFromArrays({{places:Array(String)}}, {{offsets:Array(Int64)}}) AS before
SELECT {", ".join(_COLUMNS.values())}
FROM {_EVENTS}
"""


def fill(store: Store, rows: int) -> int:
    """Puts about so many rows of the last 30 days into an empty store, as of topics without a gap; how many calls they are of."""
    calls = int(rows / EVENTS_A_CALL)
    ends: Counter[str] = Counter()
    for first in range(0, calls, _CALLS_AT_ONCE):
        some = {"first": first, "count": min(_CALLS_AT_ONCE, calls - first)}
        counted = {f"{row['of_topic']}{row['place']}": int(row["records"]) for row in store.query(_COUNT, some)}
        places = sorted(counted)
        store.command(_INSERT, {**some, "calls": calls, "places": places, "offsets": [ends[place] for place in places]})
        ends.update(counted)
    return calls
