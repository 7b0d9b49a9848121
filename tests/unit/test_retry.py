"""When an attempt may be repeated: a table over all combinations, and the bounds of the wait."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.gates.retry import RetryLook, backoff, may_retry

FIELDS = ("transient", "read", "key_honoured", "budget_left", "approval_valid", "cancelled", "attempts_left")


@pytest.mark.parametrize("values", list(itertools.product([False, True], repeat=len(FIELDS))))
def test_a_retry_needs_every_condition(values: tuple[bool, ...]) -> None:
    """E9: transient, and a read or an honoured key, and budget, approval and attempts left, and not cancelled."""
    look = dict(zip(FIELDS, values, strict=True))
    needed = all(look[name] for name in ("transient", "budget_left", "approval_valid", "attempts_left"))
    expected = needed and (look["read"] or look["key_honoured"]) and not look["cancelled"]
    assert may_retry(RetryLook(**look)) is expected


@given(st.integers(1, 40), st.floats(0, 100), st.integers())
def test_the_wait_is_capped_and_never_shorter_than_the_downstream_asks(attempt: int, asked: float, seed: int) -> None:
    """E9: full jitter below an exponential cap; Retry-After is respected."""
    wait = backoff(attempt, base_s=0.2, cap_s=5.0, retry_after_s=asked, rng=random.Random(seed))
    assert asked <= wait <= max(5.0, asked)
    free = backoff(attempt, base_s=0.2, cap_s=5.0, retry_after_s=None, rng=random.Random(seed))
    assert 0 <= free <= min(5.0, 0.2 * 2 ** (attempt - 1))
