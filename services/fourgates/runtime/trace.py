"""W3C trace context: what a record's headers said travels on with everything that it causes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar

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
