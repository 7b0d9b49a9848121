"""Consumes calls.ledger.

Produces calls.completed, controls (stop).
Never passes on a raw result, changes an answer that was given.
"""
