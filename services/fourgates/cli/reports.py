"""`fourgates report`: the six reports, in the terminal, as JSON or as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.audit.client import DoorClient
from fourgates.audit.page import page
from fourgates.audit.report import By
from fourgates.audit.tables import REPORTS, Cell, Column, Report, is_number, json_row, text_of
from fourgates.audit.wilson import Share
from fourgates.cli.asking import print_json, with_door
from fourgates.cli.options import as_json
from fourgates.cli.since import since_ms
from fourgates.runtime.dev_issuer import wall_ms

_TONES = {"good": "green", "warn": "yellow", "bad": "bold red", "": ""}
_ALL, _UNBOUNDED = "all", 10_000


@click.group()
def report() -> None:
    """What was asked for, what became of it, how long it took, and whose doing it was."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    """--since, --json and --html, which every report has."""
    since = click.option("--since", metavar="WHEN", help="Only what began then: 90m, 24h, 7d, 2w, or a date or time in UTC.")
    html = click.option("--html", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path),
                        help="Write a page with charts into FILE; it needs nothing else.")  # fmt: skip
    return since(as_json(html(with_door(command))))


def _add(kind: Report) -> None:
    """One command for each report."""

    @_options
    def command(door: DoorClient, by: str, since: str | None, json_form: bool, html: Path | None) -> None:
        _tell(door, (kind.name,), by, since, json_form, html)

    by = click.option("--by", type=click.Choice(kind.by), default=kind.default_by, show_default=True, help="What to count by.")
    report.command(kind.name, help=f"{kind.question} {kind.notes[0]}", short_help=kind.question)(by(command))


for _kind in REPORTS.values():
    _add(_kind)


@report.command(_ALL, short_help="All of them.")
@click.option("--by", type=click.Choice([by.value for by in By]), help="What to count by; else each by its own default.")
@_options
def all_reports(door: DoorClient, by: str | None, since: str | None, json_form: bool, html: Path | None) -> None:
    """All reports, one after the other; with --html one page."""
    _tell(door, tuple(REPORTS), by, since, json_form, html)


def _tell(door: DoorClient, names: Sequence[str], by: str | None, since: str | None, json_form: bool, html: Path | None) -> None:
    now = wall_ms()
    start = since_ms(since, now)
    if html is not None:
        html.write_text(page(door, names, by, start, now), encoding="utf-8")
        click.echo(f"wrote {html}", err=json_form)
    if json_form:
        found = {name: _json_rows(door, REPORTS[name], by, start) for name in names}
        print_json(found if len(names) > 1 else found[names[0]])
    elif html is None:
        for place, name in enumerate(names):
            _show(door, REPORTS[name], by or REPORTS[name].default_by, start, heading=len(names) > 1, first=place == 0)


def _json_rows(door: DoorClient, kind: Report, by: str | None, start: int) -> list[dict[str, Any]]:
    return [json_row(kind, row) for row in kind.ask(door, by or kind.default_by, start)]


def _show(door: DoorClient, kind: Report, by: str, start: int, *, heading: bool, first: bool) -> None:
    console = Console(highlight=False)
    if heading:
        console.print(Text(("" if first else "\n") + kind.title, style="bold"), Text(kind.question, style="dim"))
    rows, columns = kind.ask(door, by, start), kind.shown(by)
    if kind.name == "refusals" and by == By.TOOL:
        columns = columns[1:]  # the tool has a column of its own
    if not rows:
        console.print("Nothing yet.")
        return
    table = table_of(columns, rows)
    if Measurement.get(console, console.options.update(width=_UNBOUNDED), table).maximum > console.width:
        table = table_of([column for column in columns if not column.spare], rows, between="\n")
    console.print(table)
    for note in kind.notes:
        console.print(Text(note, style="dim"))


def table_of(columns: Sequence[Column], rows: Sequence[Any], between: str = " ") -> Table:
    """Numbers at the right, coloured where they are not nothing. `between` a share and its interval."""
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    cells = [[column.value(row) for column in columns] for row in rows]
    for place, column in enumerate(columns):
        right = is_number(cells[0][place])
        title = column.title.replace(" ", "\n") if right else column.title
        table.add_column(title, justify="right" if right else "left", no_wrap=right, overflow="fold", vertical="top")
    for row in cells:
        table.add_row(*(_cell(cell, column.tone, between) for cell, column in zip(row, columns, strict=True)))
    return table


def _cell(cell: Cell, tone: str, between: str) -> Text:
    if isinstance(cell, Share):
        share, _, interval = cell.text("\0").partition("\0")
        return Text.assemble(share, (f"{between}{interval}" if interval else "", "dim"), style="dim" if share == "-" else "")
    style = "dim" if cell == 0 or text_of(cell) == "-" else _TONES[tone] if isinstance(cell, int) else ""
    return Text(as_text(text_of(cell)), style=style)
