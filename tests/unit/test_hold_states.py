"""What a fold remembers of a hold comes back as it was, packed or not, and takes little room."""

from __future__ import annotations

import hashlib
import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.contract.events import HoldReason
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Position
from fourgates.contract.topology import APPROVALS, CALLS_LEDGER
from fourgates.gates.hold import HoldState, HoldStatus
from fourgates.gates.hold_states import HoldStates

words = st.sampled_from(["", "acme", "anna", "Jörg", "finance", "pay", "write", "a\u202eb", "x" * 300])
times = st.integers(0, 2**43)
ids = st.binary(min_size=16, max_size=16).map(bytes.hex)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


def maybe(derived: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """What we derive, nothing, or what somebody else thought up."""
    return derived | st.just("") | st.sampled_from(["h1", "A" * 32, "0x" + "1" * 30, "é" * 32, "f" * 63])


@st.composite
def states(draw: st.DrawFn) -> HoldState:
    args_digest = draw(digests | st.sampled_from(["d", "D" * 64]))
    about = CallRef(
        tenant=draw(words), run_id=draw(words), tool_call_id=draw(words), subject=draw(words), agent=draw(words),
        tool=draw(words), tool_version=draw(words), risk=draw(words), args_digest=args_digest,
    )  # fmt: skip
    partition, topic = draw(st.sampled_from([(0, APPROVALS), (11, APPROVALS), (300, APPROVALS), (1, CALLS_LEDGER)]))
    return HoldState(
        hold_id=draw(ids | st.just("h1")), call_id=draw(digests | st.just("c1")),
        position=Position(topic, partition, draw(st.integers(0, 2**50))), held_ms=draw(times),
        status=draw(st.sampled_from(HoldStatus)), reason=draw(st.sampled_from(HoldReason)),
        binding=draw(st.just(args_digest[:32]) | ids | st.just("b")), about=about, asker=draw(words), group=draw(words),
        quorum=draw(st.sampled_from([1, 2, 70_000])), expires_ms=draw(times | st.none()),
        not_before_ms=draw(st.just(0) | times), joined_to=draw(maybe(ids)), requested_ms=draw(st.just(0) | times),
        shown_digest=draw(maybe(digests)), preview_digest=draw(maybe(digests)), approvable=draw(st.booleans()),
        approvers=tuple(draw(st.lists(words, max_size=3))), verdict=draw(words), ended_by=draw(words),
        ended_ms=draw(st.just(0) | times),
    )  # fmt: skip


@given(st.lists(states(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_every_state_comes_back_as_it_was(holds: list[HoldState]) -> None:
    """A6: of the newest word on each; those of a call in the order in which they were first heard of."""
    kept, newest = HoldStates(), dict[str, HoldState]()
    for hold in holds:
        before = newest.get(hold.hold_id)
        hold = hold._replace(call_id=before.call_id) if before else hold
        if before is None or before.open:
            kept.put(hold)
            newest[hold.hold_id] = hold
    for hold in newest.values():
        assert kept.get(hold.hold_id) == hold
        assert kept.of_call(hold.call_id) == tuple(other for other in newest.values() if other.call_id == hold.call_id)
        assert kept.knows(hold.call_id)
    assert len(kept) == len(newest) and set(kept.open()) == {hold for hold in newest.values() if hold.open}
    assert kept.get("nobody's") is None and kept.of_call("nobody's") == () and not kept.knows("nobody's")


def test_a_hold_that_waits_takes_a_quarter_of_a_kilobyte() -> None:
    """A6: beside what is kept once for many, and the tables' own room."""
    kept = HoldStates()
    about = CallRef(
        tenant="acme", run_id="0190a0b0-0000-7000-8000-000000000000", tool_call_id="call_1", subject="anna", agent="bot",
        tool="pay", tool_version="1" * 64, risk="write", args_digest=hashlib.sha256(b"a").hexdigest(),
    )  # fmt: skip
    hold = HoldState(
        hold_id="0" * 32, call_id=hashlib.sha256(b"c").hexdigest(), position=Position(APPROVALS, 3, 7), held_ms=1,
        status=HoldStatus.REQUESTED, reason=HoldReason.POLICY, binding=about.args_digest[:32], about=about, asker="anna",
        group="finance", quorum=1, expires_ms=2, not_before_ms=0, requested_ms=1, shown_digest="5" * 64, preview_digest="6" * 64,
    )  # fmt: skip
    kept.put(hold)
    [packed] = kept._open.values()
    assert isinstance(packed, bytes) and sys.getsizeof(packed) <= 256 and kept.get(hold.hold_id) == hold
