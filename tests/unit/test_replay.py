"""Which dead letters may be appended once more."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fourgates.contract.canonical import digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.dead import REPLAYED
from fourgates.contract.errors import Poison
from fourgates.contract.events import DeadRecord, LedgerEntry, LedgerKind
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.topology import BY_NAME, TOPOLOGY
from fourgates.gates.ledger import LedgerFold
from fourgates.gates.replay import REPLAYABLE, not_now, not_replayable, whole
from support.samples import CALL, SEALED
from support.sealing import opener, writer

VALIDATED = next(record for _, record in SEALED if type(record).__name__ == "CallValidated")
BEFORE_ITS_DEADLINE = CALL.deadline_ms - 1


def letter(**fields: Any) -> DeadRecord:
    value = fields.pop("value", b"abc")
    made = DeadRecord(
        event_id="e" * 32, producer="p", worker="authorizer", topic="calls.validated", partition=3, offset=7, at_ms=1,
        reason="unforeseen", detail="", digest=digest_bytes(value), size=len(value), record_key=b"k", payload=value,
    )  # fmt: skip
    return dataclasses.replace(made, **fields)


@pytest.mark.parametrize("topic", [topic.name for topic in TOPOLOGY])
def test_only_what_a_stage_reads_as_its_input_is_replayed(topic: str) -> None:
    """S3: a record of a log that is folded would count later than it was said."""
    why = not_replayable(letter(topic=topic))
    assert (why == "") == (topic in REPLAYABLE)
    assert not why or topic in why
    assert {BY_NAME[name].record for name in REPLAYABLE} == {"CallRequested", "CallValidated", "CallCleared"}


def test_operators_own_note_is_not_replayed() -> None:
    """S3."""
    assert not_replayable(letter(reason=REPLAYED))


def test_bytes_that_are_not_the_buried_ones_are_not_whole() -> None:
    """S3: what was cut at 64 KiB, or lies there now."""
    assert whole(letter(), b"abc")
    assert not whole(letter(), b"abd")
    assert not whole(letter(size=70_000), b"abc")


@pytest.mark.parametrize(
    ("kinds", "now_ms", "words"),
    [
        ((), BEFORE_ITS_DEADLINE, ""),
        ((), CALL.deadline_ms, "its host has to ask again"),
        ((LedgerKind.REFUSED,), BEFORE_ITS_DEADLINE, "has ended"),
        ((LedgerKind.CLAIMED,), BEFORE_ITS_DEADLINE, "claimed or in doubt"),
        ((LedgerKind.CLAIMED, LedgerKind.IN_DOUBT), BEFORE_ITS_DEADLINE, "claimed or in doubt"),
    ],
)
def test_only_an_open_call_in_its_time_is_replayed(kinds: tuple[LedgerKind, ...], now_ms: int, words: str) -> None:
    """S3, E1: the first last word stands."""
    fold, place = LedgerFold(), Position("calls.ledger", 0, 0)
    for number, kind in enumerate(kinds):
        claim = "" if kind is LedgerKind.REFUSED else "c" * 32
        entry = LedgerEntry(event_id=str(number), producer="p", kind=kind, call_id=CALL.call_id, claim_id=claim,
                            code=Code.RULE_VIOLATED.value)  # fmt: skip
        fold.apply(Envelope(entry, dataclasses.replace(place, offset=number), 1, "executor"))
    said = not_now(Envelope(VALIDATED, place, 1, "validator"), fold.state(CALL.call_id), now_ms)
    assert (said == "") == (words == "")
    assert words in said


@pytest.mark.parametrize(
    ("who", "reason", "allowed"),
    [
        ("operator", REPLAYED, True),
        ("operator", "unforeseen", False),
        ("executor", "unforeseen", True),
        ("executor", REPLAYED, False),
    ],
)
def test_only_an_operator_says_that_a_letter_was_replayed_and_nothing_else(who: str, reason: str, allowed: bool) -> None:
    """S3, P6."""
    topic, key, value = writer(who).encode(letter(reason=reason))
    received = Received(Position(topic, partition_of(key, BY_NAME[topic].partitions), 0), 1, key, value)
    if allowed:
        assert opener().open(received).writer == who
    else:
        with pytest.raises(Poison, match="wrong_writer"):
            opener().open(received)
