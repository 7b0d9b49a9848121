"""What may be committed never passes an unfinished record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.runtime.intake import Offsets


@given(st.integers(min_value=0, max_value=1_000), st.lists(st.integers(min_value=1, max_value=3), max_size=40), st.data())
def test_the_commit_is_the_lowest_unfinished_offset(first: int, steps: list[int], data: st.DataObject) -> None:
    offsets, under_way, newest, committed = Offsets(), set[int](), None, -1
    for step in steps:
        newest = first if newest is None else newest + step
        assert offsets.begin(newest)
        under_way.add(newest)
        for offset in data.draw(st.lists(st.sampled_from(sorted(under_way)), unique=True, max_size=len(under_way))):
            offsets.finish(offset)
            under_way.discard(offset)
        expected = min(under_way, default=newest + 1)
        assert offsets.committable == expected
        assert offsets.committable >= committed
        committed = offsets.committable
    for offset in sorted(under_way, reverse=True):
        offsets.finish(offset)
    assert offsets.committable == (None if newest is None else newest + 1)
    assert offsets.span == 0


def test_before_the_first_record_there_is_nothing_to_commit() -> None:
    offsets = Offsets()
    assert offsets.committable is None
    assert offsets.expected is None


def test_a_known_start_counts_as_the_end_of_what_was_finished_before() -> None:
    offsets = Offsets(7)
    assert offsets.expected == offsets.committable == 7
    assert not offsets.begin(6)
    assert offsets.begin(7)
    assert offsets.committable == 7
    offsets.finish(7)
    assert offsets.committable == 8


def test_a_repeated_delivery_is_not_begun_again() -> None:
    offsets = Offsets()
    assert offsets.begin(5)
    assert offsets.begin(6)
    assert not offsets.begin(5)
    assert not offsets.begin(4)
    offsets.finish(5)
    assert not offsets.begin(5)
    assert offsets.committable == 6
    assert offsets.expected == 7


@pytest.mark.parametrize("offset", [4, 6, 9])
def test_only_a_record_under_way_can_be_finished(offset: int) -> None:
    offsets = Offsets()
    for begun in (5, 7, 8):
        offsets.begin(begun)
    offsets.finish(7)
    with pytest.raises(KeyError):
        offsets.finish(offset)
    with pytest.raises(KeyError):
        offsets.finish(7)


def test_the_span_counts_from_the_lowest_unfinished_record() -> None:
    offsets = Offsets()
    for begun in range(10):
        offsets.begin(begun)
    for finished in (1, 2, 3):
        offsets.finish(finished)
    assert offsets.span == 10
    offsets.finish(0)
    assert offsets.span == 6
