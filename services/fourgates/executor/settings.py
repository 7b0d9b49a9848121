"""What an operator may set for the executor. Times in seconds."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Quota, QuotaOf


class QuotaSetting(BaseModel):
    """A quota that the operator sets beside those of the contracts. `tool` is a write tool's name, or `*` for all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str = "*"
    whose: QuotaOf
    per: timedelta = timedelta(0)
    calls: int = 0
    amount: int = 0
    of: str = ""
    unit: int = 1

    @property
    def quota(self) -> Quota:
        return Quota(self.whose, self.per, self.calls, self.amount, self.of, self.unit)


class ExecutorSettings(BaseModel):
    """Defaults fit one machine; every value is checked when it is read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    drain: float = Field(5.0, gt=0)
    """Beside the tool's own times, how long a claim may stay open before it is in doubt."""
    audit_wait: float = Field(5.0, ge=0)
    """How long a destructive call waits until its own claim is in the audit store."""
    audit_lag: float = Field(10.0, gt=0)
    """How old the audit store's last word on a partition may be for a write."""
    max_attempts: int = Field(4, ge=1)
    """Attempts of one claim, the first included."""
    retry_base: float = Field(0.2, gt=0)
    retry_cap: float = Field(5.0, gt=0)
    probe_every: float = Field(1.0, gt=0)
    """Between two probes of a call in doubt, until the tool's settle time has passed."""
    hold_wait: float = Field(3600.0, gt=0)
    """How long a near duplicate waits for a person."""
    hold_group: str = "approvers"
    """Who decides about near duplicates and doubts where the policy named nobody."""
    per_tool: int = Field(512, ge=1)
    """How many calls of one tool this process takes in, running or waiting for a place; later ones are `rate_limited`."""
    room_wait: float = Field(10.0, gt=0)
    """How long a call waits for a place of its tool, within its budget."""
    quotas: tuple[QuotaSetting, ...] = ()
    """Beside those of the contracts; of two that count the same the smaller one holds."""
    inline_result: int = Field(262_144, gt=0)
    """Bytes of an encrypted result that still travel in the record; a larger one goes by reference."""
