"""What is taken of a followed log, a fetch at a time."""

from __future__ import annotations

import pytest

from fourgates.contract.errors import Poison, Transient
from fourgates.contract.ports import Envelope, Position, Received, Taking
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.taking import Opening


class Opener:
    """Opens everything, except what is poison and, while it is away, what needs the registry."""

    def __init__(self) -> None:
        self.away = True

    def open(self, received: Received) -> Envelope:
        if received.value == b"poison":
            raise Poison("bad_seal", "")
        if received.value == b"registry" and self.away:
            raise Transient("the registry is away")
        return Envelope(received.value, received.position, 0, "executor")

    open_if_needed = open


def fetched(*values: bytes) -> list[Received]:
    return [Received(Position(CALLS_LEDGER, 0, offset), 0, b"k", value) for offset, value in enumerate(values)]


def test_what_cannot_be_opened_now_is_taken_later_and_nothing_twice_or_out_of_order() -> None:
    """E1: a fold that missed an entry, or saw a later one first, would decide wrongly."""
    opener, metrics, seen = Opener(), Metrics(), list[bytes]()
    take = Opening(opener, metrics).into(lambda envelope: seen.append(envelope.record), Taking())  # type: ignore[arg-type]
    records = fetched(b"a", b"poison", b"b", b"registry", b"c")
    assert take(records) == 3
    with pytest.raises(Transient):
        take(records[3:])
    assert seen == [b"a", b"b"]
    opener.away = False
    assert take(records[3:]) == 2
    assert seen == [b"a", b"b", b"registry", b"c"]
    assert metrics.skipped.labels(CALLS_LEDGER, "bad_seal")._value.get() == 1
    assert take([]) == 0
