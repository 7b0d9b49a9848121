"""What the authorizer can be told."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from fourgates.contract.topology import LONGEST_WAIT


class AuthorizerSettings(BaseModel):
    """How long people have, and who they are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wait: timedelta = Field(default=timedelta(hours=1), gt=timedelta(0), le=LONGEST_WAIT)
    """How long a held call waits for people before it expires."""
    approver_groups: frozenset[str] | None = None
    """Groups that somebody can decide for; set once for all stages (StageSettings)."""
