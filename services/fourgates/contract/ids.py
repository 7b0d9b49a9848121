"""Identifiers: the call's idempotency key, effect keys, event ids, run ids. All are derived, so a repeat repeats them."""

from __future__ import annotations

import hashlib
import secrets
import struct
import time
from collections.abc import Iterable


def length_prefixed(parts: Iterable[str | bytes]) -> bytes:
    """Unambiguous concatenation: each part is preceded by its length, so no two lists of parts give the same bytes."""
    encoded = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join([_LENGTH(len(data)) + data for data in encoded])


_LENGTH = struct.Struct(">I").pack


def _hash(*parts: str | bytes) -> str:
    return hashlib.sha256(length_prefixed(parts)).hexdigest()


def call_id(issuer: str, tenant: str, subject: str, agent: str, run_id: str, tool_call_id: str) -> str:
    """The idempotency key of a call. The host derives it, the validator derives it again; the model never sets it."""
    return _hash("fourgates.call", issuer, tenant, subject, agent, run_id, tool_call_id)


def effect_key(tenant: str, effect: str, *parts: str) -> str:
    """The key of what may happen only once; it always starts with tenant and effect name, which stay readable."""
    return f"{tenant}/{effect}/{_hash('fourgates.effect', tenant, effect, *parts)[:32]}"


def event_id(cause_event_id: str, stage: str, kind: str, *more: str) -> str:
    """The id of a record that an input caused: a redelivered input repeats it. 32 hex digits."""
    return _hash("fourgates.event", cause_event_id, stage, kind, *more)[:32]


def random_id() -> str:
    """An id of a record or a claim that has no input to derive it from. 32 hex digits."""
    return secrets.token_hex(16)


def run_key(tenant: str, run_id: str) -> str:
    """The Kafka key of a run on calls.completed."""
    return f"{tenant}/{run_id}"


def new_run_id(now_ms: int | None = None) -> str:
    """A UUIDv7 (RFC 9562): its first 48 bits are the time, by which the horizon is judged."""
    ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    value = (ms & ((1 << 48) - 1)) << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def run_started_ms(run_id: str) -> int:
    """The time inside a UUIDv7 run id, in ms since the epoch. Raises ValueError for any other text."""
    text = run_id.replace("-", "")
    if len(run_id) != 36 or len(text) != 32 or text[12] != "7" or run_id != run_id.lower():
        raise ValueError("run_id is not a UUIDv7 in its usual form")
    return int(text, 16) >> 80
