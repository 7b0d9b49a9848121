"""How a worker runs its stage."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator


class WorkerSettings(BaseModel):
    """Defaults fit one stage a process. Times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: str = ""
    """The consumer group; empty: the stage's name."""
    at_once: int = Field(default=512, ge=1)
    """Records under way at the same time; at this number the partitions are held back."""
    span: int = Field(default=5_000, ge=1)
    """Records between the lowest unfinished one of a partition and its newest: what a crash may deliver again."""
    commit: float = Field(default=0.5, gt=0)
    tick: float = Field(default=0.5, gt=0)
    drain: float = Field(default=20.0, ge=0)
    """How long work under way may go on when the partitions are taken away, or the process is told to end."""
    session: float = Field(default=30.0, ge=6)
    """After so long without a heartbeat (kill -9) the group gives the partitions to others."""
    rebalance: float = Field(default=60.0, gt=0)
    """After so long the group goes on without a member that still drains."""
    stall: float = Field(default=300.0, gt=0)
    """So long without any progress, although records wait, and the process ends; more than the slowest tool may take."""
    health_host: str = "127.0.0.1"
    health_port: int = Field(default=0, ge=0, le=65_535)
    """0: any free one."""

    @model_validator(mode="after")
    def _drained_in_time(self) -> WorkerSettings:
        if self.drain + 10 > self.rebalance:
            raise ValueError("drain must be at least 10 seconds shorter than rebalance, or others run what still runs here")
        return self
