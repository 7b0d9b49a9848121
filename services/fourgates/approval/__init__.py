"""Consumes approvals (and the ledger's same partitions).

Produces approvals, calls.cleared, calls.ledger (Refused, Pending).
Never runs a tool, decides for a person.
"""
