"""Consumes calls.cleared (and the ledger's same partitions, effects and controls whole).

Produces calls.ledger, effects, approvals (Held).
Never runs without a won claim (writes), runs what the gates did not seal.
"""

from .build import ExecutorPorts, build
from .settings import ExecutorSettings

__all__ = ["ExecutorPorts", "ExecutorSettings", "build"]
