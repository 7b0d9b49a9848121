"""Records survive the wire, and a second Avro implementation reads the same values from the same bytes."""

from __future__ import annotations

import dataclasses
import io
import struct
from functools import cache
from typing import Any

import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import Schema, parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.contract.avro import HEADER_BYTES, MAX_RECORD_BYTES, fingerprint_id
from fourgates.contract.avro_beginning import LedgerBeginning, RequestedBeginning
from fourgates.contract.avro_schema import schema_of, text_of
from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import (
    RECORDS,
    ApprovalEvent,
    ApprovalKind,
    Control,
    EffectEntry,
    LedgerEntry,
    LedgerKind,
    Record,
    Requested,
)
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import APPROVALS, BY_RECORD, CALLS_LEDGER, CONTROLS, EFFECTS
from fourgates.gates.approval import ApprovalFold, fold_hold
from fourgates.gates.ledger import OPEN, fold_entry
from support.approvals import held
from support.records import codec, instances_of, plain_of, wire_value
from support.samples import CALL, REQUESTED, SEALED

by_class = pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
some = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@cache
def oracle(cls: type[Record]) -> Schema:
    return parse(text_of(cls))


@by_class
@given(data=st.data())
@some
def test_record_comes_back_as_it_was(cls: type[Record], data: st.DataObject) -> None:
    record = data.draw(instances_of(cls))
    topic, value = codec().encode(record)
    assert topic == BY_RECORD[cls.__name__].name
    assert codec().decode(topic, value) == record


@by_class
@given(data=st.data())
@some
def test_independent_decoder_reads_the_same_record(cls: type[Record], data: st.DataObject) -> None:
    record = data.draw(instances_of(cls))
    body = io.BytesIO(wire_value(record)[HEADER_BYTES:])
    read: Any = DatumReader(oracle(cls), oracle(cls)).read(BinaryDecoder(body))
    assert read == plain_of(record)
    assert body.read() == b""


@by_class
def test_wire_format_is_confluents(cls: type[Record]) -> None:
    record = next(r for r in (REQUESTED, *(r for _, r in SEALED)) if isinstance(r, cls))
    magic, schema_id = struct.unpack_from(">bI", wire_value(record))
    assert (magic, schema_id) == (0, fingerprint_id(schema_of(cls)))


def test_schema_ids_differ_between_topics() -> None:
    assert len({fingerprint_id(schema_of(cls)) for cls in RECORDS}) == len(RECORDS)


@pytest.mark.parametrize("cut", ["magic", "schema", "body", "tail", "null", "empty", "word", "large"])
def test_malformed_value_is_poison(cut: str) -> None:
    ledger = next(r for _, r in SEALED if BY_RECORD[type(r).__name__].name == CALLS_LEDGER)
    good = wire_value(ledger)
    bad, reason = {
        "magic": (b"\x01" + good[1:], "malformed_avro"),
        "schema": (good[:1] + b"\x00\x00\x00\x07" + good[5:], "unknown_schema"),
        "body": (good[:40], "malformed_avro"),
        "tail": (good + b"\x00", "malformed_avro"),
        "null": (None, "null_value"),
        "empty": (b"", "malformed_avro"),
        "word": (good.replace(b"\x0eClaimed", b"\x0eClaimet"), "malformed_avro"),
        "large": (good + bytes(MAX_RECORD_BYTES), "too_large"),
    }[cut]
    with pytest.raises(Poison) as caught:
        codec().decode(CALLS_LEDGER, bad)
    assert caught.value.reason == reason


def test_record_of_another_topic_is_poison() -> None:
    ledger = next(r for _, r in SEALED if BY_RECORD[type(r).__name__].name == CALLS_LEDGER)
    with pytest.raises(Poison, match="unknown_schema"):
        codec().decode(EFFECTS, wire_value(ledger))


@given(st.binary(max_size=200))
@some
def test_any_bytes_decode_to_a_record_or_are_poison(noise: bytes) -> None:
    header = wire_value(REQUESTED)[:HEADER_BYTES]
    try:
        record = codec().decode("calls.requested", header + noise)
    except Poison:
        return
    assert codec().decode("calls.requested", wire_value(record)) == record


@given(data=st.data())
@some
def test_glance_sees_kind_and_call_of_what_begins_with_them_and_nothing_of_the_rest(data: st.DataObject) -> None:
    record: Any = data.draw(st.one_of(instances_of(LedgerEntry), instances_of(ApprovalEvent)))
    topic, value = codec().encode(record)
    assert codec().glance(topic, value) == (record.kind.value, record.call_id)
    assert codec().glance(topic, value[: data.draw(st.integers(0, HEADER_BYTES))]) is None
    topic, value = codec().encode(REQUESTED)
    assert codec().glance(topic, value) == (REQUESTED.kind.value, REQUESTED.call_id)


@given(record=instances_of(LedgerEntry))
@some
def test_a_beginning_has_everything_that_the_fold_looks_at(record: LedgerEntry) -> None:
    """E1: the fold makes the same of a beginning as of the whole, whatever state it finds."""
    topic, value = codec().encode(record)
    short = codec().beginning(topic, codec().body_of(topic, value))
    assert isinstance(short, LedgerBeginning)
    claimed = LedgerEntry(event_id="e", producer="p", kind=LedgerKind.CLAIMED, call_id=record.call_id, claim_id=record.claim_id)
    if record.kind is LedgerKind.REFUSED and record.code not in set(Code):
        return  # no writer of ours says that
    for before in (OPEN, fold_entry(OPEN, claimed, 1, 1)):
        assert fold_entry(before, short, 7, 9) == fold_entry(before, record, 7, 9)
    cause = record.cause and (record.cause.event_id, record.cause.offset)
    assert (short.kind, short.call_id, short.cause) == (record.kind, record.call_id, cause)
    assert codec().beginning(CONTROLS, b"anything") is None


@given(record=instances_of(EffectEntry))
@some
def test_an_effects_beginning_is_all_that_its_folds_look_at(record: EffectEntry) -> None:
    """E4: one that sets aside others' claims is read whole."""
    topic, value = codec().encode(record)
    short = codec().beginning(topic, codec().body_of(topic, value))
    assert (short is None) == bool(record.supersedes)
    if short is not None:
        assert short._asdict() == {name: getattr(record, name) for name in short._fields}


@given(record=instances_of(ApprovalEvent), asked=instances_of(Requested))
@some
def test_a_questions_beginning_is_all_that_its_fold_looks_at(record: ApprovalEvent, asked: Requested) -> None:
    """A6: every other approval event is read whole."""
    topic, value = codec().encode(record)
    plain = record.kind is ApprovalKind.REQUESTED and record.held is None and record.requested is not None
    assert (codec().beginning(topic, codec().body_of(topic, value)) is not None) == plain
    question = dataclasses.replace(record, kind=ApprovalKind.REQUESTED, held=None, requested=asked)
    topic, value = codec().encode(question)
    body = codec().body_of(topic, value)
    short = codec().beginning(topic, body)
    assert isinstance(short, RequestedBeginning) and short.key() == question.key()
    assert short.hold_id == question.hold_id
    hold = (
        ApprovalFold(lambda envelope: True)
        .apply(
            Envelope(
                held(question.hold_id, dataclasses.replace(CALL, call_id=question.call_id)),
                Position(APPROVALS, 0, 0),
                1,
                "authorizer",
            )
        )
        .after
    )
    assert hold is not None
    after = fold_hold(hold, short, 7)
    assert after == fold_hold(hold, question, 7) and after.shown_digest == asked.shown_digest
    end = body.index(asked.shown_digest.encode()) if asked.shown_digest else 0
    assert codec().beginning(topic, body[:end]) is None


@given(record=instances_of(LedgerEntry), data=st.data())
@some
def test_a_beginning_that_is_cut_short_or_altered_is_no_other_entry(record: LedgerEntry, data: st.DataObject) -> None:
    """E1: bytes that do not decode as a whole are no beginning either, unless what is wrong with them comes later."""
    topic, value = codec().encode(record)
    body = codec().body_of(topic, value)
    whole = codec().beginning(topic, body)
    at = data.draw(st.integers(0, len(body) - 1))
    for wrong in (body[:at], body[:at] + data.draw(st.binary(min_size=1, max_size=3)) + body[at + 1 :]):
        short, says = codec().beginning(topic, wrong), codec().says_attempted(topic, value[:HEADER_BYTES] + wrong)
        try:
            decoded: Any = codec().decode(topic, value[:HEADER_BYTES] + wrong)
        except Poison:
            continue
        assert isinstance(short, LedgerBeginning)
        assert says == (decoded.kind is LedgerKind.ATTEMPTED)
        assert (short.kind, short.call_id, short.claim_id) == (decoded.kind, decoded.call_id, decoded.claim_id)
        assert (short.attempt, short.by, short.vouches) == (decoded.attempt, decoded.by, decoded.vouches)
        assert (short.outcome, short.code) == (decoded.outcome, decoded.code)
        assert short.about == (decoded.about and (decoded.about.tool, decoded.about.args_digest))
    assert whole == codec().beginning(topic, body + b"more, which only who decodes the whole sees")


@pytest.mark.parametrize("value", [None, b"", b"\x01" + bytes(9), bytes(9), b"\x00\x00\x00\x00\x07" + bytes(40)])
def test_glance_at_what_is_no_record_sees_nothing(value: bytes | None) -> None:
    assert codec().glance(CALLS_LEDGER, value) is None


def test_glance_at_a_record_without_a_call_sees_nothing() -> None:
    control = next(r for _, r in SEALED if isinstance(r, Control))
    assert codec().glance(CONTROLS, wire_value(control)) is None
