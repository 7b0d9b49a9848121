"""Seals: who wrote a record, and which gates allowed a call.

A record's seal is its last field and covers every byte before the mac, so nothing in it can be altered, and no second encoding
is needed to check it. A gate's verdict is sealed once more over the call itself and the verdict before it, because verdicts
travel on in other records.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import hmac
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from .avro import AvroCodec
from .avro_schema import hints_of, unwrap
from .dead import REPLAYED
from .errors import Poison
from .events import RUN_SUBJECT, ApprovalKind, Control, ControlKind, LedgerKind, Record
from .ids import length_prefixed
from .partition import partition_of
from .parts import Call, Gate, Risk, Seal, Verdict
from .ports import Envelope, Received, Signer, UnreadAttempt, Verifier, Wanted
from .topology import (
    APPROVALS,
    AUDIT_WATERMARKS,
    BY_NAME,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    CONTROLS,
    EFFECTS,
    RECORDS_DEAD,
)

_RECORD_TAG = b"fourgates.record.v1"
_VERDICT_TAG = b"fourgates.verdict.v1"
WAIVED_BY = "waived_by"
"""In the reasons of the authorizer's verdict: the policies by which a write needs no person."""
RUN_KEY_ID = "run"
"""The key id of a host's request: the key itself is inside the request's grant."""

_HMAC_TAIL = re.compile(rb"(.)([a-z]+:[1-9][0-9]*)\x40.{32}\Z", re.DOTALL)
"""How a record ends that is sealed by HMAC: the key id after its length, the mac after its length, both as Avro writes them."""
_TAIL_BYTES, _HMAC_BYTES = 96, 32
_ENDS = 8
"""So many key ids are known by how a record ends; the others are looked for anew."""

_STAGES = frozenset({"validator", "authorizer", "waiter", "executor", "sanitizer", "audit"})
_EXECUTOR, _OPERATOR = frozenset({"executor"}), frozenset({"operator"})
_LEDGER = {
    LedgerKind.REFUSED: frozenset({"validator", "authorizer", "waiter", "executor"}),
    LedgerKind.CANCELLED: frozenset({"validator"}),
    LedgerKind.PENDING: frozenset({"waiter"}),
    LedgerKind.REPLAYED: frozenset({"waiter", "executor"}),
}
_APPROVALS = {
    ApprovalKind.HELD: frozenset({"authorizer", "executor"}),
    ApprovalKind.DECIDED: frozenset({"approver"}),
}
_TOPICS = {
    CALLS_VALIDATED: frozenset({"validator"}),
    CALLS_CLEARED: frozenset({"authorizer", "waiter"}),
    EFFECTS: _EXECUTOR,
    CALLS_COMPLETED: frozenset({"sanitizer"}),
    AUDIT_WATERMARKS: frozenset({"audit"}),
    RECORDS_DEAD: _STAGES,
}


def writers_of(topic: str, record: Any) -> frozenset[str]:
    """Who may write this record of the topic; its beginning says as much."""
    if topic == CALLS_LEDGER:
        return _LEDGER.get(record.kind, _EXECUTOR)
    if topic == APPROVALS:
        return _APPROVALS.get(record.kind, frozenset({"waiter"}))
    if topic == CONTROLS:
        return _controllers(record)
    if topic == RECORDS_DEAD and record.reason == REPLAYED:
        return _OPERATOR
    return _TOPICS[topic]


def _controllers(control: Control) -> frozenset[str]:
    """The sanitizer may stop a run and nothing else: its key must not switch a tool on."""
    stops_run = control.kind is ControlKind.STOP and control.subject.startswith(RUN_SUBJECT)
    return frozenset({"operator", "sanitizer"}) if stops_run else frozenset({"operator"})


def writer_of(key_id: str) -> str:
    """The writer that a key id names: `executor:2` is a key of the executor."""
    return key_id.partition(":")[0]


def record_bytes(topic: str, value: bytes, mac_bytes: int) -> bytes:
    """What a record's seal is made over: the domain tag, the topic and all bytes before the mac."""
    return _record_head(topic) + (len(value) - mac_bytes).to_bytes(4) + value[:-mac_bytes]


@lru_cache(maxsize=64)
def _record_head(topic: str) -> bytes:
    return length_prefixed((_RECORD_TAG, topic))


class RecordWriter:
    """Encodes and seals the records of one writer."""

    def __init__(self, codec: AvroCodec, signer: Signer) -> None:
        self._codec, self._signer = codec, signer
        self._blank = Seal(key_id=signer.key_id, mac=bytes(signer.mac_bytes))

    def encode(self, record: Record) -> tuple[str, bytes, bytes]:
        """(topic, key, value)."""
        sealed = dataclasses.replace(record, seal=self._blank)  # type: ignore[call-arg]  # every topic's record has one
        topic, value = self._codec.encode(sealed)
        size = self._signer.mac_bytes
        mac = self._signer.sign(record_bytes(topic, value, size))
        return topic, record.key().encode(), value[:-size] + mac


class RecordOpener:
    """Decides whether a received record proves itself. The only way from bytes to a record in the whole pipeline."""

    def __init__(self, codec: AvroCodec, verifier: Verifier) -> None:
        self._codec, self._verifier = codec, verifier
        self._ends: dict[bytes, str] = {}
        """How records end before the mac -> the key id that stands there."""

    def unwanted(self, received: Received, wanted: Wanted) -> bool:
        """Whether the record says of itself, unproved, what the reader leaves out."""
        glance = self._codec.glance(received.position.topic, received.value)
        return glance is not None and not wanted(*glance)

    def open(self, received: Received) -> Envelope:
        """The envelope, or Poison with the reason. A host's request is opened unproven: its key is in its grant."""
        topic = received.position.topic
        record = self._codec.decode(topic, received.value)
        value = received.value or b""
        if received.key != record.key().encode():
            raise Poison("wrong_key", "the Kafka key is not the record's own")
        expected = partition_of(received.key, BY_NAME[topic].partitions)
        if received.position.partition != expected:
            raise Poison("wrong_partition", f"its key belongs on partition {expected}")
        seal: Seal = record.seal  # type: ignore[attr-defined]  # every topic's record has one
        writer = writer_of(seal.key_id)
        if topic == CALLS_REQUESTED:
            return Envelope(record, received.position, received.time_ms, RUN_KEY_ID, raw=value)
        if writer not in writers_of(topic, record):
            raise Poison("wrong_writer", f"{writer or 'nobody'} may not write this")
        size = len(seal.mac)
        if not size or not self._verifier.verify(seal.key_id, record_bytes(topic, value, size), seal.mac, received.time_ms):
            raise Poison("bad_seal", "the seal does not fit the record")
        return Envelope(record, received.position, received.time_ms, writer, raw=value)

    def sealed_body(self, received: Received) -> tuple[str, bytes]:
        """(key id, Avro body) of a record that is written by this build's schema and sealed by HMAC, without decoding it.

        It proves that who holds that key wrote these bytes for this topic, and that the Kafka key belongs on the partition.
        Whether that writer may write it, and whether the Kafka key is its own, is for who decodes it. Empty where not proved.
        """
        where, value = received.position, received.value or b""
        topic = where.topic
        body = self._codec.body_of(topic, value)
        key_id = self._sealed_by(value) if body else ""
        if not key_id or where.partition != partition_of(received.key, BY_NAME[topic].partitions):
            return "", b""
        covered, mac = record_bytes(topic, value, _HMAC_BYTES), value[-_HMAC_BYTES:]
        return (key_id, body) if self._verifier.verify(key_id, covered, mac, received.time_ms) else ("", b"")

    def _sealed_by(self, value: bytes) -> str:
        """The key id that a value says it is sealed with by HMAC; empty where it says nothing of the kind. Few are in use."""
        for end, key_id in self._ends.items():
            if value.endswith(end, 0, -_HMAC_BYTES):
                return key_id
        found = _HMAC_TAIL.search(value[-_TAIL_BYTES:])
        if found is None or found[1][0] != 2 * len(found[2]):
            return ""
        key_id = found[2].decode()
        if len(self._ends) < _ENDS:
            self._ends[found[0][:-_HMAC_BYTES]] = key_id
        return key_id

    def open_briefly(self, received: Received) -> Envelope:
        """As much of a record as a fold looks at, proved as `open` proves it. Raises Poison as that does."""
        key_id, body = self.sealed_body(received)
        topic, writer = received.position.topic, writer_of(key_id)
        beginning = self._codec.beginning(topic, body) if body else None
        if beginning is None or received.key != beginning.key().encode() or writer not in writers_of(topic, beginning):
            return self.open(received)  # by another schema, or something is wrong: that says what
        return Envelope(beginning, received.position, received.time_ms, writer)

    def open_if_needed(self, received: Received) -> Envelope:
        """The same, but an Attempted is left unread, and so unproved, for the fold to read where it has to."""
        topic = received.position.topic
        if self._codec.says_attempted(topic, received.value):
            with contextlib.suppress(UnicodeDecodeError):
                unread = UnreadAttempt(received.key.decode(), received, self.open_briefly)
                return Envelope(unread, received.position, received.time_ms, "")
        return self.open_briefly(received)

    def rewritten(self, received: Received) -> bytes:
        """The Avro body of a record that proves nothing by itself, encoded anew; empty where it is none or lies elsewhere."""
        where = received.position
        if where.partition != partition_of(received.key, BY_NAME[where.topic].partitions):
            return b""
        return self._codec.rewritten(where.topic, received.value)


class HmacSigner:
    """Seals with a shared secret (HMAC-SHA256)."""

    mac_bytes = _HMAC_BYTES

    def __init__(self, key_id: str, secret: bytes) -> None:
        self.key_id, self._secret = key_id, secret

    def sign(self, data: bytes) -> bytes:
        return _mac(self._secret, data)


def hmac_fits(secret: bytes, data: bytes, mac: bytes) -> bool:
    """Constant-time check of an HMAC-SHA256."""
    return hmac.compare_digest(_mac(secret, data), mac)


@lru_cache(maxsize=8_192)
def _keyed(secret: bytes) -> tuple[Any, Any]:
    """HMAC's inner and outer hash (RFC 2104) after the key: setting one up costs as much as using it, and few are in use.

    Two hashes copied cost half of what a copied `hmac.HMAC`, an object of Python, does.
    """
    padded = (secret if len(secret) <= 64 else hashlib.sha256(secret).digest()).ljust(64, b"\0")
    return hashlib.sha256(padded.translate(_INNER)), hashlib.sha256(padded.translate(_OUTER))


_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def _mac(secret: bytes, data: bytes) -> bytes:
    inner, outer = _keyed(secret)
    within, mac = inner.copy(), outer.copy()
    within.update(data)
    mac.update(within.digest())
    return bytes(mac.digest())


def _values_of(cls: Any) -> Callable[[Any], list[Any]]:
    """The function that turns a record into the list of its fields' values, in the order of their declaration."""
    names = [field.name for field in dataclasses.fields(cls)]
    take = attrgetter(*names)
    nested = [(at, inner) for at, name in enumerate(names) if (inner := _inner_values(hints_of(cls)[name])) is not None]

    def values(record: Any) -> list[Any]:
        out = list(take(record))
        for at, inner in nested:
            out[at] = inner(out[at])
        return out

    return values


def _inner_values(hint: Any) -> Callable[[Any], list[Any]] | None:
    hint, _ = unwrap(hint)
    if typing.get_origin(hint) is tuple:
        one = _inner_values(typing.get_args(hint)[0])
        return None if one is None else lambda several: [one(each) for each in several]
    return _values_of(hint) if dataclasses.is_dataclass(hint) else None


_call_values = _values_of(Call)
_write = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_last_digest: tuple[Call, bytes] | None = None


def call_digest(call: Call) -> bytes:
    """sha256 over all fields of a call, as JSON. A stage checks a call's seals and adds its own, with one digest."""
    global _last_digest
    if (last := _last_digest) is not None and last[0] is call:  # the very object, and it is frozen
        return last[1]
    digest = hashlib.sha256(_write(_call_values(call)).encode()).digest()
    _last_digest = call, digest
    return digest


@lru_cache(maxsize=64)
def _verdict_head(gate: Gate, key_id: str) -> bytes:
    return length_prefixed((_VERDICT_TAG, gate, key_id))


def _verdict_bytes(digest: bytes, verdict: Verdict, key_id: str, before: bytes) -> bytes:
    """Unambiguous: the lengths of the texts come first, the digest has one length."""
    reasons, preview = verdict.reasons, verdict.preview_digest
    obligations = _write(verdict.obligations) if verdict.obligations else "[]"
    lengths = f"{verdict.at_ms} {len(reasons)} {len(obligations)} {len(preview)} "
    return _verdict_head(verdict.gate, key_id) + f"{lengths}{reasons}{obligations}{preview}".encode() + digest + before


def seal_verdict(signer: Signer, call: Call, verdict: Verdict, before: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts before and this one, sealed with the gate's key over the call and the verdict before it."""
    previous = before[-1].mac if before else b""
    mac = signer.sign(_verdict_bytes(call_digest(call), verdict, signer.key_id, previous))
    sealed = Verdict(
        gate=verdict.gate, key_id=signer.key_id, at_ms=verdict.at_ms, reasons=verdict.reasons,
        obligations=verdict.obligations, preview_digest=verdict.preview_digest, mac=mac,
    )  # fmt: skip
    return (*before, sealed)


_UNASKED = (Gate.VALIDATOR, Gate.AUTHORIZER)
GATES_OF_RISK: Mapping[Risk, tuple[Gate, ...]] = {
    Risk.READ: _UNASKED,
    Risk.WRITE: (*_UNASKED, Gate.WAITER),
    Risk.DESTRUCTIVE: (*_UNASKED, Gate.WAITER),
}
"""Whose seals a call needs by its tool's risk. The waiter's is left out only where the authorizer seals that a policy waives."""


def gates_needed(held: bool) -> tuple[Gate, ...]:
    """The gates of a call that people decided on, or of one that nobody had to be asked about."""
    return (*_UNASKED, Gate.WAITER) if held else _UNASKED


def must_be_held(risk: Risk, verdicts: Sequence[Verdict]) -> bool:
    """Whether a call needs a person's yes: by its risk, unless a policy waived it, or because a policy asks for one.

    Both stand in the authorizer's verdict, which its seal covers: silence about a write is no waiver.
    """
    said = next((verdict for verdict in verdicts if verdict.gate is Gate.AUTHORIZER), None)
    if said is None or said.obligations:
        return True
    return Gate.WAITER in GATES_OF_RISK[risk] and not _waived(said)


def _waived(said: Verdict) -> bool:
    try:
        reasons = json.loads(said.reasons)
    except (ValueError, RecursionError):
        return False
    return isinstance(reasons, dict) and bool(reasons.get(WAIVED_BY))


def verdicts_fit(
    verifier: Verifier, call: Call, verdicts: Sequence[Verdict], needed: Sequence[Gate], at_ms: int | None = None
) -> bool:
    """True where exactly the needed gates sealed this very call, each over the verdict before, in order.

    `at_ms`: when the last gate's own record was appended; its key must not have been retired by then. The verdicts before were
    judged by the gate that sealed the next one over them. None: the last one is passed on by somebody who judged it.
    """
    if tuple(v.gate for v in verdicts) != tuple(needed):
        return False
    digest, before = call_digest(call), b""
    for place, verdict in enumerate(verdicts, 1):
        if writer_of(verdict.key_id) != verdict.gate.value:
            return False
        given_ms = at_ms if place == len(verdicts) else None
        if not verifier.verify(verdict.key_id, _verdict_bytes(digest, verdict, verdict.key_id, before), verdict.mac, given_ms):
            return False
        before = verdict.mac
    return True
