"""Consumes every topic but its watermarks.

Produces audit.watermarks, ClickHouse.
Never loses a record, counts one twice.
"""
