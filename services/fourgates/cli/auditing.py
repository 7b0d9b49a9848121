"""`fourgates query`, `explain`, `audit check`: asking the audit over its query door, and the log itself."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import click

from fourgates.approval.visible import as_text
from fourgates.audit.build import build_rows
from fourgates.audit.client import DoorClient
from fourgates.audit.comparing import Comparing, Comparison
from fourgates.audit.explain import explain as explained
from fourgates.audit.integrity import LONGEST_DEADLINE_SECONDS, Finding, run_integrity
from fourgates.cli.asking import door_of, print_json, whole_call_id, with_door
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, with_settings
from fourgates.cli.settings import Settings
from fourgates.cli.world import connected
from fourgates.contract.errors import Poison
from fourgates.contract.events import AuditWatermark
from fourgates.contract.topology import AUDIT_WATERMARKS
from fourgates.runtime.dev_issuer import wall_ms

_MARK, _COLOURS = 5, {"ok   ": "green", "FOUND": "red"}
_SHOWN = 20
"""Of a kind; --json has all that are named."""


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
        for line in as_text(told.text()).split("\n"):
            click.echo(line if line.startswith(" ") else click.style(line, bold=True))


@click.group()
def audit() -> None:
    """Check the audit for what must never happen."""


@audit.command()
@click.option("--younger-than", type=click.FloatRange(min=0), default=float(LONGEST_DEADLINE_SECONDS), show_default=True,
              metavar="SECONDS", help="What is younger may still be on its way and is left out.")  # fmt: skip
@click.option("--without-log", is_flag=True, help="Only the queries: do not compare the rows with Kafka's records.")
@as_json
@with_settings
def check(settings: Settings, younger_than: float, without_log: bool, json_form: bool) -> None:
    """What must never happen, and whether the store still holds what the log says.

    Runs the integrity queries, then makes each record that Kafka still has into its row once more and compares it with the one
    in ClickHouse: a row that was altered, taken out or put in is named. Exit code 1 where anything is found.
    """
    with door_of(settings) as door:
        now_ms = wall_ms()
        findings = run_integrity(door, now_ms, younger_than)
        compared = None if without_log else asyncio.run(_compare(settings, door, now_ms - int(younger_than * 1000)))
    if json_form:
        print_json(_as_json(findings, compared))
    else:
        for line in _told(findings, compared):
            click.echo(click.style(line[:_MARK], fg=_COLOURS.get(line[:_MARK]), bold=True) + as_text(line[_MARK:]))
    if any(finding.rows for finding in findings) or (compared is not None and compared.found):
        raise click.exceptions.Exit(1)


async def _compare(settings: Settings, door: DoorClient, before_ms: int) -> Comparison:
    async with connected(settings) as (base, bus):
        marks: dict[tuple[str, int], tuple[int, int]] = {}
        async for received in bus.scan(AUDIT_WATERMARKS):
            try:
                mark: AuditWatermark = base.opener.open(received).record
            except Poison:
                continue
            place = mark.topic, mark.partition
            marks[place] = max(marks.get(place, (0, 0)), (mark.said_ms, mark.offset))
        rows = build_rows(base.opener, base.keyring.placeholder_key(), base.catalog)
        stored = {place: offset for place, (_, offset) in marks.items()}
        return await Comparing(door, bus, rows, stored, before_ms).run()


def _as_json(findings: list[Finding], compared: Comparison | None) -> list[dict[str, Any]] | dict[str, Any]:
    queries = [dataclasses.asdict(finding) for finding in findings]
    return queries if compared is None else {"queries": queries, "log": dataclasses.asdict(compared)}


def _told(findings: list[Finding], compared: Comparison | None) -> Iterator[str]:
    for finding in findings:
        yield f"{'ok   ' if not finding.rows else 'FOUND'} {finding.name}: {len(finding.rows)} rows"
        if finding.rows:
            yield f"      {finding.meaning}"
        for row in finding.rows:
            yield f"      {json.dumps(row, ensure_ascii=False)}"
    if compared is not None:
        yield from _told_of_the_log(compared)


def _told_of_the_log(compared: Comparison) -> Iterator[str]:
    for kind, meaning in _KINDS.items():
        named = [one for one in compared.differences if one.kind == kind]
        count = compared.found[kind]
        yield f"{'ok   ' if not count else 'FOUND'} {kind}: {count} rows"
        if count:
            yield f"      {meaning}"
        for one in named[:_SHOWN]:
            what = f" ({', '.join(one.columns)})" if one.columns else ""
            yield f"      {one.place}{what}{f' of call {one.call_id}' if one.call_id else ''}"
        if count > _SHOWN:
            yield f"      and {count - _SHOWN} more; --json names up to {len(compared.differences)}"
    yield f"      {compared.records} records of the log compared with their rows"
    if compared.erased:
        yield f"      {len(compared.erased)} of them erased, as sealed erasures say: {', '.join(compared.erased[:_SHOWN])}" + (
            f" and {len(compared.erased) - _SHOWN} more" if len(compared.erased) > _SHOWN else ""
        )
    if compared.on_their_way:
        yield f"      {compared.on_their_way} on their way: the sink has not come to them"
    if compared.other_build:
        yield f"      {compared.other_build} rows were made by another build or key: their texts were not compared"
    if compared.older:
        yield f"      {compared.older} rows are older than the log and stand by themselves"


_KINDS = {
    "altered": "The row is not the one that the record in Kafka gives.",
    "missing": "The record is in Kafka and should be here, and is not.",
    "added": "There is no such record in Kafka.",
}
