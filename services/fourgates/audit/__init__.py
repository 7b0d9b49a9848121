"""Consumes every topic but its watermarks.

Produces audit.watermarks, ClickHouse.
Never loses a record, counts one twice.
"""

from .build import build_query_door, build_sink, open_store

__all__ = ["build_query_door", "build_sink", "open_store"]
