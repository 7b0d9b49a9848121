"""Consumes every topic but its watermarks.

Produces audit.watermarks, ClickHouse.
Never loses a record, counts one twice.
"""

from fourgates.audit.build import build_bulk_rows, build_query_door, build_rows, build_sink, open_store

__all__ = ["build_bulk_rows", "build_query_door", "build_rows", "build_sink", "open_store"]
