"""The state of one call in the fold of calls.ledger."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

READ_MEMORY = timedelta(minutes=10)
"""How long a read's first answer is remembered, in broker time; asked again later it is read afresh."""
READ_MEMORY_MS = int(READ_MEMORY / timedelta(milliseconds=1))


class Phase(StrEnum):
    OPEN = "open"
    CLAIMED = "claimed"
    IN_DOUBT = "in_doubt"
    FINAL = "final"


class OutcomeKind(StrEnum):
    COMMITTED = "committed"
    FAILED = "failed"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    NOT_APPLIED = "not_applied"


class Outcome(NamedTuple):
    """How a call ended; `code` as the entry says, empty for the outcome's own."""

    kind: OutcomeKind
    code: str = ""


class CallState(NamedTuple):
    """What the entries so far say about one call. A tuple: whoever folds a log from its beginning makes millions of them."""

    phase: Phase = Phase.OPEN
    claim_id: str = ""
    fence: int = -1
    """Offset of the last Claimed that won; stays when the call opens again."""
    attempts: frozenset[str] = frozenset()
    stop: bool = False
    """A cancel came after the claim: a request to stop; it makes a later Released final."""
    outcome: Outcome | None = None
    final_ms: int = 0
    read: bool = False
    used: frozenset[str] = frozenset()
    """Claim ids that were seen; each is used once."""
    identity: bytes = b""
    """`identity_of` the first entry that counted; another value under the same key is a conflict."""

    def forgotten(self, now_ms: int) -> bool:
        """True for a read's answer past its ten minutes: the call is as good as new."""
        return self.read and self.phase is Phase.FINAL and now_ms - self.final_ms >= READ_MEMORY_MS


OPEN = CallState()


def identity_of(tool: str, args_digest: str) -> bytes:
    """Which call it is, in seven bytes: whoever uses a key for another tool or other arguments meets another value."""
    return hashlib.blake2b(f"{tool}\0{args_digest}".encode(), digest_size=7).digest()
