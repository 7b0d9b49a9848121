"""Consumes calls.requested (and controls whole).

Produces calls.validated, calls.ledger (Refused, Cancelled).
Never runs a tool, writes to the store of a tool, remembers a call.
"""

from .build import build
from .settings import ValidatorSettings
from .stage import ValidatorStage

__all__ = ["ValidatorSettings", "ValidatorStage", "build"]
