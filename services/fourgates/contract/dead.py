"""A record that proved nothing, as it is kept for operators."""

from __future__ import annotations

from fourgates.contract import ids
from fourgates.contract.canonical import digest_bytes
from fourgates.contract.events import DeadRecord
from fourgates.contract.parts import Cause
from fourgates.contract.ports import Received

KEPT_PAYLOAD = 65_536
KEPT_KEY = 1_024
REPLAYED = "replayed"
"""The reason of an operator's own record: that letter was appended to its topic once more. No stage may say so."""


def dead_record(
    received: Received, worker: str, producer: str, reason: str, detail: str, cause: Cause | None = None
) -> DeadRecord:
    """The dead letter. Its id follows from place and worker: found dead again, it is the same one."""
    where, value = received.position, received.value or b""
    return DeadRecord(
        event_id=ids.event_id(f"{where.topic}/{where.partition}/{where.offset}", worker, "dead"), producer=producer,
        cause=cause, worker=worker, topic=where.topic, partition=where.partition, offset=where.offset,
        at_ms=received.time_ms, reason=reason, detail=detail, digest=digest_bytes(value), size=len(value),
        record_key=received.key[:KEPT_KEY], payload=value[:KEPT_PAYLOAD],
    )  # fmt: skip
