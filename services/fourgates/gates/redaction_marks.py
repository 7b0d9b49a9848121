"""The placeholder that stands where something was taken out: `[redacted:kind:xxxxxx]`.

The six digits are a keyed digest of the value: the same value of the same call gets the same ones, and nobody without the key
can try values.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator
from typing import Any

from fourgates.contract.ids import length_prefixed
from fourgates.gates.redaction_patterns import CHOSEN, SECRETS
from fourgates.gates.text import clean

PLACEHOLDER = re.compile(rf"\[redacted:(?:{'|'.join((*SECRETS, *CHOSEN))}):[0-9a-f]{{6}}\]")
_LONGEST = len("[redacted::xxxxxx]") + max(len(kind) for kind in (*SECRETS, *CHOSEN))
_ANY = re.compile(r"\[\s*redacted\s*:\s*[a-z_]+\s*:\s*[0-9a-f]{6}\s*\]", re.IGNORECASE)


def placeholder(key: bytes, call_id: str, kind: str, value: str) -> str:
    """What stands in place of `value` in that call's result."""
    data = length_prefixed(("fourgates.placeholder.v1", call_id, value))
    return f"[redacted:{kind}:{hmac.digest(key, data, 'sha256')[:3].hex()}]"


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text between placeholders, with where each piece begins: what was redacted is never looked at again."""
    start = 0
    for found in PLACEHOLDER.finditer(text):
        yield start, text[start : found.start()]
        start = found.end()
    yield start, text[start:]


def placeholder_around(text: str, at: int) -> tuple[int, int] | None:
    """The placeholder that a cut at `at` would tear, as (start, end)."""
    for found in PLACEHOLDER.finditer(text, max(0, at - _LONGEST), at + _LONGEST):
        if found.start() < at < found.end():
            return found.span()
    return None


def has_placeholder(arguments: Any) -> bool:
    """True where a model hands a placeholder back in a JSON value or in raw text. No write may take it for the value."""
    if isinstance(arguments, str):
        return _ANY.search(clean(arguments)) is not None
    if isinstance(arguments, dict):
        return any(has_placeholder(part) for item in arguments.items() for part in item)
    return isinstance(arguments, list | tuple) and any(has_placeholder(item) for item in arguments)
