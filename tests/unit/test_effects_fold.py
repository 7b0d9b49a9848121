"""The fold of effects: who holds a key, and agreement with the reference model."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.contract.events import EffectEntry, EffectKind
from fourgates.contract.parts import EffectClaim
from fourgates.contract.ports import Envelope, Position
from fourgates.gates.effects import EMPTY, EffectsFold, KeyState, fold_effect, releasable, rivals
from fourgates.gates.ledger import OPEN, CallState, Outcome, OutcomeKind, Phase
from support.shared import shared_module

DAY = 86_400_000


def claimed(call: str, fence: int, *aside: tuple[str, int]) -> EffectEntry:
    return EffectEntry(
        event_id="e", producer="p", kind=EffectKind.CLAIMED, effect_key="k", call_id=call, fence=fence, window_ms=DAY,
        supersedes=tuple(EffectClaim(call_id=c, fence=f) for c, f in aside),
    )  # fmt: skip


def freed(call: str, fence: int) -> EffectEntry:
    return EffectEntry(event_id="e", producer="p", kind=EffectKind.RELEASED, effect_key="k", call_id=call, fence=fence)


def fold(*entries: EffectEntry, time_ms: int = 0) -> KeyState:
    state = EMPTY
    for one in entries:
        state = fold_effect(state, one, time_ms)
    return state


def holders(state: KeyState) -> dict[str, int]:
    return {call: holder.fence for call, holder in state.holders.items()}


def test_a_second_call_loses_and_the_first_keeps_the_key() -> None:
    """E4: one effect key has one holder inside the window."""
    assert holders(fold(claimed("a", 1), claimed("b", 5))) == {"a": 1}


def test_a_later_claim_of_the_same_call_replaces_its_earlier_one() -> None:
    """E5: a call is no rival of itself."""
    assert holders(fold(claimed("a", 1), claimed("a", 7))) == {"a": 7}


def test_a_released_fence_never_comes_back() -> None:
    """E5: a zombie's claim with an old fence is void after the owner released it."""
    assert holders(fold(claimed("a", 3), freed("a", 3), claimed("a", 2), claimed("a", 3))) == {}
    assert holders(fold(claimed("a", 3), freed("a", 3), claimed("a", 4))) == {"a": 4}


def test_a_superseding_claim_stands_beside_the_one_it_names() -> None:
    """E4: a person's yes sets aside the claim that it names and no other."""
    assert holders(fold(claimed("a", 1), claimed("b", 5, ("a", 1)))) == {"a": 1, "b": 5}
    assert holders(fold(claimed("a", 1), claimed("b", 5, ("a", 9)))) == {"a": 1}


def test_the_window_ends_by_broker_time() -> None:
    """E4: after the window the same effect may happen again."""
    first = fold_effect(EMPTY, claimed("a", 1), 0)
    assert holders(fold_effect(first, claimed("b", 5), DAY - 1)) == {"a": 1}
    assert holders(fold_effect(first, claimed("b", 5), DAY)) == {"a": 1, "b": 5}


def test_effects_are_released_when_and_only_when_nothing_can_happen_any_more() -> None:
    """E4, E5: final without effect, or open again above the fence; never what is not folded yet."""
    failed = CallState(phase=Phase.FINAL, outcome=Outcome(OutcomeKind.FAILED), fence=4)
    committed = CallState(phase=Phase.FINAL, outcome=Outcome(OutcomeKind.COMMITTED), fence=4)
    assert releasable(failed, 4, 4)
    assert not releasable(failed, 5, 4)
    assert not releasable(committed, 4, 9)
    assert releasable(CallState(fence=4), 4, 9)
    assert not releasable(CallState(phase=Phase.CLAIMED, claim_id="x", fence=8), 8, 9)
    assert releasable(CallState(phase=Phase.CLAIMED, claim_id="x", fence=8), 4, 9)
    assert releasable(OPEN, 0, 9)


def test_the_whole_fold_answers_by_call() -> None:
    """E4: what a call holds is found without looking through all keys."""
    fold_ = EffectsFold()
    for offset, one in enumerate((claimed("a", 1), claimed("b", 5), freed("a", 1), claimed("b", 6))):
        fold_.apply(Envelope(one, Position("effects", 0, offset), 0, "executor"))
    assert fold_.held_by("a") == {}
    assert fold_.held_by("b") == {"k": 6}
    assert fold_.calls() == ("b",)
    assert fold_.holds("k", "b", 6)
    assert not fold_.holds("k", "b", 7)


def test_keys_are_forgotten_a_day_after_their_windows() -> None:
    """E4: what is remembered is a window's, not the log's; what still excludes somebody, or was just released, stays."""
    kept = EffectsFold()

    def put(entry: EffectEntry, time_ms: int, key: str) -> None:
        kept.apply(Envelope(dataclasses.replace(entry, effect_key=key), Position("effects", 0, 0), time_ms, "executor"))

    put(claimed("a", 1), 0, "old")
    put(claimed("b", 1), DAY, "current")
    put(claimed("c", 1), 0, "released")
    put(freed("c", 1), DAY + 1, "released")
    put(claimed("d", 1), 2 * DAY, "new")
    assert set(kept.calls()) == {"b", "d"}
    put(claimed("c", 1), 2 * DAY, "released")
    assert kept.held_by("c") == {}
    put(claimed("d", 2), 2 * DAY + DAY // 2, "new")  # the next look at what is over
    put(claimed("e", 1), 4 * DAY, "new")
    assert set(kept.calls()) == {"e", "d"}
    put(claimed("c", 1), 4 * DAY, "released")
    assert kept.held_by("c") == {"released": 1}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["k", "l"]), st.deferred(lambda: ENTRIES), st.integers(0, 3)), max_size=14))
def test_the_small_form_is_the_fold(entries: list[tuple[str, EffectEntry, int]]) -> None:
    """E4: keys with one claim are kept apart from the others; what is answered is the plain fold's."""
    kept, plain, now_ms = EffectsFold(), {"k": EMPTY, "l": EMPTY}, 0
    for key, entry, hours in entries:
        now_ms += hours * 3_600_000
        entry = dataclasses.replace(entry, effect_key=key)
        kept.apply(Envelope(entry, Position("effects", 0, 0), now_ms, "executor"))
        plain[key] = fold_effect(plain[key], entry, now_ms)
        for call in "abc":
            assert kept.held_by(call) == {k: s.holders[call].fence for k, s in plain.items() if call in s.holders}
            for k, state in plain.items():
                assert kept.rivals(k, call, (), now_ms) == rivals(state, call, (), now_ms)
        assert set(kept.calls()) == {call for state in plain.values() for call in state.holders}


CALLS = st.sampled_from(["a", "b", "c"])
FENCES = st.integers(0, 4)
ENTRIES = st.one_of(
    st.builds(lambda c, f, s: claimed(c, f, *s), CALLS, FENCES, st.lists(st.tuples(CALLS, FENCES), max_size=2)),
    st.builds(freed, CALLS, FENCES),
)


@settings(max_examples=1_000, deadline=None)
@given(st.lists(ENTRIES, max_size=12))
def test_the_fold_agrees_with_the_reference_model(entries: list[EffectEntry]) -> None:
    """E4, E5: inside one window the same entries give the same holders as the searched model."""
    spec = shared_module("model/spec.py")
    ours, theirs = EMPTY, spec.Key()
    for one in entries:
        ours = fold_effect(ours, one, 0)
        theirs = spec.effects(theirs, {
            "kind": one.kind.value, "call": one.call_id, "fence": one.fence,
            "supersedes": tuple((c.call_id, c.fence) for c in one.supersedes),
        })  # fmt: skip
        assert holders(ours) == dict(theirs.holders)
        assert ours.freed == dict(theirs.freed)
