"""Reports over the views: success with named denominators, refusals, in-doubt calls."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fourgates.audit.store import Query


class By(StrEnum):
    """What success is counted by."""

    TOOL = "tool"
    VERSION = "version"
    AGENT = "agent"
    TENANT = "tenant"
    DAY = "day"


_KEYS = {
    By.TOOL: "tool", By.VERSION: "concat(tool, '@', substring(tool_version, 1, 12))", By.AGENT: "agent", By.TENANT: "tenant",
    By.DAY: "toString(day)",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Success:
    """Counts of calls. Each rate names what it is a share of; None where there is nothing to share."""

    key: str
    asked: int
    """Calls that a gate has vouched for."""
    allowed: int
    """Cleared by the gates, and by people where they had to."""
    ran: int
    """The tool was sent for."""
    decided: int
    """With a last word."""
    succeeded: int
    failed: int
    refused: int
    in_doubt: int
    open: int

    @property
    def of_asked(self) -> float | None:
        return self.succeeded / self.asked if self.asked else None

    @property
    def of_decided(self) -> float | None:
        return self.succeeded / self.decided if self.decided else None

    @property
    def of_ran(self) -> float | None:
        return self.succeeded / self.ran if self.ran else None


@dataclass(frozen=True, slots=True)
class Refusals:
    """Calls that ended without success, by code."""

    code: str
    attributed_to: str
    """model, host, rule_or_policy, approver, tool, downstream or us."""
    tool: str
    reason: str
    calls: int


def success(query: Query, by: By = By.TOOL) -> list[Success]:
    """Success by tool, version, agent, tenant or day, the most asked first."""
    counts = ("asked", "allowed", "ran", "decided", "succeeded", "failed", "refused", "in_doubt", "open")
    sums = ", ".join(f"toInt64(sum(s.{name})) AS {name}" for name in counts)
    rows = query(f"SELECT {_KEYS[by]} AS key, {sums} FROM fourgates.success AS s GROUP BY key ORDER BY asked DESC, key")  # noqa: S608 - fixed words
    return [Success(**row) for row in rows]


def refusals(query: Query) -> list[Refusals]:
    """What was refused or failed, the most frequent first."""
    rows = query(
        "SELECT code, attributed_to, tool, reason, toInt64(calls) AS calls FROM fourgates.refusals_by_code"
        " ORDER BY calls DESC, code, tool, reason"
    )
    return [Refusals(**row) for row in rows]
