"""`fourgates up`: the whole pipeline on this machine, until ctrl-C."""

from __future__ import annotations

import asyncio
import webbrowser
from collections.abc import Iterator

import click
from rich.console import Console

from fourgates.catalog import Catalog
from fourgates.cli.board import Board
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.lifetime import until_told
from fourgates.cli.local import Extra, Local, local_pipeline
from fourgates.cli.options import with_catalog
from fourgates.cli.people import development_users
from fourgates.cli.run import refuse_early
from fourgates.cli.settings import PREFIX, Address, Settings, has_display
from fourgates.cli.shop import CATALOG, TRY, open_shop
from fourgates.cli.world import Base


@click.command()
@click.option("--local-broker/--no-local-broker", default=None,
              help="Start a Kafka here, or never; without either, where FOURGATES_BOOTSTRAP is not set.")  # fmt: skip
@click.option("--demo", is_flag=True, help="With the demo's shop and its payment provider.")
@click.option("--open", "open_page", is_flag=True, help="Open the approver's page where there is a browser.")
@with_catalog
def up(settings: Settings, local_broker: bool | None, demo: bool, open_page: bool) -> None:
    """Runs broker, topics and one process for each stage, restarts what falls, and ends all of it in order on ctrl-C."""
    extra = open_shop(settings.home) if demo else Extra()
    if demo:
        settings = settings.model_copy(update={"catalog": CATALOG})
    else:
        refuse_early(Base(settings), "validator")
    until_told(_up(settings, local_broker, extra, demo=demo, open_page=open_page))


async def _up(settings: Settings, local_broker: bool | None, extra: Extra, *, demo: bool, open_page: bool) -> None:
    board = Board(Console(highlight=False))
    with board.shown():
        async with local_pipeline(
            settings, local_broker=local_broker, extra=extra, on_change=board.changed, progress=board.say
        ) as local:
            for line in _told(local, demo=demo):
                board.say(line)
            page = Address.parse(f"{PREFIX}APPROVER", local.settings.approver).url
            if open_page and has_display():
                await asyncio.to_thread(webbrowser.open, page)
            try:
                refused = await board.refused()
            except asyncio.CancelledError:
                board.say("ending: what is under way is finished first; ctrl-C again does not wait")
                raise
        raise Fault(refused, BROKEN)


def _told(local: Local, *, demo: bool) -> Iterator[str]:
    """What runs, and what to try."""
    settings, broker = local.settings, local.broker
    yield ""
    yield f"Kafka {f'{broker.version} at ' if broker else 'at '}{settings.bootstrap}, logs in {settings.home / 'logs'}"
    yield f"People decide at {Address.parse(f'{PREFIX}APPROVER', settings.approver).url}"
    yield "Try in another terminal, in this folder:"
    yield from TRY if demo else _tries(Base(settings).catalog, settings)
    yield "  fourgates report success"
    if settings.bootstrap != Settings.model_fields["bootstrap"].default:
        yield f"For an agent's SDK: export {PREFIX}BOOTSTRAP={settings.bootstrap}"
    yield "ctrl-C ends everything."
    yield ""


def _tries(catalog: Catalog, settings: Settings) -> Iterator[str]:
    users = development_users(settings)
    caller = next((name for name, known in users.items() if known.agent), "USER")
    approver = next((name for name, known in users.items() if not known.agent), "APPROVER")
    for tool in catalog:
        yield f"  fourgates call {tool.name} '{{...}}' --as {caller}"
    yield f"  fourgates approvals list --as {approver}"
