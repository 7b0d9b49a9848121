"""What an operator may set for the validator."""

from __future__ import annotations

from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from fourgates.contract.topology import HORIZON
from fourgates.gates.format import Limits


class ValidatorSettings(BaseModel):
    """Defaults fit every machine; the horizon must be the one that retention was set for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    horizon: timedelta = Field(default=HORIZON, gt=timedelta(0))
    """How long a key is remembered; a call of an older run is refused."""
    clock_skew: timedelta = Field(default=timedelta(minutes=5), ge=timedelta(0))
    """How far a host's clock may be ahead. A run id of the future would outlive the memory of its own calls."""
    argument_bytes: int = Field(default=Limits().bytes, gt=0)
    argument_depth: int = Field(default=Limits().depth, gt=0, le=64)

    @property
    def limits(self) -> Limits:
        return Limits(bytes=self.argument_bytes, depth=self.argument_depth)
