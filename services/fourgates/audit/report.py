"""Reports over the views, first part: what was asked for, what became of it, and whose doing it was where it did not succeed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fourgates.audit.store import Query
from fourgates.audit.wilson import Share


class By(StrEnum):
    """What calls are counted by."""

    TOOL = "tool"
    VERSION = "version"
    AGENT = "agent"
    TENANT = "tenant"
    DAY = "day"


_KEYS = {
    By.TOOL: "tool", By.VERSION: "concat(tool, '@', substring(tool_version, 1, 12))", By.AGENT: "agent", By.TENANT: "tenant",
}  # fmt: skip


def key_of(by: By | str, when: str = "asked_at") -> str:
    """The SQL expression that names a row's group; `when` is the column that a day is taken from."""
    return f"toString(toDate({when}))" if by == By.DAY else _KEYS[By(by)]


def since(when: str = "asked_at") -> str:
    """The SQL condition that leaves out what is older than the parameter `since` (ms of broker time)."""
    return f"{when} >= fromUnixTimestamp64Milli({{since:Int64}}, 'UTC')"


def order_of(by: By | str, most: str) -> str:
    """Days in their order, everything else by its number, the largest first."""
    return "key" if by == By.DAY else f"{most} DESC, key"


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
        return Share(self.succeeded, self.asked).value

    @property
    def of_decided(self) -> float | None:
        return Share(self.succeeded, self.decided).value

    @property
    def of_ran(self) -> float | None:
        return Share(self.succeeded, self.ran).value


COUNTS = ("asked", "allowed", "ran", "decided", "succeeded", "failed", "refused", "in_doubt", "open")
_COUNTED = """
    toInt64(count()) AS asked, toInt64(countIf(cleared)) AS allowed, toInt64(countIf(ran)) AS ran,
    toInt64(countIf(decided)) AS decided, toInt64(countIf(status = 'succeeded')) AS succeeded,
    toInt64(countIf(status = 'failed')) AS failed, toInt64(countIf(status = 'refused')) AS refused,
    toInt64(countIf(status = 'in_doubt')) AS in_doubt, toInt64(countIf(status = 'open')) AS open
"""


@dataclass(frozen=True, slots=True)
class Refusals:
    """Calls that ended without success, by code."""

    code: str
    attributed_to: str
    """model, host, rule_or_policy, approver, tool, downstream or us."""
    tool: str
    reason: str
    calls: int
    key: str = ""
    """What they are counted by; empty where that is the tool."""


def success(query: Query, by: By = By.TOOL, since_ms: int = 0) -> list[Success]:
    """Success by tool, version, agent, tenant or day, the most asked first."""
    rows = query(
        f"SELECT {key_of(by)} AS key, {_COUNTED} FROM fourgates.call_facts WHERE {since()}"  # noqa: S608 - fixed words
        f" GROUP BY key ORDER BY {order_of(by, 'asked')}",
        {"since": since_ms},
    )
    return [Success(**row) for row in rows]


def refusals(query: Query, by: By = By.TOOL, since_ms: int = 0) -> list[Refusals]:
    """What was refused or failed, the most frequent first."""
    key = "''" if by is By.TOOL else key_of(by)
    rows = query(
        f"SELECT {key} AS key, code, attributed_to, tool, reason, toInt64(count()) AS calls FROM fourgates.call_facts"  # noqa: S608
        f" WHERE status IN ('refused', 'failed') AND {since()} GROUP BY key, code, attributed_to, tool, reason"
        f" ORDER BY {'key, ' if by is By.DAY else ''}calls DESC, key, code, tool, reason",
        {"since": since_ms},
    )
    return [Refusals(**row) for row in rows]
