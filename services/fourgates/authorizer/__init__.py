"""Consumes calls.validated.

Produces calls.cleared, approvals (Held), calls.ledger (Refused).
Never runs a tool, waives a person without a policy that says so.
"""

from .build import build
from .settings import AuthorizerSettings
from .stage import AuthorizerStage

__all__ = ["AuthorizerSettings", "AuthorizerStage", "build"]
