"""How much of a tool there may be: at once, in a time, and for whom in a period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Any

from fourgates.contract.canonical import digest
from fourgates.contract.ids import effect_key
from fourgates.contract.parts import Principal

_WHOLE_RUN = timedelta(0)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many calls in such a time, for each tenant: a bucket that holds `calls` and fills up evenly in `per`."""

    calls: int
    per: timedelta = timedelta(seconds=1)


class QuotaOf(StrEnum):
    """Whose calls count together; always within one tenant."""

    AGENT = "agent"
    USER = "user"
    """The person, whichever of their accounts asks."""
    RUN = "run"
    TOOL = "tool"
    """Everybody of the tenant."""


@dataclass(frozen=True, slots=True)
class Quota:
    """How many writes there may be in a period, or what one of their arguments may sum up to.

    Periods are those of the clock: a quota per day begins anew at midnight UTC. A quota of a run has none.
    """

    whose: QuotaOf
    per: timedelta = _WHOLE_RUN
    calls: int = 0
    """So many calls; or `amount`."""
    amount: int = 0
    """So much in sum of the argument `of`, in its smallest unit."""
    of: str = ""
    unit: int = 1
    """How many smallest units one of the argument has: 100 where it is euros and the amount is cents. Rounded up."""

    @property
    def limit(self) -> int:
        return self.amount if self.of else self.calls

    @property
    def words(self) -> str:
        """For the audit and for operators, such as `agent: 100 calls per 1 day, 0:00:00`."""
        what = f"{self.amount} of {self.of}" if self.of else f"{self.calls} calls"
        return f"{self.whose.value}: {what}" + (f" per {self.per}" if self.per else "")

    def takes(self, arguments: Mapping[str, Any]) -> int:
        """How much a call with these arguments takes. Raises ArithmeticError or KeyError where the argument is no number."""
        if not self.of:
            return 1
        return int((Decimal(str(arguments[self.of])) * self.unit).to_integral_value(ROUND_CEILING))

    def key(self, tool: str, who: Principal, run_id: str, at_ms: int) -> str:
        """Under which key calls count together: tenant, whose, tool, what is counted, and the period of that time."""
        owner = {
            QuotaOf.AGENT: who.agent, QuotaOf.USER: who.person or f"{who.issuer} {who.subject}", QuotaOf.RUN: run_id,
            QuotaOf.TOOL: "",
        }[self.whose]  # fmt: skip
        counted = [self.of, self.unit, self._per_ms]  # not the limit: one that is changed must not begin anew
        period = str(at_ms // self._per_ms) if self._per_ms else ""
        return effect_key(who.tenant, f"quota:{self.whose.value}:{tool}", owner, digest(counted), period)

    def ends_in_ms(self, at_ms: int) -> int:
        """How long the period of that time still lasts; 0 for a run's."""
        return self._per_ms - at_ms % self._per_ms if self._per_ms else 0

    @property
    def _per_ms(self) -> int:
        return self.per // timedelta(milliseconds=1)
