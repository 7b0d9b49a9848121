"""What stands around a call: the same effect in other calls, switches that were set, quotas that it took from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from fourgates.audit.store import Query

Row: TypeAlias = dict[str, Any]

_SAME_EFFECT = """
SELECT call_id, toString(at) AS at_text, subject FROM fourgates.records
WHERE record = 'CallValidated' AND effect_key = {effect_key:String} AND call_id != {call_id:String}
ORDER BY at LIMIT 1 BY call_id LIMIT 6
"""
_ENDS = "SELECT call_id, status, code FROM fourgates.call_facts WHERE call_id IN {calls:Array(String)}"
_CONTROLS = """
SELECT *, toString(at) AS at_text, JSONExtractString(body, 'subject') AS about FROM fourgates.records
WHERE topic = 'controls' AND kind != 'invalid' AND about IN {subjects:Array(String)}
  AND at <= (SELECT max(at) FROM fourgates.records WHERE call_id = {call_id:String})
ORDER BY at, offset
"""
_UNKNOWN = "the audit does not know it"
_OFF = ("disable", "stop")


def related(query: Query, call: Row, records: Sequence[Row]) -> tuple[str, ...]:
    """Other calls that this one has to do with, each as a sentence with its whole id."""
    named = _named(records)
    same: list[Row] = []
    if call["effect_key"] and call["risk"] != "read":
        same = query(_SAME_EFFECT, {"effect_key": call["effect_key"], "call_id": call["call_id"]})
    others = list(dict.fromkeys([*named, *(row["call_id"] for row in same)]))
    if not others:
        return ()
    ends = {row["call_id"]: f"{row['status']} ({row['code']})" if row["code"] else row["status"]
            for row in query(_ENDS, {"calls": others})}  # fmt: skip
    asked = {row["call_id"]: row for row in same}
    lines = [f"{said} {other}: {ends.get(other, _UNKNOWN)}" for other, said in named.items()]
    for other in (other for other in others if other not in named):
        when = "before" if asked[other]["at_text"] < call["asked_text"] else "afterwards"
        lines.append(f"the same effect was asked for {when} by {asked[other]['subject']}, {other}: {ends.get(other, _UNKNOWN)}")
    return tuple(lines)


def _named(records: Sequence[Row]) -> dict[str, str]:
    """Calls that the records of this one name: the first of a near duplicate, the one whose answer was told."""
    found: dict[str, str] = {}
    for record in records:
        detail = record["body"].get("detail")
        if not isinstance(detail, dict):
            continue
        if first := detail.get("first_call"):
            found.setdefault(str(first), "it is a near duplicate of")
        if answers := detail.get("answers"):
            found[str(answers)] = "it was answered with the result of"
    return found


def controls(query: Query, call: Row) -> list[Row]:
    """Switches about the call's tool, agent, tenant or run: the one that stood when it was asked, and those set meanwhile."""
    subjects = [f"tool:{call['tool']}", f"tenant:{call['tenant']}", f"run:{call['tenant']}/{call['run_id']}"]
    subjects += [f"agent:{call['agent']}"] if call["agent"] else []
    rows = query(_CONTROLS, {"subjects": subjects, "call_id": call["call_id"]})
    before = {row["about"]: row for row in rows if row["at_text"] < call["asked_text"]}  # the last word of each
    standing = [row for row in before.values() if row["kind"] in _OFF]
    return standing + [row for row in rows if row["at_text"] >= call["asked_text"]]
