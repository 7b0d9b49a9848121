"""The fold of approvals: what people said counts once, in the log's order, by the broker's time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fourgates.contract.events import ApprovalEvent, ApprovalKind, HoldReason
from fourgates.contract.parts import EffectClaim
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import ApprovalFold, HoldState, HoldStatus, Objection, objection_to
from support.approvals import SHOWN, decided, expired, held, log_of, person, requested, withdrawn
from support.samples import CALL, PRINCIPAL

BEN, CLEO, DORA = person("ben"), person("cleo"), person("dora")


def folded(*entries: tuple[int, ApprovalEvent]) -> ApprovalFold:
    fold = ApprovalFold(lambda envelope: True)
    for envelope in log_of(entries):
        fold.apply(envelope)
    return fold


def state(hold_id: str, *entries: tuple[int, ApprovalEvent]) -> HoldState:
    hold = folded(*entries).hold(hold_id)
    assert hold is not None
    return hold


ASKED = ((10, held("h")), (20, requested("h")))


def test_approval_takes_a_request_and_one_person() -> None:
    """A6"""
    hold = state("h", *ASKED, (30, decided("h", "approve", BEN)))
    assert (hold.status, hold.approvers, hold.ended_by, hold.ended_ms) == (HoldStatus.APPROVED, ("ben",), "ben", 30)


def test_decision_before_anything_was_shown_is_void() -> None:
    """A2"""
    assert state("h", (10, held("h")), (20, decided("h", "approve", BEN))).status is HoldStatus.HELD


def test_decision_counts_for_what_its_person_was_shown() -> None:
    """A3: a second waiter's later Requested shows something else and is void."""
    other = "6" * 64
    shown = (*ASKED, (21, requested("h", shown_digest=other)))
    assert state("h", *shown, (30, decided("h", "approve", BEN, shown_digest=other))).status is HoldStatus.REQUESTED
    assert state("h", *shown, (30, decided("h", "approve", BEN))).status is HoldStatus.APPROVED


def test_first_terminal_entry_wins() -> None:
    """A6"""
    late = ((31, decided("h", "approve", CLEO)), (1_001, expired("h")), (1_002, withdrawn("h")))
    hold = state("h", *ASKED, (30, decided("h", "deny", BEN)), *late)
    assert (hold.status, hold.ended_by) == (HoldStatus.DENIED, "ben")


def test_decision_at_or_after_expiry_is_void() -> None:
    """A5"""
    assert state("h", *ASKED, (1_000, decided("h", "approve", BEN))).status is HoldStatus.REQUESTED
    assert state("h", *ASKED, (999, decided("h", "approve", BEN))).status is HoldStatus.APPROVED


def test_expiry_before_its_time_is_void_and_later_counts() -> None:
    """A5"""
    assert state("h", *ASKED, (999, expired("h"))).status is HoldStatus.REQUESTED
    assert state("h", *ASKED, (999, expired("h")), (1_000, expired("h"))).status is HoldStatus.EXPIRED


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (person("ben", agent="helper"), Objection.NOT_A_PERSON),
        (person("ben", service=True), Objection.NOT_A_PERSON),
        (person("ben", person=""), Objection.NOT_A_PERSON),
        (person("ben", tenant="other"), Objection.OTHER_TENANT),
        (person("ben", groups=("support",)), Objection.WRONG_GROUP),
        (person("ben", groups=()), Objection.WRONG_GROUP),
        (person(PRINCIPAL.person), Objection.REQUESTER),
        (person("second-account", person=PRINCIPAL.person), Objection.REQUESTER),
    ],
)
@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_word_of_who_may_not_decide_never_counts(who: Any, why: Objection, verdict: str) -> None:
    """A7"""
    said = decided("h", verdict, who)
    assert state("h", *ASKED, (30, said)).status is HoldStatus.REQUESTED
    assert said.decided is not None
    assert objection_to(state("h", *ASKED), said.decided, 30) is why


def test_quorum_counts_persons_not_accounts() -> None:
    """A7"""
    asked = ((10, held("h", quorum=2)), (20, requested("h")))
    twice = (*asked, (30, decided("h", "approve", BEN)), (31, decided("h", "approve", person("ben-admin", person="ben"))))
    assert state("h", *twice).status is HoldStatus.REQUESTED
    hold = state("h", *twice, (32, decided("h", "approve", CLEO)))
    assert (hold.status, hold.approvers) == (HoldStatus.APPROVED, ("ben", "cleo"))


def test_one_denial_beats_a_quorum_that_is_not_full() -> None:
    """A4"""
    asked = ((10, held("h", quorum=2)), (20, requested("h")))
    assert state("h", *asked, (30, decided("h", "approve", BEN)), (31, decided("h", "deny", BEN))).status is HoldStatus.DENIED


@pytest.mark.parametrize("word", ["yes", "Approve", "true", "1", "", "committed", "not_applied", "allow"])
def test_any_other_word_is_no_approval(word: str) -> None:
    """A6"""
    assert state("h", *ASKED, (30, decided("h", word, BEN))).status is HoldStatus.REQUESTED


def test_hold_whose_effect_cannot_be_shown_can_only_be_denied() -> None:
    """A2"""
    asked = ((10, held("h")), (20, requested("h", approvable=False)))
    assert state("h", *asked, (30, decided("h", "approve", BEN))).status is HoldStatus.REQUESTED
    assert state("h", *asked, (30, decided("h", "deny", BEN))).status is HoldStatus.DENIED


def test_second_hold_of_the_same_question_joins_while_the_first_is_open_or_approved() -> None:
    """A6"""
    assert state("i", *ASKED, (25, held("i"))).joined_to == "h"
    assert state("i", *ASKED, (30, decided("h", "approve", BEN)), (40, held("i"))).joined_to == "h"
    assert state("i", *ASKED, (30, decided("h", "deny", BEN)), (40, held("i"))).status is HoldStatus.HELD


def test_redelivered_held_changes_nothing() -> None:
    """A6"""
    hold = state("h", *ASKED, (30, decided("h", "deny", BEN)), (40, held("h")))
    assert (hold.status, hold.held_ms) == (HoldStatus.DENIED, 10)


def test_yes_to_one_question_answers_no_other() -> None:
    """A3: other arguments, a near duplicate, another rival and a doubt are questions of their own."""
    approved = (*ASKED, (30, decided("h", "approve", BEN)))
    other_arguments = dataclasses.replace(CALL, args_digest="e" * 64)
    first, second = EffectClaim(call_id="1" * 64, fence=4), EffectClaim(call_id="2" * 64, fence=9)
    fold = folded(
        *approved,
        (40, held("args", other_arguments)),
        (41, held("dup", reason=HoldReason.NEAR_DUPLICATE, supersedes=(first,))),
        (42, held("dup2", reason=HoldReason.NEAR_DUPLICATE, supersedes=(second,))),
        (43, held("dup3", reason=HoldReason.NEAR_DUPLICATE, supersedes=(second,))),
        (44, held("doubt", reason=HoldReason.IN_DOUBT, claim_id="x", attempts=1)),
        (45, held("doubt2", reason=HoldReason.IN_DOUBT, claim_id="x", attempts=2)),
        (46, held("policy", reason=HoldReason.POLICY)),
    )
    joined = {hold.hold_id: hold.joined_to for hold in fold}
    assert joined == {"h": "", "args": "", "dup": "", "dup2": "", "dup3": "dup2", "doubt": "", "doubt2": "", "policy": "h"}


def test_doubt_never_expires_and_not_applied_waits_for_the_settle_time() -> None:
    """E6"""
    doubt = held("h", reason=HoldReason.IN_DOUBT, claim_id="x", attempts=1, expires_ms=5, not_before_ms=500)
    asked = ((10, doubt), (20, requested("h")))
    assert state("h", *asked, (10**12, expired("h"))).status is HoldStatus.REQUESTED
    assert state("h", *asked, (499, decided("h", "not_applied", BEN))).status is HoldStatus.REQUESTED
    assert state("h", *asked, (30, decided("h", "deny", BEN))).status is HoldStatus.REQUESTED
    resolved = state("h", *asked, (500, decided("h", "not_applied", BEN)))
    assert (resolved.status, resolved.verdict, resolved.ended_by) == (HoldStatus.RESOLVED, "not_applied", "ben")
    assert state("h", *asked, (30, decided("h", "committed", BEN))).verdict == "committed"


def test_held_that_no_gate_sealed_opens_nothing() -> None:
    """P6"""
    fold = ApprovalFold(lambda envelope: False)
    change = fold.apply(log_of([(10, held("h"))])[0])
    assert (change.after, fold.hold("h")) == (None, None)


def test_entry_that_names_a_hold_of_another_call_is_void() -> None:
    """P6: it may lie on another partition, where no order binds it."""
    assert state("h", *ASKED, (30, decided("h", "approve", BEN, call_id="f" * 64))).status is HoldStatus.REQUESTED


# Generated logs against a reference of a few lines -------------------------------------------------------------------------

HOLDS = ("a", "b", "c")
PEOPLE = {"ben": BEN, "cleo": CLEO, "asker": person(PRINCIPAL.person), "stranger": person("eve", groups=())}
TERMINAL = ("approved", "denied", "expired", "withdrawn", "resolved", "joined")
Word = tuple[Any, ...]

words = st.one_of(
    st.tuples(st.just("H"), st.sampled_from(HOLDS), st.booleans()),
    st.tuples(st.just("Q"), st.sampled_from(HOLDS), st.sampled_from("pq")),
    st.tuples(
        st.just("D"), st.sampled_from(HOLDS), st.sampled_from("pq"), st.sampled_from(sorted(PEOPLE)),
        st.sampled_from(("approve", "deny", "committed", "not_applied", "yes")),
    ),
    st.tuples(st.just("E"), st.sampled_from(HOLDS)),
    st.tuples(st.just("W"), st.sampled_from(HOLDS)),
)  # fmt: skip
logs = st.lists(st.tuples(st.integers(0, 40), words), max_size=14).map(lambda log: sorted(log, key=lambda step: step[0]))


def digest_of(letter: str) -> str:
    return letter * 64


def entry_of(word: Word, quorum: int) -> ApprovalEvent:
    match word:
        case ("H", h, doubt):
            reason = HoldReason.IN_DOUBT if doubt else HoldReason.RISK
            return held(h, reason=reason, quorum=quorum, expires_ms=None if doubt else 20, not_before_ms=10 if doubt else 0)
        case ("Q", h, shown):
            return requested(h, shown_digest=digest_of(shown))
        case ("D", h, shown, who, verdict):
            return decided(h, verdict, PEOPLE[who], shown_digest=digest_of(shown))
        case ("E", h):
            return expired(h)
    return withdrawn(word[1])


def reference(log: Sequence[tuple[int, Word]], quorum: int) -> dict[str, str]:
    """The rules once more, by looking back over the whole log for each entry."""
    status: dict[str, str] = {}
    doubt: dict[str, bool] = {}
    shown: dict[str, str] = {}
    yes: dict[str, set[str]] = {}
    for t, (kind, h, *x) in log:
        if kind == "H" and h not in status:
            standing = any(doubt[o] == x[0] and status[o] in ("held", "requested", "approved") for o in status)
            status[h], doubt[h], yes[h] = "joined" if standing else "held", x[0], set()
        elif h not in status or status[h] in TERMINAL:
            continue
        elif kind == "Q" and status[h] == "held":
            status[h], shown[h] = "requested", x[0]
        elif kind == "D" and status[h] == "requested" and shown[h] == x[0] and x[1] in ("ben", "cleo") and (doubt[h] or t < 20):
            if doubt[h] and (x[2] == "committed" or (x[2] == "not_applied" and t >= 10)):
                status[h] = "resolved"
            elif not doubt[h] and x[2] == "deny":
                status[h] = "denied"
            elif not doubt[h] and x[2] == "approve":
                yes[h].add(x[1])
                status[h] = "approved" if len(yes[h]) >= quorum else "requested"
        elif (kind == "E" and not doubt[h] and t >= 20) or kind == "W":
            status[h] = "expired" if kind == "E" else "withdrawn"
    return status


def outcome(fold: ApprovalFold) -> dict[str, HoldState]:
    return {hold.hold_id: hold for hold in fold}


@given(logs, st.integers(1, 2))
@settings(max_examples=400, deadline=None)
def test_fold_agrees_with_the_reference(log: list[tuple[int, Word]], quorum: int) -> None:
    """A6"""
    fold = folded(*((t, entry_of(word, quorum)) for t, word in log))
    assert {h: hold.status.value for h, hold in outcome(fold).items()} == reference(log, quorum)
    assert {hold.hold_id for hold in fold.open_holds()} == {hold.hold_id for hold in fold if hold.open}


@given(logs, st.integers(1, 2), st.data())
@settings(max_examples=150, deadline=None)
def test_repeats_and_replays_from_any_offset_change_nothing(
    log: list[tuple[int, Word]], quorum: int, data: st.DataObject
) -> None:
    """A6: a reader that is sent back, or fed the same records again at any moment, ends with the same holds."""
    envelopes = log_of((t, entry_of(word, quorum)) for t, word in log)
    once, again = ApprovalFold(lambda e: True), ApprovalFold(lambda e: True)
    for n, envelope in enumerate(envelopes):
        once.apply(envelope)
        again.apply(envelope)
        for old in envelopes[data.draw(st.integers(0, n)) : n + 1]:
            assert not again.apply(old).counted
    assert outcome(again) == outcome(once)


@given(logs, logs, st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_interleaving_of_partitions_changes_nothing(left: Any, right: Any, random: Any) -> None:
    """A6: calls on different partitions are read in any order."""

    def moved(log: Any) -> list[Envelope]:
        def other(entry: ApprovalEvent) -> ApprovalEvent:
            name = {"hold_id": entry.hold_id + "'", "call_id": "f" * 64, "event_id": entry.event_id + "'"}
            inner = entry.held and dataclasses.replace(entry.held, call=dataclasses.replace(entry.held.call, call_id="f" * 64))
            return dataclasses.replace(entry, **name, held=inner)  # type: ignore[arg-type]  # plain text fields

        envelopes = log_of((t, other(entry_of(word, 1))) for t, word in log)
        return [dataclasses.replace(e, position=Position(APPROVALS, 1, e.position.offset)) for e in envelopes]

    one, two = log_of((t, entry_of(word, 1)) for t, word in left), moved(right)
    straight, mixed = ApprovalFold(lambda e: True), ApprovalFold(lambda e: True)
    for envelope in (*one, *two):
        straight.apply(envelope)
    while one or two:
        mixed.apply((one if one and (not two or random.random() < 0.5) else two).pop(0))
    assert outcome(mixed) == outcome(straight)


@given(logs, st.integers(1, 2))
@settings(max_examples=200, deadline=None)
def test_ended_hold_never_changes(log: list[tuple[int, Word]], quorum: int) -> None:
    """A6"""
    fold = ApprovalFold(lambda envelope: True)
    ended: dict[str, HoldState] = {}
    for envelope in log_of((t, entry_of(word, quorum)) for t, word in log):
        change = fold.apply(envelope)
        for hold_id, hold in ended.items():
            assert fold.hold(hold_id) == hold
        if change.after is not None and not change.after.open:
            ended[change.hold_id] = change.after
        assert change.ended == (change.counted and envelope.record.kind is not ApprovalKind.HELD and change.hold_id in ended)


def test_digest_of_what_is_shown_is_part_of_every_decision() -> None:
    """A3"""
    assert state("h", *ASKED).shown_digest == SHOWN
