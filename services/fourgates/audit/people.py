"""What people were asked about a call, what they saw, and what they said. From the rows of `approvals`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]

_TASK = {
    "risk": "it changes something, and no policy lets it pass without a person",
    "policy": "a policy asks for a person",
    "origin_breach": "an argument came from where it may not come from, or the request had not announced it",
    "near_duplicate": "another call has had this effect already",
    "in_doubt": "nobody knew whether it took effect",
}
_VERDICTS = {"approve": "approved it", "deny": "declined it", "committed": "found that it had taken effect",
             "not_applied": "found that it had not taken effect"}  # fmt: skip
_LONGEST = 200


def people(records: Sequence[Row]) -> tuple[str, ...]:
    """One block of lines for each question, in the order in which they were asked."""
    lines: list[str] = []
    for held in (r for r in records if r["record"] == "ApprovalEvent" and r["kind"] == "Held"):
        if lines:
            lines.append("")
        lines += _question(held, [r for r in records if r["record"] == "ApprovalEvent" and r["hold_id"] == held["hold_id"]])
    return tuple(lines)


def _question(held: Row, of_it: Sequence[Row]) -> list[str]:
    quorum = int(held["quorum"])
    group = f"the group {held['approver_group']}"
    who = f"{quorum} of {group} were" if quorum > 1 else f"{group} was"
    lines = [f"{who} asked, because {_TASK.get(held['hold_reason'], held['hold_reason'])}"]
    for breach in held["body"].get("breaches", ()):
        quote = f": “{_short(breach['quote'])}”" if breach["quote"] else ""
        lines.append(f"  {breach['pointer'] or 'the action'} comes from {breach['source'] or breach['origin']}{quote}")
    for record in of_it:
        match record["kind"]:
            case "Requested":
                lines += _shown(record)
            case "Decided":
                words = record["body"].get("words")
                said = f" in these words: “{_short(words)}”" if words else ""
                lines.append(f"  {record['person']} {_VERDICTS.get(record['verdict'], record['verdict'])}{said}")
            case "Expired":
                lines.append("  nobody decided in time")
            case "Withdrawn":
                lines.append(f"  the question was withdrawn ({record['reason']})")
    if len(of_it) == 1:
        lines.append("  it joined a question about the same call that was open already")
    return lines


def _shown(record: Row) -> list[str]:
    shown = record["body"].get("shown")
    if not isinstance(shown, dict):
        return ["  what they saw is no longer here"]
    preview = shown.get("preview")
    if not isinstance(preview, dict):
        fault = shown.get("preview_fault")
        return [f"  they saw the call and its arguments, without its effect{f' ({fault})' if fault else ''}"]
    amount = f", {preview['amount']}" if preview.get("amount") else ""
    back = "it can be undone" if preview.get("recoverable") else "it cannot be undone"
    return [f"  they saw: {preview.get('target')}{amount}; {back}", *_changes(preview.get("before"), preview.get("after"))]


def _changes(before: Any, after: Any) -> list[str]:
    """Field by field where both are objects; only what changes."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return [f"    {_short(_json(before))} → {_short(_json(after))}"]
    names = [name for name in (*before, *(n for n in after if n not in before)) if before.get(name) != after.get(name)]
    return [f"    {name}: {_short(_json(before.get(name)))} → {_short(_json(after.get(name)))}" for name in names]


def _short(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
