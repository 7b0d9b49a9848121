"""What each report looks like as charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from fourgates.audit import charts
from fourgates.audit.attribution import Party
from fourgates.audit.durations import Approvals, Latency
from fourgates.audit.report import Refusals, Success
from fourgates.audit.tables import Duration
from fourgates.audit.troubles import Doubts, Retries
from fourgates.audit.wilson import Share

ROWS_OF_A_CHART = 12
"""The largest ones; the table below has more."""
_ENDS = (
    charts.Part("succeeded", "good"), charts.Part("refused", "warn"), charts.Part("failed", "bad"),
    charts.Part("in doubt", "doubt"), charts.Part("open", "quiet"),
)  # fmt: skip
_ANSWERS = (
    charts.Part("approved", "good"), charts.Part("denied", "warn"), charts.Part("expired", "bad"),
    charts.Part("resolved", "doubt"), charts.Part("withdrawn", "quiet"), charts.Part("open", "track"),
)  # fmt: skip
_DOUBT_ENDS = (
    charts.Part("found out", "good"), charts.Part("took effect", "doubt"), charts.Part("had not", "warn"),
    charts.Part("open", "bad"),
)  # fmt: skip
_RECOVERED = (charts.Part("recovered", "good"), charts.Part("not, or not yet", "bad"))


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart with its heading, and what its colours mean."""

    title: str
    chart: Markup
    legend: tuple[charts.Part, ...] = ()


def drawings(name: str, by: str, found: Sequence[Any], days: Sequence[Success]) -> list[Drawing]:
    """Of the report's rows, counted by `by`; `days` are all calls by day."""
    most = found[:ROWS_OF_A_CHART]
    match name:
        case "success":
            return _of_success(by, most, days)
        case "refusals":
            return _of_refusals(found)
        case "approvals":
            return _of_approvals(by, most)
        case "latency":
            return _of_latency(by, most)
        case "retries":
            return _of_retries(by, most)
    return _of_doubts(by, most)


def _of_success(by: str, most: Sequence[Success], days: Sequence[Success]) -> list[Drawing]:
    shown = days[-60:]
    columns = [(day.succeeded, day.refused, day.failed, day.in_doubt, day.open) for day in shown]
    labels = [day.key[5:] for day in shown]
    drawn = charts.stacked_columns(labels, _ENDS, columns, "Calls by day and how they ended")
    whole = [(one.key, Share(one.succeeded, one.decided)) for one in most]
    ends = [(one.key, (one.succeeded, one.refused, one.failed, one.in_doubt, one.open)) for one in most]
    steps = [(step, sum(getattr(day, step) for day in days)) for step in ("asked", "allowed", "ran", "succeeded")]
    asked = steps[0][1]
    funnel = [(step, n, "good" if step == "succeeded" else "plain", f"{n:,}" + (f" · {n / asked:.0%}" if asked else ""))
              for step, n in steps]  # fmt: skip
    return [
        Drawing("Calls by day", drawn, _ENDS),
        Drawing("From asked to succeeded", charts.bars(funnel, "How many calls came how far")),
        Drawing(f"How calls ended, by {by}", charts.split_bars(ends, _ENDS, f"How calls ended, by {by}"), _ENDS),
        Drawing(f"Succeeded of decided, by {by}", charts.shares(whole, f"Share of decided calls that succeeded, by {by}")),
    ]


def _of_refusals(found: Sequence[Refusals]) -> list[Drawing]:
    by_party = {party: sum(one.calls for one in found if one.attributed_to == party) for party in Party}
    whole = sum(by_party.values()) or 1
    parties = [(party.replace("_", " "), n, "us" if party is Party.US else "warn", f"{n:,} · {n / whole:.0%}")
               for party, n in by_party.items()]  # fmt: skip
    codes: dict[str, int] = {}
    for one in found:
        name = f"{one.code}: {one.reason}" if one.reason else one.code
        codes[name] = codes.get(name, 0) + one.calls
    most = sorted(codes.items(), key=lambda pair: -pair[1])[: len(Party)]
    return [
        Drawing("Whose doing it was", charts.bars(parties, "Calls that did not succeed, by whose doing it was")),
        Drawing(
            "The most frequent reasons", charts.bars([(name, n, "warn", f"{n:,}") for name, n in most], "Codes and reasons", 270)
        ),
    ]


def _of_approvals(by: str, most: Sequence[Approvals]) -> list[Drawing]:
    answers = [(one.key, (one.approved, one.denied, one.expired, one.resolved, one.withdrawn, one.open)) for one in most]
    waits = [(one.key, _points(("half within", one.p50_waited_ms), ("95 % within", one.p95_waited_ms),
                               ("longest", one.longest_waited_ms))) for one in most]  # fmt: skip
    return [
        Drawing(f"What became of questions, by {by}", charts.split_bars(answers, _ANSWERS, "Questions to people"), _ANSWERS),
        Drawing(f"How long people took, by {by}", charts.spans(waits, "Waiting for people: median, 95 %, longest"), _WAITS),
    ]


_WAITS = (charts.Part("half within", "d0"), charts.Part("95 % within", "d1"), charts.Part("longest, or 99 %", "d2"))


def _of_latency(by: str, most: Sequence[Latency]) -> list[Drawing]:
    rows = [(one.key, _points(("half within", one.p50_ms), ("95 % within", one.p95_ms), ("99 % within", one.p99_ms)))
            for one in most]  # fmt: skip
    tool = [(one.key, _points(("half within", one.p50_ms_in_tool), ("95 % within", one.p95_ms_in_tool))) for one in most]
    return [
        Drawing(f"From the request to the last word, by {by}", charts.spans(rows, "Latency: median, 95 %, 99 %"), _WAITS),
        Drawing(f"In the tool itself, by {by}", charts.spans(tool, "Time in the tool: median, 95 %"), _WAITS[:2]),
    ]


def _of_retries(by: str, most: Sequence[Retries]) -> list[Drawing]:
    rows = [(one.key, Share(one.retried, one.ran)) for one in most]
    ends = [(one.key, (one.recovered, one.retried - one.recovered)) for one in most]
    return [
        Drawing(f"Sent more than once, of what ran, by {by}", charts.shares(rows, "Share of calls that were retried")),
        Drawing(f"What became of them, by {by}", charts.split_bars(ends, _RECOVERED, "How retried calls ended"), _RECOVERED),
    ]


def _of_doubts(by: str, most: Sequence[Doubts]) -> list[Drawing]:
    share = [(one.key, Share(one.doubted, one.ran)) for one in most]
    rows = [(one.key, (one.found, one.committed, one.not_applied, one.open)) for one in most]
    return [
        Drawing(f"In doubt, of writes that ran, by {by}", charts.shares(share, "Share of writes that were in doubt")),
        Drawing(f"How doubts ended, by {by}", charts.split_bars(rows, _DOUBT_ENDS, "How doubts ended"), _DOUBT_ENDS),
    ]


def _points(*said: tuple[str, int | None]) -> list[tuple[int, str]]:
    return [(ms, f"{words} {Duration(ms).text()}") for words, ms in said if ms is not None]
