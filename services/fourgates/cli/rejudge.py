"""`fourgates rejudge`: the decisions of a run, taken again from the log by today's rules. Nothing executes."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.audit.rejudging import Judgement, Rejudge, gathered
from fourgates.cli.asking import print_json
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import as_json, with_settings
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base, connected
from fourgates.contract.errors import Poison
from fourgates.contract.ids import run_started_ms
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import APPROVALS, CALLS_CLEARED, CALLS_LEDGER, CALLS_REQUESTED, CALLS_VALIDATED
from fourgates.runtime.kafka import KafkaBus

_TOPICS = (CALLS_REQUESTED, CALLS_VALIDATED, APPROVALS, CALLS_CLEARED, CALLS_LEDGER)


@click.command()
@click.argument("run_id")
@click.option("--all", "every", is_flag=True, help="Also the decisions that would be the same.")
@as_json
@with_settings
def rejudge(settings: Settings, run_id: str, every: bool, json_form: bool) -> None:
    """Judges the calls of a run again and shows where today's catalog and policies would decide otherwise.

    Format, business rules (on the recorded facts, at the recorded time), origins and permission; as long as Kafka has the
    records. Exit code 1 where something differs.
    """
    try:
        run_started_ms(run_id)
    except ValueError:
        raise Fault(
            f"{run_id!r} is no run's id: it is a UUIDv7, such as `fourgates explain` and `fourgates call` show."
        ) from None
    found = asyncio.run(_judged(settings, run_id))
    if not found:
        raise Fault(f"The log has no judged call of run {run_id}: it never had, or its retention is over.", BROKEN)
    differing = [one for one in found if one.differs]
    if json_form:
        print_json([dataclasses.asdict(one) | {"differs": one.differs} for one in found])
    else:
        _show(found, found if every else [one for one in found if one.differs or one.note])
    if differing:
        raise click.exceptions.Exit(1)


async def _judged(settings: Settings, run_id: str) -> list[Judgement]:
    async with connected(settings) as (base, bus):
        calls = gathered([envelope async for envelope in _of_run(base, bus, run_id)], run_id)
        stages = settings.stages
        judge = Rejudge(base.catalog, base.policies.current, stages.validator.limits, stages.approver_groups)
        return [judgement for call in calls for judgement in judge.call(call)]


async def _of_run(base: Base, bus: KafkaBus, run_id: str) -> AsyncIterator[Envelope]:
    """Every valid record that may be of that run: its id stands in the bytes of each."""
    sought = run_id.encode()
    for topic in _TOPICS:
        async for received in bus.scan(topic):
            if sought not in (received.value or b""):
                continue
            try:
                yield base.opener.open(received)
            except Poison:
                continue


def _show(found: Sequence[Judgement], shown: Sequence[Judgement]) -> None:
    console = Console(highlight=False)
    calls, differing = len({one.call_id for one in found}), sum(one.differs for one in found)
    unjudged = sum(bool(one.note) for one in found)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("call", "tool", "gate", "then", "now"):
        table.add_column(name, overflow="fold")
    for one in shown:
        now = Text(f"not judged again: {one.note}", style="dim") if one.note else Text(
            as_text(one.now), style="bold yellow" if one.differs else "green")  # fmt: skip
        table.add_row(one.call_id[:12], Text(as_text(one.tool)), one.gate, Text(as_text(one.then)), now)
    if shown:
        console.print(table)
    same = len(found) - differing - unjudged
    console.print(f"{calls} calls: {same} decisions the same, {differing} would differ"
                  + (f", {unjudged} not judged again" if unjudged else ""))  # fmt: skip
