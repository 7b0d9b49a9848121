"""The fold of approvals as a machine: whoever reads the log, from wherever and however often, comes to the same outcome.

One log grows by the words of people, clocks and waiters, in any order. Readers of several kinds fold it at their own pace: one
that keeps up, one that is killed and begins anew, one that is sent back to earlier offsets, one that hears everything twice. At
every moment each of them knows exactly what ten lines say about as much of the log as it has read.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fourgates.contract.events import ApprovalEvent, HoldReason
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import ApprovalFold
from support.approvals import decided, expired, held, person, requested, withdrawn
from support.samples import PRINCIPAL

PEOPLE = {
    "ben": person("ben"), "ben's second account": person("ben-admin", person="ben"), "cleo": person("cleo"),
    "the asker": person(PRINCIPAL.person), "a stranger": person("eve", groups=("kitchen",)),
    "an agent with ben's token": person("ben", agent="helper"), "a service": person("ben", service=True),
    "somebody of another tenant": person("ben", tenant="other"),
}  # fmt: skip
MAY = {"ben": "ben", "ben's second account": "ben", "cleo": "cleo"}
EXPIRES, SETTLED = 30, 15
HOLDS = ("one", "two", "doubt")
Word = tuple[Any, ...]


def reference(log: list[tuple[int, Word]], quorum: int) -> dict[str, str]:
    """The whole of it once more."""
    state: dict[str, str] = {}
    shown: dict[str, str] = {}
    yes: dict[str, set[str]] = {}
    for at, (kind, h, *what) in log:
        doubt, now = h == "doubt", state.get(h)
        if kind == "held" and now is None:
            rival = next((o for o in state if (o == "doubt") == doubt and state[o] in ("held", "requested", "approved")), None)
            state[h], yes[h] = "joined" if rival else "held", set()
        elif now == "held" and kind == "requested":
            state[h], shown[h] = "requested", what[0]
        elif now == "requested" and kind == "decided" and what[1] in MAY and what[2] == shown[h] and (doubt or at < EXPIRES):
            if what[0] == "approve" and not doubt:
                yes[h].add(MAY[what[1]])
            full, settled = len(yes[h]) >= quorum, at >= SETTLED
            over = {"deny": not doubt, "approve": full, "committed": doubt, "not_applied": doubt and settled}
            end = "resolved" if doubt else "denied" if what[0] == "deny" else "approved"
            state[h] = end if over.get(what[0]) else now
        elif now in ("held", "requested") and (kind == "withdrawn" or (kind == "expired" and not doubt and at >= EXPIRES)):
            state[h] = kind
    return state


class Reader:
    """Somebody who folds the log."""

    def __init__(self) -> None:
        self.fold, self.read = ApprovalFold(lambda envelope: True), 0

    def take(self, log: list[Envelope], upto: int) -> None:
        for envelope in log[self.read : upto]:
            self.fold.apply(envelope)
        self.read = max(self.read, min(upto, len(log)))

    def outcome(self) -> dict[str, str]:
        return {hold.hold_id: hold.status.value for hold in self.fold}


class Approvals(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now, self.quorum = 0, 1
        self.words: list[tuple[int, Word]] = []
        self.log: list[Envelope] = []
        self.readers = [Reader() for _ in range(3)]
        self.numbers = 0

    @initialize(quorum=st.integers(1, 2))
    def begin(self, quorum: int) -> None:
        self.quorum = quorum

    def say(self, word: Word, entry: ApprovalEvent) -> None:
        self.words.append((self.now, word))
        self.log.append(Envelope(entry, Position(APPROVALS, 0, len(self.log)), self.now, "waiter"))

    @rule(h=st.sampled_from(HOLDS))
    def hold(self, h: str) -> None:
        """Also the same Held once more: an executor that says its doubt again, a redelivered input."""
        doubt = h == "doubt"
        entry = held(
            h, reason=HoldReason.IN_DOUBT if doubt else HoldReason.RISK, quorum=self.quorum,
            expires_ms=None if doubt else EXPIRES, not_before_ms=SETTLED if doubt else 0,
        )  # fmt: skip
        self.say(("held", h), entry)

    @rule(h=st.sampled_from(HOLDS), waiter=st.sampled_from("12"))
    def ask(self, h: str, waiter: str) -> None:
        """Each of two waiters shows what its own preview said."""
        self.say(("requested", h, waiter), requested(h, shown_digest=waiter * 64))

    @rule(
        h=st.sampled_from(HOLDS), waiter=st.sampled_from("12"), who=st.sampled_from(sorted(PEOPLE)),
        verdict=st.sampled_from(["approve", "deny", "committed", "not_applied", "yes", "true"]),
    )  # fmt: skip
    def decide(self, h: str, waiter: str, who: str, verdict: str) -> None:
        self.say(("decided", h, verdict, who, waiter), decided(h, verdict, PEOPLE[who], shown_digest=waiter * 64))

    @rule(h=st.sampled_from(HOLDS))
    def expire(self, h: str) -> None:
        self.say(("expired", h), expired(h))

    @rule(h=st.sampled_from(HOLDS))
    def withdraw(self, h: str) -> None:
        self.say(("withdrawn", h), withdrawn(h))

    @rule(ms=st.integers(1, 12))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(number=st.integers(0, 2), share=st.integers(1, 10))
    def read_on(self, number: int, share: int) -> None:
        reader = self.readers[number]
        reader.take(self.log, reader.read + share)

    @rule(number=st.integers(0, 2), back=st.integers(1, 20))
    def sent_back(self, number: int, back: int) -> None:
        """A rebalance hands out again what was folded before."""
        reader = self.readers[number]
        before = reader.outcome()
        for envelope in self.log[max(0, reader.read - back) : reader.read]:
            assert not reader.fold.apply(envelope).counted
        assert reader.outcome() == before

    @rule(number=st.integers(0, 2))
    def killed(self, number: int) -> None:
        """And begins from the first offset."""
        upto, self.readers[number] = self.readers[number].read, Reader()
        self.readers[number].take(self.log, upto)

    @invariant()
    def each_knows_what_the_reference_says(self) -> None:
        for reader in self.readers:
            assert reader.outcome() == reference(self.words[: reader.read], self.quorum)
            assert {hold.hold_id for hold in reader.fold.open_holds()} == {hold.hold_id for hold in reader.fold if hold.open}

    def teardown(self) -> None:
        for reader in self.readers:
            reader.take(self.log, len(self.log))
        assert [reader.outcome() for reader in self.readers] == [reference(self.words, self.quorum)] * 3


class TestApprovals(Approvals.TestCase):  # type: ignore[misc, name-defined]  # hypothesis makes it
    """A6, A7: any interleaving, repetition, replay from any offset and two waiters at once give one outcome."""

    settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
