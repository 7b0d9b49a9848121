"""A record counts only as its writer sealed it, and a verdict only for the call it was given on."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.contract.avro_beginning import LedgerBeginning
from fourgates.contract.avro_schema import hints_of
from fourgates.contract.errors import Poison
from fourgates.contract.events import LedgerEntry, LedgerKind, Record
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import Call, Gate, Principal, Risk, Verdict
from fourgates.contract.ports import Position, Received
from fourgates.contract.seals import (
    GATES_OF_RISK,
    RUN_KEY_ID,
    HmacSigner,
    RecordOpener,
    RecordWriter,
    gates_needed,
    hmac_fits,
    must_be_held,
    seal_verdict,
    verdicts_fit,
)
from fourgates.contract.topology import BY_NAME, BY_RECORD, TOPOLOGY
from support.records import altered, codec, wire_value
from support.samples import CALL, REQUESTED, SEALED

WRITERS = ("validator", "authorizer", "waiter", "approver", "executor", "sanitizer", "operator", "audit")
SECRETS = {f"{writer}:1": writer.encode().ljust(32, b".") for writer in WRITERS}


class Secrets:
    """A verifier that knows one secret a writer."""

    def verify(self, key_id: str, data: bytes, mac: bytes, at_ms: int | None = None) -> bool:
        secret = SECRETS.get(key_id)
        return secret is not None and hmac_fits(secret, data, mac)


def signer(writer: str) -> HmacSigner:
    return HmacSigner(f"{writer}:1", SECRETS[f"{writer}:1"])


def sealed(writer: str, record: Record) -> Received:
    """The record as the broker would give it: on its own topic and partition, under its own key."""
    topic, key, value = RecordWriter(codec(), signer(writer)).encode(record)
    return Received(Position(topic, partition_of(key, BY_NAME[topic].partitions), 0), 1, key, value)


@given(st.binary(min_size=1, max_size=200), st.binary(max_size=400))
def test_a_seal_is_an_hmac_by_the_book(secret: bytes, data: bytes) -> None:
    """P6: with keys shorter than, as long as and longer than a block, as the standard library has it."""
    mac = hmac.digest(secret, data, hashlib.sha256)
    assert HmacSigner("validator:1", secret).sign(data) == mac
    assert hmac_fits(secret, data, mac)
    assert not hmac_fits(secret, data + b".", mac)


OPENER = RecordOpener(codec(), Secrets())
every_record = pytest.mark.parametrize(("writer", "record"), SEALED, ids=[type(record).__name__ for _, record in SEALED])


@every_record
def test_sealed_record_opens_as_it_was(writer: str, record: Record) -> None:
    envelope = OPENER.open(sealed(writer, record))
    assert envelope.writer == writer
    assert dataclasses.replace(envelope.record, seal=record.seal) == record  # type: ignore[call-arg, attr-defined]


@every_record
def test_record_with_any_byte_altered_is_poison(writer: str, record: Record) -> None:
    """P6"""
    received = sealed(writer, record)
    assert received.value is not None
    for place in range(len(received.value)):
        for flip in (0x01, 0x80, 0xFF):
            value = bytearray(received.value)
            value[place] ^= flip
            with pytest.raises(Poison):
                OPENER.open(dataclasses.replace(received, value=bytes(value)))


@every_record
@pytest.mark.parametrize("cut", [1, 8, 31, 32, 33])
def test_record_cut_short_or_lengthened_is_poison(writer: str, record: Record, cut: int) -> None:
    """P6"""
    received = sealed(writer, record)
    assert received.value is not None
    for value in (received.value[:-cut], received.value + bytes(cut)):
        with pytest.raises(Poison):
            OPENER.open(dataclasses.replace(received, value=value))


@every_record
def test_record_moved_to_another_topic_is_poison(writer: str, record: Record) -> None:
    """P6"""
    received = sealed(writer, record)
    for topic in TOPOLOGY:
        if topic.name != received.position.topic:
            moved = Position(topic.name, received.position.partition % topic.partitions, 0)
            with pytest.raises(Poison):
                OPENER.open(dataclasses.replace(received, position=moved))


@every_record
def test_record_moved_to_another_partition_is_poison(writer: str, record: Record) -> None:
    """P6"""
    received = sealed(writer, record)
    home = received.position.partition
    for other in range(13):
        if other != home:
            with pytest.raises(Poison, match="wrong_partition"):
                OPENER.open(dataclasses.replace(received, position=dataclasses.replace(received.position, partition=other)))


@every_record
def test_record_under_another_key_is_poison(writer: str, record: Record) -> None:
    """P6"""
    received = sealed(writer, record)
    with pytest.raises(Poison, match="wrong_key"):
        OPENER.open(dataclasses.replace(received, key=received.key + b"x"))


@every_record
def test_record_of_one_who_may_not_write_it_is_poison(writer: str, record: Record) -> None:
    """P6"""
    topic = BY_RECORD[type(record).__name__]
    strangers = {"approver", "operator", "sanitizer", "audit", "validator"} - set(topic.written_by) - {writer}
    if topic.name == "records.dead":
        strangers = {"operator", "approver"}
    for stranger in strangers:
        with pytest.raises(Poison, match="wrong_writer"):
            OPENER.open(sealed(stranger, record))


@every_record
def test_record_without_a_seal_is_poison(writer: str, record: Record) -> None:
    """P6"""
    received = dataclasses.replace(sealed(writer, record), value=wire_value(record))
    with pytest.raises(Poison):
        OPENER.open(received)


def test_record_sealed_with_an_unknown_key_of_the_right_writer_is_poison() -> None:
    """P6"""
    writer, record = SEALED[0]
    topic, key, value = RecordWriter(codec(), HmacSigner(f"{writer}:2", b"?" * 32)).encode(record)
    with pytest.raises(Poison, match="bad_seal"):
        OPENER.open(Received(Position(topic, partition_of(key, 12), 0), 1, key, value))


class RetiredAt(Secrets):
    """Knows that one key has ended."""

    def __init__(self, key_id: str, ended_ms: int) -> None:
        self._key_id, self._ended_ms = key_id, ended_ms

    def verify(self, key_id: str, data: bytes, mac: bytes, at_ms: int | None = None) -> bool:
        ended = key_id == self._key_id and at_ms is not None and at_ms >= self._ended_ms
        return not ended and super().verify(key_id, data, mac)


@every_record
def test_a_record_counts_by_the_keys_of_its_own_append_time(writer: str, record: Record) -> None:
    """P6: sealed while the key served, it counts for ever; appended after the key's end, never, whatever the record says."""
    opener = RecordOpener(codec(), RetiredAt(f"{writer}:1", 1_000))
    received = sealed(writer, record)
    assert opener.open(dataclasses.replace(received, time_ms=999)).writer == writer
    with pytest.raises(Poison, match="bad_seal"):
        opener.open(dataclasses.replace(received, time_ms=1_000))


def test_hosts_request_is_opened_unproven_for_the_validator_to_prove() -> None:
    topic, key, value = RecordWriter(codec(), HmacSigner(RUN_KEY_ID, b"r" * 32)).encode(REQUESTED)
    envelope = OPENER.open(Received(Position(topic, partition_of(key, 12), 0), 1, key, value))
    assert (envelope.writer, envelope.raw) == (RUN_KEY_ID, value)


@pytest.mark.parametrize(
    ("kind", "only"),
    [(LedgerKind.CANCELLED, {"validator"}), (LedgerKind.PENDING, {"waiter"}), (LedgerKind.CLAIMED, {"executor"}),
     (LedgerKind.FINISHED, {"executor"}), (LedgerKind.RESOLVED, {"executor"}), (LedgerKind.REPLAYED, {"waiter", "executor"}),
     (LedgerKind.REFUSED, {"validator", "authorizer", "waiter", "executor"})],
)  # fmt: skip
def test_each_ledger_entry_is_written_by_its_own_stages_only(kind: LedgerKind, only: set[str]) -> None:
    """P6"""
    entry = LedgerEntry(event_id="e", producer="p", kind=kind, call_id=CALL.call_id)
    for writer in WRITERS:
        if writer in only:
            assert OPENER.open(sealed(writer, entry)).writer == writer
        else:
            with pytest.raises(Poison, match="wrong_writer"):
                OPENER.open(sealed(writer, entry))


def verdict(gate: Gate, reasons: str = "{}") -> Verdict:
    return Verdict(gate=gate, key_id="", at_ms=5, reasons=reasons, obligations=("approval:refunds:1",), preview_digest="p")


def chain(call: Call = CALL, gates: tuple[Gate, ...] = gates_needed(True)) -> tuple[Verdict, ...]:
    verdicts: tuple[Verdict, ...] = ()
    for gate in gates:
        verdicts = seal_verdict(signer(gate.value), call, verdict(gate), verdicts)
    return verdicts


def test_needed_verdicts_on_this_call_fit() -> None:
    assert verdicts_fit(Secrets(), CALL, chain(), gates_needed(True))
    assert verdicts_fit(Secrets(), CALL, chain(gates=gates_needed(False)), gates_needed(False))


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Call)])
def test_verdicts_do_not_fit_a_call_with_any_field_altered(name: str) -> None:
    """P6"""
    other = dataclasses.replace(CALL, **{name: altered(getattr(CALL, name))})
    assert other != CALL
    assert not verdicts_fit(Secrets(), other, chain(), gates_needed(True))


@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Principal)])
def test_verdicts_do_not_fit_a_call_of_anybody_else(name: str) -> None:
    """P6"""
    other = dataclasses.replace(CALL.principal, **{name: altered(getattr(CALL.principal, name))})
    assert not verdicts_fit(Secrets(), dataclasses.replace(CALL, principal=other), chain(), gates_needed(True))


def test_a_chain_is_judged_by_the_append_time_of_its_last_gates_record() -> None:
    """P6: the verdicts before it were judged by the gate that sealed over them, long before people said yes."""
    whole = chain()
    for gate, counts in ((Gate.VALIDATOR, True), (Gate.AUTHORIZER, True), (Gate.WAITER, False)):
        verifier = RetiredAt(f"{gate.value}:1", 1_000)
        assert verdicts_fit(verifier, CALL, whole, gates_needed(True), 999)
        assert verdicts_fit(verifier, CALL, whole, gates_needed(True), 1_000) is counts
        assert verdicts_fit(verifier, CALL, whole, gates_needed(True))


def authorized(obligations: tuple[str, ...] = (), reasons: str = "{}") -> tuple[Verdict, ...]:
    return (verdict(Gate.VALIDATOR), dataclasses.replace(verdict(Gate.AUTHORIZER, reasons), obligations=obligations))


@pytest.mark.parametrize(
    ("risk", "obligations", "reasons", "held"),
    [
        (Risk.READ, (), "{}", False),
        (Risk.READ, ("approval:privacy:1",), "{}", True),
        (Risk.WRITE, (), "{}", True),
        (Risk.WRITE, (), '{"waived_by":[]}', True),
        (Risk.WRITE, (), '{"waived_by":["small"]}', False),
        (Risk.WRITE, ("approval:finance:2",), '{"waived_by":["small"]}', True),
        (Risk.WRITE, (), "[]", True),
        (Risk.WRITE, (), "no json", True),
        (Risk.DESTRUCTIVE, (), "{}", True),
        (Risk.DESTRUCTIVE, (), '{"waived_by":["cleaning"]}', False),
    ],
)
def test_the_risk_says_whose_seals_a_call_needs(risk: Risk, obligations: tuple[str, ...], reasons: str, held: bool) -> None:
    """P6, A1: silence about a write is no waiver."""
    assert must_be_held(risk, authorized(obligations, reasons)) is held
    assert must_be_held(risk, (verdict(Gate.VALIDATOR),)), "without the authorizer's verdict nothing is waived"


def test_every_risk_has_its_row() -> None:
    """P6: the waiter's seal may be waived for a write, the others' never."""
    assert set(GATES_OF_RISK) == set(Risk)
    for risk, gates in GATES_OF_RISK.items():
        assert gates == gates_needed(held=risk is not Risk.READ)


def test_undeclared_actions_differ_from_none_declared() -> None:
    """P6"""
    none_allowed = dataclasses.replace(CALL, allowed_actions=())
    undeclared = dataclasses.replace(CALL, allowed_actions=None)
    assert not verdicts_fit(Secrets(), undeclared, chain(none_allowed), gates_needed(True))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("name", [f.name for f in dataclasses.fields(Verdict)])
def test_verdict_with_any_field_altered_does_not_fit(place: int, name: str) -> None:
    """P6"""
    verdicts = list(chain())
    verdicts[place] = dataclasses.replace(verdicts[place], **{name: altered(getattr(verdicts[place], name))})
    assert not verdicts_fit(Secrets(), CALL, verdicts, gates_needed(True))


def test_verdicts_left_out_doubled_or_in_another_order_do_not_fit() -> None:
    """P6"""
    first, second, third = chain()
    for verdicts in ((), (first,), (second,), (first, second), (second, first, third), (first, first, second), (first, third)):
        assert not verdicts_fit(Secrets(), CALL, verdicts, gates_needed(True))
    assert not verdicts_fit(Secrets(), CALL, (first, second, third), gates_needed(False))


def test_verdict_over_another_verdict_before_does_not_fit() -> None:
    """P6"""
    first, _ = chain(gates=gates_needed(False))
    changed = seal_verdict(signer("validator"), CALL, verdict(Gate.VALIDATOR, '{"rules":[]}'), ())
    second = seal_verdict(signer("authorizer"), CALL, verdict(Gate.AUTHORIZER), (first,))[1]
    assert not verdicts_fit(Secrets(), CALL, (*changed, second), gates_needed(False))


def test_one_gate_cannot_seal_for_another() -> None:
    """P6"""
    first = seal_verdict(signer("validator"), CALL, verdict(Gate.VALIDATOR), ())
    both = seal_verdict(signer("validator"), CALL, verdict(Gate.AUTHORIZER), first)
    assert not verdicts_fit(Secrets(), CALL, both, gates_needed(False))


def test_every_field_of_the_sample_call_is_of_its_declared_type() -> None:
    """The alterations above mean something only where no field of the sample is empty."""
    assert set(hints_of(Call)) == {f.name for f in dataclasses.fields(Call) if getattr(CALL, f.name) not in ("", (), None)}


def test_a_seal_is_found_without_decoding_what_it_covers() -> None:
    """P6, L2: the same yes as by decoding, and no yes at all where anything is out of place."""
    opener = RecordOpener(codec(), Secrets())
    for writer, record in SEALED:
        received = sealed(writer, record)
        key_id, body = opener.sealed_body(received)
        assert key_id == f"{writer}:1"
        assert received.value is not None and body == received.value[5:]
        elsewhere = Position(received.position.topic, received.position.partition + 1, 0)
        for wrong in (
            dataclasses.replace(received, position=elsewhere),
            dataclasses.replace(received, value=None),
            dataclasses.replace(received, value=b"\0garbage"),
            dataclasses.replace(received, value=received.value[:-1] + bytes([received.value[-1] ^ 1])),
            dataclasses.replace(received, value=received.value[:9] + b"\1" + received.value[10:]),
            dataclasses.replace(received, value=wire_value(record)),
        ):
            assert opener.sealed_body(wrong) == ("", b"")


def test_who_reads_briefly_is_told_of_what_is_wrong_as_by_the_whole() -> None:
    """P6: the same envelope's writer and place, and the same Poison for what is moved, altered or written by another."""
    opener = RecordOpener(codec(), Secrets())
    entry = next(record for _, record in SEALED if isinstance(record, LedgerEntry))
    good = sealed("executor", entry)
    brief = opener.open_briefly(good)
    assert isinstance(brief.record, LedgerBeginning)
    assert (brief.writer, brief.position, brief.record.call_id) == ("executor", good.position, entry.call_id)
    assert good.value is not None
    for wrong, reason in (
        (dataclasses.replace(good, key=b"other"), "wrong_key"),
        (dataclasses.replace(good, value=good.value[:-1] + bytes([good.value[-1] ^ 1])), "bad_seal"),
        (dataclasses.replace(good, value=wire_value(entry)), "wrong_writer"),
        (dataclasses.replace(good, position=Position("calls.ledger", good.position.partition + 1, 0)), "wrong_partition"),
        (sealed("sanitizer", entry), "wrong_writer"),
        (dataclasses.replace(good, value=b"\0"), "malformed_avro"),
    ):
        with pytest.raises(Poison) as fault:
            opener.open_briefly(wrong)
        assert fault.value.reason == reason
    for writer, record in SEALED:
        received = sealed(writer, record)
        if not isinstance(record, LedgerEntry):
            assert opener.open_briefly(received) == opener.open(received)
