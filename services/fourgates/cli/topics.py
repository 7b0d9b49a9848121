"""`fourgates topics`: the topology on the broker."""

from __future__ import annotations

import asyncio

import click

from fourgates.cli.options import with_settings
from fourgates.cli.settings import Settings
from fourgates.runtime.topics import DURABLE_IN_SYNC, DURABLE_REPLICATION, Replication, await_broker, create_topics


@click.group()
def topics() -> None:
    """Make the topics on the broker."""


@topics.command()
@with_settings
def create(settings: Settings) -> None:
    """Makes the topics that are missing, FOURGATES_REPLICATION times each, and checks those that exist."""
    for line in asyncio.run(_created(settings)):
        click.echo(line)


async def _created(settings: Settings) -> list[str]:
    await await_broker(settings.bootstrap, seconds=settings.start_wait, progress=lambda line: click.echo(line, err=True))
    in_sync = DURABLE_IN_SYNC if settings.replication >= DURABLE_REPLICATION else 1
    made = await create_topics(settings.bootstrap, Replication(settings.replication, in_sync))
    return [f"made {name}" for name in made] or ["all topics were there"]
