"""One sentence for each kind of record, from its row in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]


def tell(record: Row) -> str:
    """What this record says, as a person would put it. `body` is parsed already."""
    told = _TELLING.get((record["record"], record["kind"])) or _TELLING.get((record["record"], ""))
    return told(record) if told else f"{record['record']} {record['kind']}"


def _requested(r: Row) -> str:
    return f"asks for {r['tool']} with {r['arguments']}"


def _validated(r: Row) -> str:
    rules = f"; rules {', '.join(r['rules'])}" if r["rules"] else ""
    facts = f"; facts {_json(r['body']['facts'])}" if r["body"].get("facts") else ""
    breaches = "".join(
        f"; {b['pointer'] or 'the action'} comes from {b['origin']}" + (f", “{b['quote']}”" if b["quote"] else "")
        for b in r["body"].get("breaches", ())
    )
    return f"identity, format and business rules pass{rules}{facts}{breaches}"


def _held(r: Row) -> str:
    task = "find out what happened" if r["hold_reason"] == "in_doubt" else "say yes"
    return f"holds it ({r['hold_reason']}): {r['quorum']} of {r['approver_group']} must {task}"


_SHORT = 200
"""Characters of what stands whole in the row's body."""


def _shown(r: Row) -> str:
    """The heart of what people saw; the whole of it stands in the row's body."""
    shown = r["body"].get("shown")
    preview = shown.get("preview") if isinstance(shown, dict) else None
    if not isinstance(preview, dict):
        return f"asks people, without a preview: {_json(shown)[:_SHORT]}"
    amount = f", {preview['amount']}" if preview.get("amount") else ""
    change = f"{_json(preview.get('before'))} → {_json(preview.get('after'))}"
    return f"shows people: {preview.get('target')}{amount}, {change}"


def _decided(r: Row) -> str:
    words = r["body"].get("words")
    return f"says {r['verdict']}" + (f": “{words}”" if words else "")


def _cleared(r: Row) -> str:
    by = f"policies {', '.join(r['policies'])}" if r["policies"] else "the gates"
    people = f", approved by {', '.join(r['approvers'])}" if r["approvers"] else ""
    return f"clears it: {by}{people}"


def _refused(r: Row) -> str:
    where = f" at {r['field']}" if r["field"] else ""
    sentence = f" “{r['sentence']}”" if r["sentence"] else ""
    return f"refuses it: {r['code']} ({r['reason']}){where}{sentence}"


def _released(r: Row) -> str:
    why = f": {r['code']} ({r['reason']})" if r["code"] else ""
    return f"gives the claim back{why}; nothing ran"


def _finished(r: Row) -> str:
    if r["outcome"] != "committed":
        return f"finished: {r['outcome']}, {r['code']} ({r['reason']})"
    change = f"; changed {r['state_change']}" if r["state_change"] not in ("", "{}") else ""
    return f"finished after {r['duration_ms']} ms{change}"


def _completed(r: Row) -> str:
    again = ", the answer of another call with the same effect" if r["replayed"] else ""
    return f"tells the model: {r['code']}{'' if r['final'] else ' (not the last word)'}{again}"


_TELLING: dict[tuple[str, str], Callable[[Row], str]] = {
    ("CallRequested", "call"): _requested,
    ("CallRequested", "cancel"): lambda r: "cancels it",
    ("CallValidated", ""): _validated,
    ("ApprovalEvent", "Held"): _held,
    ("ApprovalEvent", "Requested"): _shown,
    ("ApprovalEvent", "Decided"): _decided,
    ("ApprovalEvent", "Expired"): lambda r: "nobody decided in time",
    ("ApprovalEvent", "Withdrawn"): lambda r: f"withdraws the question ({r['reason']})",
    ("CallCleared", "cleared"): _cleared,
    ("CallCleared", "resolution"): lambda r: f"{r['person']} resolved the doubt: {r['outcome']}",
    ("LedgerEntry", "Refused"): _refused,
    ("LedgerEntry", "Cancelled"): lambda r: "notes that the caller cancelled it",
    ("LedgerEntry", "Pending"): lambda r: "waits for people",
    ("LedgerEntry", "Claimed"): lambda r: "claims it for execution",
    ("LedgerEntry", "Attempted"): lambda r: f"sends it ({r['sent_by']})",
    ("LedgerEntry", "Released"): _released,
    ("LedgerEntry", "Finished"): _finished,
    ("LedgerEntry", "InDoubt"): lambda r: f"does not know whether it took effect ({r['reason']})",
    ("LedgerEntry", "Resolved"): lambda r: f"takes the person's word: {r['outcome']}",
    ("LedgerEntry", "Replayed"): lambda r: "was asked again; the first answer stands",
    ("EffectEntry", "Claimed"): lambda r: f"claims the effect {r['effect_key']}",
    ("EffectEntry", "Released"): lambda r: "releases the effect",
    ("EffectEntry", "Reserved"): lambda r: f"takes {r['amount']} from the quota {_quota(r)}",
    ("EffectEntry", "Returned"): lambda r: f"gives {r['amount']} back to the quota {_quota(r)}",
    ("CallCompleted", ""): _completed,
}


def _quota(r: Row) -> str:
    """Tenant, whose quota, tool: the readable part of its key."""
    return str(r["effect_key"]).rpartition("/")[0] or str(r["effect_key"])


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
