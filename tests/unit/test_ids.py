"""Identifiers are derived, unambiguous and repeat themselves."""

from __future__ import annotations

import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract import ids

PARTS = ("issuer", "tenant", "subject", "agent", "run", "call")
texts = st.text(max_size=6)


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_no_two_lists_of_parts_give_the_same_bytes(one: list[str], other: list[str]) -> None:
    assert (ids.length_prefixed(one) == ids.length_prefixed(other)) is (one == other)


def test_moving_a_letter_over_a_border_gives_another_call() -> None:
    assert ids.call_id("i", "acme", "anna", "bot", "r", "1") != ids.call_id("i", "acmea", "nna", "bot", "r", "1")


@pytest.mark.parametrize("which", range(len(PARTS)), ids=PARTS)
def test_call_id_depends_on_every_part(which: int) -> None:
    other = tuple(part + "x" if i == which else part for i, part in enumerate(PARTS))
    assert ids.call_id(*PARTS) == ids.call_id(*PARTS)
    assert ids.call_id(*PARTS) != ids.call_id(*other)


def test_call_id_is_64_hex_digits_and_event_id_32() -> None:
    assert len(bytes.fromhex(ids.call_id(*PARTS))) == 32
    assert len(bytes.fromhex(ids.event_id("cause", "validator", "CallValidated"))) == 16
    assert len(bytes.fromhex(ids.random_id())) == 16


def test_event_id_repeats_with_its_cause_and_differs_by_kind() -> None:
    first = ids.event_id("cause", "executor", "Attempted", "claim", "1")
    assert first == ids.event_id("cause", "executor", "Attempted", "claim", "1")
    others = {
        ids.event_id("other", "executor", "Attempted", "claim", "1"),
        ids.event_id("cause", "waiter", "Attempted", "claim", "1"),
        ids.event_id("cause", "executor", "Claimed", "claim", "1"),
        ids.event_id("cause", "executor", "Attempted", "claim", "2"),
        ids.event_id("cause", "executor", "Attempted", "claim1"),
    }
    assert first not in others
    assert len(others) == 5


def test_effect_key_starts_with_tenant_and_effect_and_separates_tenants() -> None:
    key = ids.effect_key("acme", "refund", "A-1001")
    assert key.startswith("acme/refund/")
    assert key != ids.effect_key("beta", "refund", "A-1001").replace("beta", "acme")


@given(st.integers(min_value=0, max_value=(1 << 48) - 1))
def test_run_id_is_a_uuid7_that_carries_its_time(ms: int) -> None:
    run = uuid.UUID(ids.new_run_id(ms))
    assert (run.version, run.variant) == (7, uuid.RFC_4122)
    assert ids.run_started_ms(str(run)) == ms


def test_new_run_id_is_of_now_and_never_the_same() -> None:
    before = time.time_ns() // 1_000_000
    made = {ids.new_run_id() for _ in range(100)}
    assert len(made) == 100
    assert all(before <= ids.run_started_ms(run) <= before + 10_000 for run in made)


@pytest.mark.parametrize(
    "text",
    ["", "run-1", str(uuid.UUID(int=0, version=4)), ids.new_run_id(1).upper().replace("0", "A"), ids.new_run_id(1)[:-1],
     ids.new_run_id(1).replace("-", ""), "{" + ids.new_run_id(1)[1:-1] + "}"],
    ids=["none", "a word", "another version", "capitals", "short", "without dashes", "in braces"],
)  # fmt: skip
def test_other_text_is_no_run_id(text: str) -> None:
    with pytest.raises(ValueError):
        ids.run_started_ms(text)
