"""Reports over the views, third part: calls that were tried more than once, and calls whose effect nobody knew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fourgates.audit.report import By, key_of, order_of, since
from fourgates.audit.store import Query

OPEN_DOUBTS = 50
"""As many as are listed one by one, the oldest first."""


@dataclass(frozen=True, slots=True)
class Retries:
    """Of calls that ran."""

    key: str
    ran: int
    retried: int
    """Sent more than once."""
    recovered: int
    """Of those, in the end with success."""
    attempts: int
    """Sends in all."""
    most_attempts: int
    """Of one call."""
    released: int
    """Claimed and given back before anything ran."""
    asked_again: int
    """Asked again by the host and answered with what was already known."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """Of writes that ran: those that were in doubt, and how each doubt ended."""

    key: str
    ran: int
    doubted: int
    open: int
    """Still in doubt."""
    found: int
    """The outcome was found without a person: a probe, a late answer."""
    committed: int
    """A person found that it had taken effect."""
    not_applied: int
    """A person found that it had not."""
    p50_open_ms: int | None
    """Median time to the end, of those that ended."""


@dataclass(frozen=True, slots=True)
class OpenDoubt:
    """One call that is in doubt now."""

    call_id: str
    tool: str
    tenant: str
    agent: str
    asked_at: str
    attempts: int


def retries(query: Query, by: By = By.TOOL, since_ms: int = 0) -> list[Retries]:
    """Retries by tool, version, agent, tenant or day, the most retried first."""
    rows = query(
        f"""
SELECT {key_of(by)} AS key, toInt64(countIf(ran)) AS ran_calls, toInt64(countIf(attempts > 1)) AS retried,
       toInt64(countIf(attempts > 1 AND status = 'succeeded')) AS recovered, toInt64(sum(attempts)) AS sends,
       toInt64(max(attempts)) AS most_attempts, toInt64(countIf(releases > 0)) AS released,
       toInt64(countIf(replays > 0)) AS asked_again
FROM fourgates.call_facts WHERE {since()} GROUP BY key ORDER BY {order_of(by, "retried")}
""",  # noqa: S608 - fixed words
        {"since": since_ms},
    )
    return [Retries(attempts=row.pop("sends"), ran=row.pop("ran_calls"), **row) for row in rows]


def in_doubt(query: Query, by: By = By.TOOL, since_ms: int = 0) -> list[Doubts]:
    """Doubts by tool, version, agent, tenant or day, the most doubted first. Reads are never in doubt and left out."""
    rows = query(
        f"""
SELECT {key_of(by)} AS key, toInt64(countIf(ran)) AS ran_calls, toInt64(countIf(doubted)) AS doubts,
       toInt64(countIf(phase = 'in_doubt')) AS open,
       toInt64(countIf(doubted AND phase != 'in_doubt' AND resolved_as = '')) AS found,
       toInt64(countIf(resolved_as = 'committed')) AS committed, toInt64(countIf(resolved_as = 'not_applied')) AS not_applied,
       if(countIf(doubted AND open_ms IS NOT NULL) = 0, NULL,
          toInt64(quantileExactIf(0.5)(ifNull(open_ms, 0), doubted AND open_ms IS NOT NULL))) AS p50_open_ms
FROM (
    SELECT c.*, c.phase = 'in_doubt' OR c.doubted_at > toDateTime64(0, 3, 'UTC') AS doubted, d.resolved_as AS resolved_as,
           if(doubted AND c.phase = 'final', dateDiff('millisecond', c.doubted_at, c.ended_at), NULL) AS open_ms
    FROM fourgates.call_facts AS c
    LEFT JOIN (
        SELECT call_id, anyIf(resolved_as, state = 'resolved') AS resolved_as
        FROM fourgates.holds WHERE hold_reason = 'in_doubt' GROUP BY call_id
    ) AS d ON d.call_id = c.call_id
    WHERE c.risk != 'read'
)
WHERE {since()} GROUP BY key ORDER BY {order_of(by, "doubts")}
""",  # noqa: S608 - fixed words
        {"since": since_ms},
    )
    return [_doubts(**row) for row in rows]


def open_doubts(query: Query, since_ms: int = 0) -> list[OpenDoubt]:
    """Calls that somebody has to find out about, the oldest first."""
    rows = query(
        "SELECT call_id, tool, tenant, agent, toString(c.asked_at) AS asked_at, toInt64(attempts) AS attempts"  # noqa: S608
        f" FROM fourgates.call_facts AS c WHERE phase = 'in_doubt' AND {since('c.asked_at')}"
        f" ORDER BY c.asked_at LIMIT {OPEN_DOUBTS}",
        {"since": since_ms},
    )
    return [OpenDoubt(**row) for row in rows]


def _doubts(ran_calls: int, doubts: int, p50_open_ms: Any, **rest: Any) -> Doubts:
    """The engine gives a 64-bit number that may be null as text or as a number."""
    return Doubts(ran=ran_calls, doubted=doubts, p50_open_ms=None if p50_open_ms is None else int(p50_open_ms), **rest)
