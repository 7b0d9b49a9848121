"""Shares and their intervals, against values that others have computed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.audit.attribution import MEANING, PARTY_OF, Party
from fourgates.audit.wilson import Share
from fourgates.contract.codes import Code


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0.0, 0.2775), (1, 10, 0.0179, 0.4042), (5, 10, 0.2366, 0.7634), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_interval_is_the_published_one(part: int, whole: int, low: float, high: float) -> None:
    """L4: Newcombe (1998), table I, and R's binom.confint(method="wilson")."""
    assert Share(part, whole).interval == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))))
def test_interval_holds_its_share_and_narrows_with_more_calls(counts: tuple[int, int]) -> None:
    """L4."""
    few, many = Share(*counts), Share(counts[0] * 10, counts[1] * 10)
    assert few.interval is not None
    assert many.interval is not None
    assert few.value is not None
    assert 0 <= few.interval[0] <= few.value <= few.interval[1] <= 1
    assert many.interval[1] - many.interval[0] < few.interval[1] - few.interval[0]


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "-"),
        (2, 3, "67% (21–94)"),
        (3, 3, "100% (44–100)"),
        (99_999, 100_000, ">99%"),
        (1, 100_000, "<1%"),
        (0, 10**6, "0%"),
    ],
)
def test_share_reads_as_it_is(part: int, whole: int, text: str) -> None:
    """L4: never 100 % of what has an exception."""
    assert Share(part, whole).text() == text


def test_every_code_but_ok_is_somebodys_doing() -> None:
    """L4: each failure attributed."""
    assert set(PARTY_OF) == set(Code) - {Code.OK}
    assert set(PARTY_OF.values()) == set(Party) == set(MEANING)
