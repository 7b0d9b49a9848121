"""A received record as a row: every record of every topic becomes one, also what does not decode or bears a bad seal.

Pure: no clock, no store. Texts are redacted, digests keyed, so that nothing in the store is worth more than the store.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass

from fourgates.audit.columns import EMPTY, Row
from fourgates.audit.fields import fields_of
from fourgates.audit.redactions import Clean, Redactions, compact, encodable
from fourgates.contract.errors import Poison
from fourgates.contract.ports import Envelope, Received
from fourgates.contract.seals import RecordOpener

_TEXTS = ("intent", "reason", "field", "sentence", "arguments", "state_change")
_LISTS = ("groups", "rules", "policies", "obligations", "approvers")
_DIGEST_BYTES = 16
OWN_ID = "(this call)"
"""Stands for the call's own id while an observation is redacted."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a batch of records became, ready to be put into the store."""

    rows: Sequence[Row]
    native: Sequence[bytes] = ()
    """Further rows, as blocks of ClickHouse's Native format."""
    invalid: Sequence[tuple[Received, Row]] = ()
    """Those that did not decode or prove themselves; their rows are among `rows`."""


class RowMaker:
    """Opens records and makes their rows. `key` keys the digests; another key gives other digests.

    `made_by` names the build: two makers of one name make the same row of the same record, byte for byte.
    """

    def __init__(self, opener: RecordOpener, redactions: Redactions, key: bytes, made_by: str = "") -> None:
        self._opener, self.redactions, self.key, self.made_by = opener, redactions, key, made_by

    def prepare(self, received: Sequence[Received]) -> Prepared:
        """The rows of a batch, each made by itself."""
        rows = [self.row(one) for one in received]
        invalid = [(one, row) for one, row in zip(received, rows, strict=True) if row["kind"] == "invalid"]
        return Prepared(rows, invalid=invalid)

    def row(self, received: Received) -> Row:
        """The record's row. Nothing that a record holds makes this raise."""
        row = self._row(received)
        row["made_by"] = self.made_by
        return row

    def _row(self, received: Received) -> Row:
        try:
            envelope = self._opener.open(received)
        except Poison as poison:
            return self._invalid(received, poison.reason, poison.detail)
        except Exception as fault:  # whoever's fault it is, the offset must not be missing
            return self._invalid(received, "unreadable", type(fault).__name__)
        try:
            return self._valid(received, envelope)
        except Exception as fault:
            return self._invalid(received, "unforeseen", type(fault).__name__)

    def digest(self, text: str) -> str:
        """32 hex digits that are equal for equal texts and tell nothing to who lacks the key."""
        data = text.encode("utf-8", "surrogatepass")
        return hmac.digest(self.key, data, "sha256")[:_DIGEST_BYTES].hex()

    def _valid(self, received: Received, envelope: Envelope) -> Row:
        record = envelope.record
        values = fields_of(record, self.digest)
        clean = self.redactions.of(values.get("tool", ""), values.get("call_id", ""))
        for name in _TEXTS:
            if said := values.get(name):
                values[name] = clean.text(said)
        if said := values.get("observation"):
            values["observation"] = shown_to_model(clean, said, record.call_id)
        for name in _LISTS:
            if said := values.get(name):
                values[name] = [encodable(one) for one in said]
        body = values.get("body", {})
        if foreign := values.pop("foreign", None):
            body = body | clean.value(foreign)
        values["body"] = compact(body)
        cause = record.cause
        return _placed(received) | values | {
            "record": type(record).__name__, "event_id": record.event_id, "producer": record.producer[:256],
            "writer": envelope.writer,
            **({} if cause is None else {
                "cause_event_id": cause.event_id, "cause_topic": cause.topic, "cause_partition": cause.partition,
                "cause_offset": cause.offset,
            }),
        }  # fmt: skip

    def _invalid(self, received: Received, reason: str, detail: str) -> Row:
        return _placed(received) | {"kind": "invalid", "reason": reason, "sentence": detail, "body": "{}"}


def shown_to_model(clean: Clean, observation: str, call_id: str) -> str:
    """The observation, redacted. The call's own id looks like much that has to go, and is nobody's secret."""
    own, stand_in = f'"{call_id}"', f'"{OWN_ID}"'
    if stand_in in observation:
        return clean.text(observation)
    return clean.text(observation.replace(own, stand_in)).replace(stand_in, own)


def _placed(received: Received) -> Row:
    where, value = received.position, received.value or b""
    return EMPTY | {
        "topic": where.topic, "partition": where.partition, "offset": where.offset, "at": received.time_ms,
        "trace_id": trace_id_of(received.headers), "value_digest": hashlib.sha256(value).hexdigest(), "value_bytes": len(value),
    }  # fmt: skip


def trace_id_of(headers: tuple[tuple[str, bytes], ...]) -> str:
    """The trace id of a W3C traceparent; empty where there is none in its form."""
    for name, value in headers:
        if name == "traceparent" and value and len(parts := value.split(b"-")) == 4 and len(parts[1]) == 32:
            text = parts[1].decode("ascii", "replace")
            return text if text.isalnum() and text.isascii() else ""
    return ""
