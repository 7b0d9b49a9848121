"""`fourgates report`, `query`, `explain`, `audit check`: asking the audit over its query door."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.audit.client import DoorClient
from fourgates.audit.explain import explain as explained
from fourgates.audit.integrity import LONGEST_DEADLINE_SECONDS, run_integrity
from fourgates.audit.report import By, Success
from fourgates.audit.report import refusals as refusals_of
from fourgates.audit.report import success as success_of
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, with_settings
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.world import Base
from fourgates.runtime.dev_issuer import wall_ms

_CALL_ID_CHARS = 64
_BEGINNING = "SELECT DISTINCT call_id FROM fourgates.records WHERE startsWith(call_id, {beginning:String}) LIMIT 2"


def with_door(command: Callable[..., None]) -> Callable[..., None]:
    """Opens the audit's query door for the command."""

    @with_settings
    @functools.wraps(command)
    def opened(settings: Settings, **options: Any) -> None:
        url = Address.parse(f"{PREFIX}AUDIT_DOOR", settings.audit_door).url
        with DoorClient(url, Base(settings).keyring.door_token()) as door:
            command(door, **options)

    return opened


@click.group()
def report() -> None:
    """Success rates and refusals."""


@report.command()
@click.option("--by", type=click.Choice([by.value for by in By]), default="tool", show_default=True)
@as_json
@with_door
def success(door: DoorClient, by: str, json_form: bool) -> None:
    """Success with its denominators: of what was asked for, of what was decided, of what ran."""
    found = success_of(door, By(by))
    if json_form:
        _print_json([dataclasses.asdict(one) | _rates(one) for one in found])
        return
    counts = ("asked", "decided", "ran", "succeeded", "refused", "failed", "in_doubt", "open")
    head = (by, "asked", "decided", "ran", "ok", "refused", "failed", "in\ndoubt", "open", "of\nasked", "of\ndecided", "of\nran")
    rows = [(one.key, *(getattr(one, name) for name in counts), *map(_share, _rates(one).values())) for one in found]
    _print_table(head, rows)


@report.command()
@as_json
@with_door
def refusals(door: DoorClient, json_form: bool) -> None:
    """What did not succeed, by code, and whose doing it was."""
    found = [dataclasses.asdict(one) for one in refusals_of(door)]
    if json_form:
        _print_json(found)
    else:
        names = ("code", "attributed_to", "tool", "reason", "calls")
        _print_table(names, [tuple(one[name] for name in names) for one in found])


@click.command()
@click.argument("sql")
@click.option("--format", "output", default="PrettyCompactMonoBlock", show_default=True, help="Any of ClickHouse's text formats.")
@with_door
def query(door: DoorClient, sql: str, output: str) -> None:
    """Runs one reading statement in ClickHouse; `docs/questions.md` has examples."""
    click.echo(door.text(sql, output), nl=False)


@click.command()
@click.argument("call_id")
@as_json
@with_door
def explain(door: DoorClient, call_id: str, json_form: bool) -> None:
    """Who asked for what, why it was allowed, what really happened. The beginning of a call's id is enough."""
    if len(call_id) < _CALL_ID_CHARS:
        found = [str(row["call_id"]) for row in door(_BEGINNING, {"beginning": call_id})]
        if len(found) > 1:
            raise Fault(f"Several calls begin with {call_id!r}; give more of the id.", BROKEN)
        call_id = found[0] if found else call_id
    told = explained(door, call_id)
    if told is None:
        raise Fault(f"The audit knows no call {call_id!r}.", BROKEN)
    if json_form:
        _print_json(dataclasses.asdict(told))
    else:
        click.echo(as_text(told.text()))


@click.group()
def audit() -> None:
    """Check the audit for what must never happen."""


@audit.command()
@click.option("--younger-than", type=click.FloatRange(min=0), default=float(LONGEST_DEADLINE_SECONDS), show_default=True,
              metavar="SECONDS", help="What is younger may still be on its way and is left out.")  # fmt: skip
@as_json
@with_door
def check(door: DoorClient, younger_than: float, json_form: bool) -> None:
    """Runs the integrity queries. Exit code 1 where one of them finds a row."""
    findings = run_integrity(door, wall_ms(), younger_than)
    if json_form:
        _print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{'ok   ' if not finding.rows else 'FOUND'} {finding.name}: {len(finding.rows)} rows")
            if finding.rows:
                click.echo(f"      {finding.meaning}")
            for row in finding.rows:
                click.echo(f"      {as_text(json.dumps(row, ensure_ascii=False))}")
    if any(finding.rows for finding in findings):
        raise click.exceptions.Exit(1)


def _rates(one: Success) -> dict[str, float | None]:
    return {"of_asked": one.of_asked, "of_decided": one.of_decided, "of_ran": one.of_ran}


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def _print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    cells = [[Text(as_text(str(cell))) for cell in row] for row in rows]
    for place, name in enumerate(head):
        words = bool(cells) and not isinstance(rows[0][place], int) and not str(rows[0][place]).endswith(("%", "-"))
        table.add_column(name, justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in cells:
        table.add_row(*row)
    Console().print(table if table.row_count else "Nothing yet.")


def _print_json(content: Any) -> None:
    click.echo(json.dumps(content, ensure_ascii=False, indent=1))
