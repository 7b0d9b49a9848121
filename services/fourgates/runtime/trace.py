"""A record's headers: its code, and the W3C trace context, which travels on with everything that a record causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar

from fourgates.contract.events import Record

Headers = tuple[tuple[str, bytes], ...]

TRACE: ContextVar[Headers] = ContextVar("fourgates_trace", default=())
"""`traceparent` and, where there is one, `tracestate` of the work under way."""

_PARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_STATE_BYTES = 512


def trace_of(headers: Iterable[tuple[str, bytes]]) -> Headers:
    """The trace context among a record's headers; empty where it is missing or not in its form. Proves nothing."""
    found = dict(headers)
    parent, state = found.get("traceparent"), found.get("tracestate")
    if not isinstance(parent, bytes) or not _PARENT.fullmatch(parent):
        return ()
    if not isinstance(state, bytes) or not state or len(state) > _STATE_BYTES:
        return (("traceparent", parent),)
    return (("traceparent", parent), ("tracestate", state))


def headers_of(record: Record) -> Headers:
    """The headers to publish a record with: the trace under way, and its code for who reads no Avro. They prove nothing."""
    code = getattr(record, "code", "")
    return (*TRACE.get(), ("code", str(code).encode())) if code else TRACE.get()
