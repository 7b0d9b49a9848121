"""What the waiter can be told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class WaiterSettings(BaseModel):
    """Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preview_timeout_s: float = Field(default=5.0, gt=0)
    """How long a tool's preview may take."""
    repeat_s: float = Field(default=3.0, gt=0)
    """How often an Expired or Withdrawn is said again until the log shows that it counted."""
    approver_groups: frozenset[str] | None = None
    """Groups that somebody can decide for; set once for all stages (StageSettings)."""
    waiting_per_agent: int = Field(default=100, ge=1)
    """How many calls of one agent (of one account, where it has none) may wait for people at once; a further one is refused
    (`quota_exceeded`). Each waiter process counts those of its own partitions."""
    shown_bytes: int = Field(default=600_000, ge=10_000, le=800_000)
    """The most that people can be shown of a call. What does not fit is left out whole and said to be, never cut."""
