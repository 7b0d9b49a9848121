"""`fourgates disable | enable | stop | switches`: the kill switch, sealed by the operator's key."""

from __future__ import annotations

import asyncio
import getpass
from datetime import UTC, datetime

import click

from fourgates.approval.visible import as_text
from fourgates.cli.options import with_settings
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base, connected
from fourgates.contract import ids
from fourgates.contract.errors import Poison
from fourgates.contract.events import Control, ControlKind
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import CONTROLS
from fourgates.gates.controls import ControlFold, check_subject
from fourgates.runtime.kafka import KafkaBus

_DONE = {ControlKind.DISABLE: "disabled", ControlKind.ENABLE: "enabled", ControlKind.STOP: "stopped"}


def _saying(kind: ControlKind, help_text: str) -> click.Command:
    """The command that says `kind` of a subject."""

    @click.command(kind.value, help=help_text)
    @click.argument("subject", metavar="SUBJECT")
    @click.option("--reason", required=True, help="Why, for those who read it later.")
    @with_settings
    def command(settings: Settings, subject: str, reason: str) -> None:
        asyncio.run(_say(settings, kind, subject, reason))

    return command


disable = _saying(
    ControlKind.DISABLE,
    "Switches SUBJECT off: tool:NAME, agent:NAME, tenant:NAME or run:TENANT/RUN_ID. Its calls are refused at the gate and, "
    "those that are under way, right before they would run.",
)
enable = _saying(ControlKind.ENABLE, "Switches SUBJECT on again. What was refused meanwhile has ended; new calls pass.")
stop = _saying(ControlKind.STOP, "Stops a run, run:TENANT/RUN_ID: its host is told run_stopped for every further call.")


@click.command()
@with_settings
def switches(settings: Settings) -> None:
    """What is switched off now, and who said so."""
    said = asyncio.run(_standing(settings))
    for envelope in said:
        control: Control = envelope.record
        since = f"{datetime.fromtimestamp(envelope.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        click.echo(as_text(f"{control.kind} {control.subject}, since {since}, by {control.by}: {control.reason}"))
    if not said:
        click.echo("Everything is switched on.")


async def _say(settings: Settings, kind: ControlKind, subject: str, reason: str) -> None:
    check_subject(kind, subject)
    async with connected(settings) as (base, bus):
        publisher = bus.publisher(base.writer("operator"))
        fold, _ = await _read(bus, base)
        last = fold.last(subject)
        # Said after everything that was said before, also where another operator's clock runs ahead of ours.
        said_ms = max(base.clock.now_ms(), last.said_ms + 1 if last else 0)
        control = Control(
            event_id=ids.random_id(), producer=f"cli@{settings.environment}", kind=kind, subject=subject, reason=reason,
            by=getpass.getuser(), said_ms=said_ms,
        )  # fmt: skip
        await publisher.publish(control)
    click.echo(f"{_DONE[kind]} {subject}")


async def _standing(settings: Settings) -> list[Envelope]:
    async with connected(settings) as (base, bus):
        fold, said = await _read(bus, base)
        return [envelope for envelope in said if _stands(fold, envelope)]


def _stands(fold: ControlFold, envelope: Envelope) -> bool:
    control: Control = envelope.record
    last = fold.last(control.subject)
    return (
        control.kind is not ControlKind.ENABLE
        and last is not None
        and (last.kind, last.said_ms, last.at_ms) == (control.kind, control.said_ms, envelope.time_ms)
    )


async def _read(bus: KafkaBus, base: Base) -> tuple[ControlFold, list[Envelope]]:
    fold, said = ControlFold(), []
    async for received in bus.scan(CONTROLS):
        try:
            envelope = base.opener.open(received)
        except Poison:
            continue
        fold.apply(envelope)
        said.append(envelope)
    return fold, said
