"""`fourgates query`, `explain`, `audit check`: asking the audit over its query door."""

from __future__ import annotations

import dataclasses
import json

import click

from fourgates.approval.visible import as_text
from fourgates.audit.client import DoorClient
from fourgates.audit.explain import explain as explained
from fourgates.audit.integrity import LONGEST_DEADLINE_SECONDS, run_integrity
from fourgates.cli.asking import print_json, whole_call_id, with_door
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json
from fourgates.runtime.dev_issuer import wall_ms


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
    told = explained(door, whole_call_id(door, call_id))
    if told is None:
        raise Fault(f"The audit knows no call {call_id!r}.", BROKEN)
    if json_form:
        print_json(dataclasses.asdict(told))
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
        print_json([dataclasses.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            click.echo(f"{'ok   ' if not finding.rows else 'FOUND'} {finding.name}: {len(finding.rows)} rows")
            if finding.rows:
                click.echo(f"      {finding.meaning}")
            for row in finding.rows:
                click.echo(f"      {as_text(json.dumps(row, ensure_ascii=False))}")
    if any(finding.rows for finding in findings):
        raise click.exceptions.Exit(1)
