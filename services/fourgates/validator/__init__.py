"""Consumes calls.requested.

Produces calls.validated, calls.ledger (Refused, Cancelled).
Never runs a tool, writes to the store of a tool, remembers a call.
"""
