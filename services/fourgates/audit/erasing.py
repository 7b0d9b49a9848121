"""What erasure does to a row: whose it was and what they said is gone; counts, codes, times and digests stay. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fourgates.audit.columns import Row
from fourgates.audit.fields import Digest
from fourgates.audit.redactions import compact

ERASED = "[erased]"
"""Stands where words were."""
PSEUDONYM = "erased:"
"""How the names begin that stand in place of erased ones: equal where the person was the same, and nothing more."""
WORDS = ("intent", "arguments", "field", "sentence", "state_change", "observation")
"""Columns that hold what users, models, tools and hosts said."""
NAMES = ("subject", "person")
ERASABLE = frozenset((*WORDS, *NAMES, "approvers", "body", "erased_ms"))
"""Every other column is the same before and after."""
IN_CALLS_OF_OTHERS = frozenset(("approvers", "body", "erased_ms"))
"""What may change in a row that is somebody else's."""
_EMPTY = ("", "{}")
_SEALED = ("erasure_id", "tenant", "subject_digest", "pseudonym", "asked_by", "asked_ms", "calls", "rows", "log_until_ms")


@dataclass(frozen=True, slots=True)
class Erased:
    """Whose data goes. `persons` are the humans behind the account, as the rows name them."""

    subject: str
    persons: frozenset[str]
    pseudonym: str
    at_ms: int


def erased_row(row: Row, who: Erased, *, own_call: bool) -> Row:
    """The row without the person. Of a call of somebody else (where the person decided) only their name and words go."""
    names = who.persons | {who.subject}
    changed: Row = {name: who.pseudonym for name in NAMES if row[name] in names}
    if row["approvers"]:
        changed["approvers"] = [who.pseudonym if one in names else one for one in row["approvers"]]
    if own_call:
        changed |= {name: ERASED for name in WORDS if row[name] not in _EMPTY}
        changed["body"] = compact({"erased": True})
    else:
        spoke = row["kind"] == "Decided" and row["subject"] == who.subject
        body = _renamed(_object(row["body"]), names, who.pseudonym)
        changed["body"] = compact(body | {"words": ERASED} if spoke and body.get("words") else body)
    return row | changed | {"erased_ms": who.at_ms}


def looks_erased(column: str, value: Any) -> bool:
    """Whether this is something that erasure may have put there."""
    if column == "approvers":
        return all(not one.startswith(PSEUDONYM) or len(one) > len(PSEUDONYM) for one in value)
    if column in ("body", "erased_ms"):
        return True
    return value in (ERASED, "") or str(value).startswith(PSEUDONYM)


def subject_digest(digest: Digest, tenant: str, subject: str) -> str:
    """By which an erasure remembers whom it was about, without the name."""
    return digest(json.dumps(["fourgates.erased.v1", tenant, subject]))


def erasure_seal(digest: Digest, entry: Mapping[str, Any]) -> str:
    """The seal of an entry of `erasures`: who cannot seal cannot pass an alteration off as an erasure."""
    return digest(json.dumps(["fourgates.erasure.v1", *(str(entry[name]) for name in _SEALED)]))


def _renamed(value: Any, names: frozenset[str], pseudonym: str) -> Any:
    """The same JSON with each text that is one of the names replaced."""
    if isinstance(value, str):
        return pseudonym if value in names else value
    if isinstance(value, list):
        return [_renamed(one, names, pseudonym) for one in value]
    if isinstance(value, Mapping):
        return {key: _renamed(one, names, pseudonym) for key, one in value.items()}
    return value


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
