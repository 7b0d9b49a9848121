"""Consumes calls.ledger (and calls.completed whole, for the answers that were given).

Produces calls.completed, controls (the stop of a run).
Never passes on a raw result, changes an answer that was given.
"""

from .build import build
from .settings import SanitizerSettings

__all__ = ["SanitizerSettings", "build"]
