"""Consumes approvals (and the ledger's same partitions).

Produces approvals, calls.cleared, calls.ledger (Refused, Pending, Replayed).
Never runs a tool, decides for a person.
"""

from .build import build
from .settings import WaiterSettings
from .stage import WaiterStage

__all__ = ["WaiterSettings", "WaiterStage", "build"]
