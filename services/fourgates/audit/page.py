"""The reports as one page: figures on top, a chart and a table for each question. No script, nothing fetched from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jinja2

import fourgates
from fourgates.audit.attribution import MEANING
from fourgates.audit.drawings import Drawing, drawings
from fourgates.audit.report import By, Success, success
from fourgates.audit.store import Query
from fourgates.audit.tables import REPORTS, Report, is_number, text_of
from fourgates.audit.troubles import OpenDoubt, open_doubts
from fourgates.audit.wilson import Share

ROWS_OF_A_TABLE = 20
"""The largest ones; how many are left out is said."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number at the top of the page."""

    name: str
    value: str
    below: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One report on the page."""

    report: Report
    by: str
    drawings: tuple[Drawing, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]
    """(text, class) of each cell."""
    left_out: int = 0


def page(query: Query, names: Sequence[str], by: str | None, since_ms: int, now_ms: int) -> str:
    """The HTML of these reports. `by` None: each by its own default. Times in UTC."""
    days, tools = success(query, By.DAY, since_ms), success(query, By.TOOL, since_ms)
    sections = tuple(_section(query, REPORTS[name], by, since_ms, days) for name in names)
    doubts = open_doubts(query, since_ms)
    return _template().render(
        title="Fourgates: what was asked, and what became of it" if len(names) > 1 else f"Fourgates: {REPORTS[names[0]].title}",
        figures=_figures(tools, doubts), sections=sections, doubts=doubts if "in-doubt" in names else (),
        since=_time(since_ms) if since_ms else "", days=(days[0].key, days[-1].key) if days else (),
        made=_time(now_ms), version=fourgates.__version__,
    )  # fmt: skip


def _section(query: Query, report: Report, by: str | None, since_ms: int, days: Sequence[Success]) -> Section:
    chosen = by if by in report.by else report.default_by
    assert chosen is not None
    found, columns = report.ask(query, chosen, since_ms), report.shown(chosen)
    if report.name == "refusals" and chosen == By.TOOL:
        columns = columns[1:]  # the tool has a column of its own
    return Section(
        report, chosen, tuple(drawings(report.name, chosen, found, days)), tuple(column.title for column in columns),
        tuple(tuple(_cell(column.value(row), column.tone) for column in columns) for row in found[:ROWS_OF_A_TABLE]),
        max(len(found) - ROWS_OF_A_TABLE, 0),
    )  # fmt: skip


def _cell(cell: Any, tone: str) -> tuple[str, str]:
    told = tone if isinstance(cell, int) and cell else "none" if cell == 0 or text_of(cell) == "-" else ""
    return text_of(cell), f"{'number ' if is_number(cell) else ''}{told}".strip()


def _figures(tools: Sequence[Success], doubts: Sequence[OpenDoubt]) -> list[Figure]:
    asked, decided, done = (sum(getattr(one, name) for one in tools) for name in ("asked", "decided", "succeeded"))
    ran, waiting = sum(one.ran for one in tools), sum(one.open for one in tools)
    refused, failed = sum(one.refused for one in tools), sum(one.failed for one in tools)
    kept = Share(done, decided)
    around = "" if kept.interval is None else "{:.0%} to {:.0%} with 95 % confidence".format(*kept.interval)
    return [
        Figure("calls asked for", f"{asked:,}", f"{ran:,} ran, {waiting:,} still open"),
        Figure("succeeded, of decided", "-" if kept.value is None else f"{kept.value:.1%}", around, "good"),
        Figure("refused", f"{refused:,}", "stopped before they could have an effect", "warn"),
        Figure("failed", f"{failed:,}", "ran, without an effect", "bad" if failed else ""),
        Figure("in doubt now", f"{len(doubts):,}", "somebody has to find out" if doubts else "every effect is known",
               "doubt" if doubts else "good"),
    ]  # fmt: skip


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


@cache
def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("fourgates.audit", "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True,
                                     lstrip_blocks=True)  # fmt: skip
    environment.globals["meaning"] = {str(party).replace("_", " "): words for party, words in MEANING.items()}
    return environment.get_template("page.html")
