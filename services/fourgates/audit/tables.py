"""The six reports as tables: which columns each has, what a number is a share of, and the words below it.

One description serves the terminal, the page and the JSON form.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourgates.audit.durations import GROUP, LEAST_FOR_P95, LEAST_FOR_P99, Approvals, Latency, approvals, latency
from fourgates.audit.report import By, Refusals, Success, refusals, success
from fourgates.audit.store import Query
from fourgates.audit.troubles import Doubts, Retries, in_doubt, retries
from fourgates.audit.wilson import Share


@dataclass(frozen=True, slots=True)
class Duration:
    """Milliseconds, or that there are too few calls to say."""

    ms: int | None

    def text(self) -> str:
        """In the unit that a person would use."""
        if self.ms is None:
            return "-"
        if self.ms < 1_000:
            return f"{self.ms} ms"
        seconds = self.ms / 1_000
        for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
            if seconds >= size:
                return f"{seconds / size:.1f} {unit}"
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


Cell: TypeAlias = str | int | Share | Duration


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `tone` is how a number that is not nothing should strike the reader: good, bad, warn or none."""

    title: str
    value: Callable[[Any], Cell]
    tone: str = ""
    spare: bool = False
    """Left out where there is no room for all."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report: the question that it answers, and its rows."""

    name: str
    title: str
    question: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    rows: Callable[[Query, Any, int], Sequence[Any]]
    by: tuple[str, ...] = tuple(by.value for by in By)
    default_by: str = By.TOOL.value

    def ask(self, query: Query, by: str, since_ms: int) -> Sequence[Any]:
        """Its rows, counted by `by`, of what began at `since_ms` or later."""
        return self.rows(query, By(by) if by in By.__members__.values() else by, since_ms)

    def shown(self, by: str) -> tuple[Column, ...]:
        """The columns, the first with the name of what is counted by; a key column of its own only where it says something."""
        first, *rest = self.columns
        if first.title != _KEY:
            return self.columns
        return (Column(by, first.value), *rest)


_KEY = "key"
_key = Column(_KEY, lambda row: row.key)


def text_of(cell: Cell) -> str:
    """A cell as a person reads it."""
    return cell.text() if isinstance(cell, Share | Duration) else str(cell)


def is_number(cell: Cell) -> bool:
    """Whether it stands at the right of its column."""
    return not isinstance(cell, str)


def json_row(report: Report, row: Any) -> dict[str, Any]:
    """The row with its shares and their intervals, each by the name of its column."""
    said: dict[str, Any] = dataclasses.asdict(row)
    for column in report.columns:
        cell = column.value(row)
        if isinstance(cell, Share):
            name = re.sub(r"\W+", "_", column.title)
            low, high = cell.interval or (None, None)
            said |= {name: cell.value, f"{name}_low": low, f"{name}_high": high}
    return said


_INTERVAL = "In brackets: where the true share lies with 95 % confidence (Wilson); few calls say little."
_QUANTILES = f"A 95 % quantile is told from {LEAST_FOR_P95} calls on, a 99 % one from {LEAST_FOR_P99} on."


def _success_columns() -> tuple[Column, ...]:
    def share(whole: str) -> Callable[[Success], Share]:
        return lambda row: Share(row.succeeded, getattr(row, whole))

    return (
        _key,
        Column("asked", lambda r: r.asked), Column("allowed", lambda r: r.allowed, spare=True), Column("ran", lambda r: r.ran),
        Column("decided", lambda r: r.decided), Column("ok", lambda r: r.succeeded, "good"),
        Column("refused", lambda r: r.refused, "warn"), Column("failed", lambda r: r.failed, "bad"),
        Column("in doubt", lambda r: r.in_doubt, "bad"), Column("open", lambda r: r.open, spare=True),
        Column("of asked", share("asked")), Column("of decided", share("decided")), Column("of ran", share("ran")),
    )  # fmt: skip


def _of(name: str) -> Callable[[Any], Cell]:
    return lambda row: getattr(row, name)


def _ms(name: str) -> Callable[[Any], Cell]:
    return lambda row: Duration(getattr(row, name))


_REFUSALS = (
    Column(_KEY, _of("key")), Column("code", _of("code")), Column("attributed to", _of("attributed_to")),
    Column("tool", _of("tool")), Column("reason", _of("reason")), Column("calls", _of("calls"), "warn"),
)  # fmt: skip
_APPROVALS = (
    _key, Column("asked", _of("asked")), Column("approved", _of("approved"), "good"), Column("denied", _of("denied"), "warn"),
    Column("resolved", _of("resolved"), spare=True), Column("expired", _of("expired"), "bad"),
    Column("withdrawn", _of("withdrawn"), spare=True),
    Column("open", _of("open")), Column("approved of decided", lambda r: Share(r.approved, r.decided)),
    Column("expired of asked", lambda r: Share(r.expired, r.asked)),
    Column("waited p50", _ms("p50_waited_ms")), Column("p95", _ms("p95_waited_ms"), spare=True),
    Column("longest", _ms("longest_waited_ms")),
)  # fmt: skip
_LATENCY = (
    _key, Column("decided", _of("decided")), Column("p50", _ms("p50_ms")), Column("p95", _ms("p95_ms")),
    Column("p99", _ms("p99_ms")), Column("p50 less people", _ms("p50_ms_without_people")),
    Column("p95 less people", _ms("p95_ms_without_people")), Column("ran", _of("ran")),
    Column("p50 in the tool", _ms("p50_ms_in_tool")), Column("p95 in the tool", _ms("p95_ms_in_tool")),
)  # fmt: skip
_RETRIES = (
    _key, Column("ran", _of("ran")), Column("retried", _of("retried"), "warn"),
    Column("retried of ran", lambda r: Share(r.retried, r.ran)),
    Column("recovered of retried", lambda r: Share(r.recovered, r.retried)),
    Column("sends", _of("attempts")), Column("most of one call", _of("most_attempts")),
    Column("given back", _of("released")), Column("asked again", _of("asked_again")),
)  # fmt: skip
_DOUBTS = (
    _key, Column("writes that ran", _of("ran")), Column("in doubt", _of("doubted"), "warn"),
    Column("in doubt of ran", lambda r: Share(r.doubted, r.ran)), Column("open", _of("open"), "bad"),
    Column("found out", _of("found")), Column("took effect", _of("committed")), Column("had not", _of("not_applied")),
    Column("p50 to its end", _ms("p50_open_ms")),
)  # fmt: skip

_ALL = (
    Report(
        "success", "Success", "How much of what was asked for succeeded?", _success_columns(),
        ("asked: a gate vouched for the call. allowed: the gates cleared it, and people where they had to. ran: the tool was "
         "sent for. decided: it has a last word. ok: it succeeded; the shares are of these.", _INTERVAL),
        success,
    ),
    Report(
        "refusals", "Refusals and failures", "What did not succeed, and whose doing was it?", _REFUSALS,
        ("Calls that ended as refused or failed; each is attributed to model, host, rule or policy, approver, tool, downstream "
         "or us.",),
        refusals,
    ),
    Report(
        "approvals", "Approvals", "What do people decide, and how long does it take them?", _APPROVALS,
        ("decided: approved, denied or resolved by a person. Waiting is from the question to the decision, of decided ones.",
         _INTERVAL, _QUANTILES),
        approvals, (GROUP, *(by.value for by in By)), GROUP,
    ),
    Report(
        "latency", "Latency", "How long do calls take?", _LATENCY,
        ("From the request to the last word, of decided calls; less people: without the time in which it waited for a decision; "
         "in the tool: of calls that ran.", _QUANTILES),
        latency,
    ),
    Report(
        "retries", "Retries", "What had to be sent more than once?", _RETRIES,
        ("retried: sent more than once; recovered: of those, in the end with success. given back: claimed, and released before "
         "anything ran. asked again: by the host, answered with what was known.", _INTERVAL),
        retries,
    ),
    Report(
        "in-doubt", "In doubt", "Of which writes did nobody know whether they took effect?", _DOUBTS,
        ("Reads are never in doubt. found out: by a probe or a late answer; took effect, had not: a person said so.", _INTERVAL),
        in_doubt,
    ),
)  # fmt: skip
REPORTS: Mapping[str, Report] = {report.name: report for report in _ALL}

__all__ = ["REPORTS", "Approvals", "Column", "Doubts", "Duration", "Latency", "Refusals", "Report", "Retries", "json_row"]
