"""`fourgates trace`: what people decided about a run's calls, written down for checkers that are not ours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from fourgates.approval.trace import POLICY, Trace, TraceBook
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import with_settings
from fourgates.cli.settings import Settings
from fourgates.cli.world import connected
from fourgates.contract.errors import Poison
from fourgates.contract.ids import run_started_ms
from fourgates.contract.topology import APPROVALS, CALLS_LEDGER, CALLS_VALIDATED, CONTROLS
from fourgates.gates.approval import proven_by


@click.command()
@click.argument("run_id")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The file to write; else to the terminal.")
@click.option("--policy", type=click.Path(dir_okay=False, path_type=Path), help="Also writes the policy to check it by.")
@with_settings
def trace(settings: Settings, run_id: str, output: Path | None, policy: Path | None) -> None:
    """Writes a run's approvals as JSON lines in the format of `agentack`, from the log alone.

    Check it with `agentack check TRACE --policy POLICY`. Calls that have not ended are left out and counted.
    """
    try:
        run_started_ms(run_id)
    except ValueError:
        raise Fault(f"{run_id!r} is no run's id: it is a UUIDv7, such as `fourgates call` shows.") from None
    made = asyncio.run(_traced(settings, run_id))
    if not made.events:
        gone = "has no call that ended" if made.unended else "has no validated call in the log"
        raise Fault(f"Run {run_id} {gone}.", BROKEN)
    if policy is not None:
        policy.write_text(POLICY, encoding="utf-8")
    if output is None:
        click.echo(made.text(), nl=False)
        return
    output.write_text(made.text(), encoding="utf-8")
    rest = f"; {made.unended} calls have not ended and are not in it" if made.unended else ""
    click.echo(f"{len(made.events)} events in {output}{rest}.")


async def _traced(settings: Settings, run_id: str) -> Trace:
    async with connected(settings) as (base, bus):
        book = TraceBook(run_id, proven_by(base.keyring.verifier()))
        for topic in (CALLS_VALIDATED, APPROVALS, CALLS_LEDGER, CONTROLS):
            calls = {call_id.encode() for call_id in book.calls}
            async for received in bus.scan(topic):
                if topic in (APPROVALS, CALLS_LEDGER) and received.key not in calls:
                    continue
                try:
                    envelope = base.opener.open(received)
                except Poison:
                    continue  # it counted for nobody
                book.read((envelope,))
        return book.trace()
