"""When an attempt may be repeated, and after how long."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryLook:
    """Everything that the decision looks at. All of it must say yes."""

    transient: bool
    """The tool says that asking again may help, or (where the key is honoured) the answer was lost."""
    read: bool
    key_honoured: bool
    budget_left: bool
    approval_valid: bool
    cancelled: bool
    attempts_left: bool


def may_retry(look: RetryLook) -> bool:
    """transient and (read or key honoured) and budget left and approval still valid and not cancelled and attempts left."""
    return (
        look.transient
        and (look.read or look.key_honoured)
        and look.budget_left
        and look.approval_valid
        and not look.cancelled
        and look.attempts_left
    )


def backoff(attempt: int, *, base_s: float, cap_s: float, retry_after_s: float | None, rng: random.Random) -> float:
    """Seconds until the next attempt: exponential with full jitter, capped; never sooner than the downstream asked for."""
    wait = rng.uniform(0, min(cap_s, base_s * 2 ** (attempt - 1)))
    return max(wait, retry_after_s or 0.0)
