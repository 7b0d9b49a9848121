"""Entries of folded logs as far as their folds look at them: whoever folds a log from its beginning reads millions.

Avro writes the fields of a record one after the other, a text as its length and its bytes. So what no fold looks at is passed
over by its length, and what comes after the last field that one looks at is not touched. A fifth of the cost of all of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from .events import ApprovalEvent, ApprovalKind, EffectEntry, EffectKind, LedgerEntry, LedgerKind, Requested
from .parts import CallRef, Cause, EffectClaim
from .topology import APPROVALS, CALLS_LEDGER, EFFECTS

_ORDER: dict[Any, tuple[str, ...]] = {
    LedgerEntry: (
        "event_id", "producer", "cause", "kind", "call_id", "about", "claim_id", "attempt", "by", "vouches", "outcome", "code",
    ),
    EffectEntry: (
        "event_id", "producer", "cause", "kind", "effect_key", "call_id", "fence", "claim_id", "window_ms", "supersedes",
        "amount", "subject", "limit",
    ),
    ApprovalEvent: ("event_id", "producer", "cause", "kind", "hold_id", "call_id", "held", "requested"),
    Requested: ("shown", "shown_digest", "preview_digest", "approvable"),
    Cause: ("event_id", "topic", "partition", "offset"),
    CallRef: ("tenant", "run_id", "tool_call_id", "subject", "agent", "tool", "tool_version", "risk", "args_digest"),
}  # fmt: skip
"""The fields that are read or passed over, in their order."""
_LEDGER_KINDS = {bytes((2 * len(kind.value),)) + kind.value.encode(): kind for kind in LedgerKind}
_EFFECT_KINDS = {bytes((2 * len(kind.value),)) + kind.value.encode(): kind for kind in EffectKind}
_REQUESTED = bytes((2 * len(ApprovalKind.REQUESTED.value),)) + ApprovalKind.REQUESTED.value.encode()
_ATTEMPTED = next(head for head, kind in _LEDGER_KINDS.items() if kind is LedgerKind.ATTEMPTED)
_NEAR = 256
"""The kind stands within so many bytes, unless a process has a very long name."""
_THERE = 2
"""How Avro writes that a field that may be null is not: the second branch, as a zigzag number."""


class CauseBeginning(NamedTuple):
    """Which record made the entry happen, and where it lay."""

    event_id: str
    offset: int


class RefBeginning(NamedTuple):
    """Which call it is."""

    tool: str
    args_digest: str


class LedgerBeginning(NamedTuple):
    """As much of a LedgerEntry as a fold looks at, under the same names."""

    kind: LedgerKind
    call_id: str
    claim_id: str
    cause: CauseBeginning | None
    about: RefBeginning | None
    attempt: str
    by: str
    vouches: int | None
    outcome: str
    code: str

    def key(self) -> str:
        return self.call_id


class EffectBeginning(NamedTuple):
    """As much of an EffectEntry as a fold looks at, under the same names."""

    kind: EffectKind
    effect_key: str
    call_id: str
    fence: int
    claim_id: str
    window_ms: int
    supersedes: tuple[EffectClaim, ...]
    amount: int
    subject: str
    limit: int

    def key(self) -> str:
        return self.effect_key


class QuestionBeginning(NamedTuple):
    """As much of a Requested as a fold looks at: which text people are shown, not the text."""

    shown_digest: str
    preview_digest: str
    approvable: bool


class RequestedBeginning(NamedTuple):
    """As much of an ApprovalEvent of kind Requested as a fold looks at, under the same names."""

    hold_id: str
    call_id: str
    requested: QuestionBeginning
    kind: ApprovalKind = ApprovalKind.REQUESTED
    held: None = None
    decided: None = None

    def key(self) -> str:
        return self.call_id


Beginning: TypeAlias = LedgerBeginning | EffectBeginning | RequestedBeginning


def check_order() -> None:
    """Raises TypeError where the records do not begin with those fields any more: they are read in that order."""
    for cls, read in _ORDER.items():
        declared = tuple(field.name for field in dataclasses.fields(cls))
        if declared[: len(read)] != read or (cls in (Cause, CallRef, Requested) and declared != read):
            raise TypeError(f"{cls.__name__} does not begin with {', '.join(read)}")


check_order()


def ledger_beginning(body: bytes) -> LedgerBeginning:
    """The beginning of an entry's Avro body. Raises IndexError, KeyError or ValueError for what is none."""
    at, cause = _cause(body, _over(body, 0, 2))
    about, vouches = None, None
    end = at + 1 + (body[at] >> 1)
    kind = _LEDGER_KINDS[body[at:end]]
    at, call_id = _text(body, end)
    if body[at] == _THERE:
        at, tool = _text(body, _over(body, at + 1, 5))
        at, args_digest = _text(body, _over(body, at, 2))
        about = RefBeginning(tool, args_digest)
    else:
        at = _missing(body, at)
    at, claim_id = _text(body, at)
    at, attempt = _text(body, at)
    at, by = _text(body, at)
    if body[at] == _THERE:
        at, vouches = _long(body, at + 1)
    else:
        at = _missing(body, at)
    at, outcome = _text(body, at)
    at, code = _text(body, at)
    if at > len(body):
        raise IndexError
    return LedgerBeginning(kind, call_id, claim_id, cause, about, attempt, by, vouches, outcome, code)


def effect_beginning(body: bytes) -> EffectBeginning:
    """The same of an entry of `effects`. Raises ValueError also for one that sets aside others' claims: those are rare."""
    at, _ = _cause(body, _over(body, 0, 2))
    end = at + 1 + (body[at] >> 1)
    kind = _EFFECT_KINDS[body[at:end]]
    at, effect_key = _text(body, end)
    at, call_id = _text(body, at)
    at, fence = _long(body, at)
    at, claim_id = _text(body, at)
    at, window_ms = _long(body, at)
    at, amount = _long(body, _missing(body, at))
    at, subject = _text(body, at)
    at, limit = _long(body, at)
    if at > len(body):
        raise IndexError
    return EffectBeginning(kind, effect_key, call_id, fence, claim_id, window_ms, (), amount, subject, limit)


def requested_beginning(body: bytes) -> RequestedBeginning:
    """The same of a Requested. Raises ValueError also for an approval event of another kind: a fold looks at all of those."""
    at, _ = _cause(body, _over(body, 0, 2))
    if not body.startswith(_REQUESTED, at):
        raise ValueError
    at, hold_id = _text(body, at + len(_REQUESTED))
    at, call_id = _text(body, at)
    at = _missing(body, at)
    if body[at] != _THERE:
        raise ValueError
    at, shown_digest = _text(body, _over(body, at + 1, 1))
    at, preview_digest = _text(body, at)
    approvable = body[at]
    if approvable > 1:
        raise ValueError
    return RequestedBeginning(hold_id, call_id, QuestionBeginning(shown_digest, preview_digest, bool(approvable)))


def says_attempted(body: bytes) -> bool:
    """Whether a ledger entry's body says that it is an Attempted; of a malformed one it may say anything."""
    if _ATTEMPTED not in body[:_NEAR]:  # far cheaper than reading, and it is one entry of three
        return False
    try:
        at, _ = _cause(body, _over(body, 0, 2))
    except (IndexError, ValueError):
        return False
    return body.startswith(_ATTEMPTED, at)


BEGINNINGS: dict[str, Callable[[bytes], Beginning]] = {
    CALLS_LEDGER: ledger_beginning, EFFECTS: effect_beginning, APPROVALS: requested_beginning,
}  # fmt: skip
"""Topic -> how the beginnings of its records are read."""


def _cause(body: bytes, at: int) -> tuple[int, CauseBeginning | None]:
    if body[at] != _THERE:
        return _missing(body, at), None
    at, event_id = _text(body, at + 1)
    at, _ = _long(body, _over(body, at, 1))
    at, offset = _long(body, at)
    return at, CauseBeginning(event_id, offset)


def _missing(body: bytes, at: int) -> int:
    """What may be null, and is; or a list that is empty."""
    if body[at]:
        raise ValueError
    return at + 1


def _text(body: bytes, at: int) -> tuple[int, str]:
    """(where the next field begins, the text)."""
    size = body[at]
    if not size:
        return at + 1, ""
    if size & 0x81:
        at, size = _size(body, at)
    else:
        at, size = at + 1, size >> 1
    return (end := at + size), body[at:end].decode()


def _over(body: bytes, at: int, texts: int) -> int:
    """Where the field after so many texts begins."""
    for _ in range(texts):
        size = body[at]
        if size & 0x81:
            at, size = _size(body, at)
            at += size
        else:
            at += 1 + (size >> 1)
    return at


def _size(body: bytes, at: int) -> tuple[int, int]:
    at, size = _long(body, at)
    if size < 0:
        raise ValueError
    return at, size


def _long(body: bytes, at: int) -> tuple[int, int]:
    """(where the next field begins, the number): seven bits a byte, the lowest first, the sign in the lowest bit."""
    low = body[at]
    if low < 128:
        return at + 1, (low >> 1) ^ -(low & 1)
    high = body[at + 1]
    if high < 128:
        bits = low & 127 | high << 7
        return at + 2, (bits >> 1) ^ -(bits & 1)
    bits, shift, at = low & 127 | (high & 127) << 7, 14, at + 2
    while True:
        high = body[at]
        at += 1
        bits |= (high & 127) << shift
        if high < 128:
            return at, (bits >> 1) ^ -(bits & 1)
        shift += 7
