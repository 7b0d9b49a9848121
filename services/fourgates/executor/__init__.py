"""Consumes calls.cleared (and the ledger's same partitions, effects whole).

Produces calls.ledger, effects, approvals (Held).
Never runs without a won claim (writes), runs what the gates did not seal.
"""
