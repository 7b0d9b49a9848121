"""`fourgates dead`: records that proved nothing, or that our own code failed on; and replaying one where that is safe."""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Iterator
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.cli.faults import Fault
from fourgates.cli.options import with_settings
from fourgates.cli.replaying import letter_at, letters, origin_of, place_of, replayed
from fourgates.cli.settings import Settings
from fourgates.cli.showing import pairs
from fourgates.cli.world import connected
from fourgates.contract.events import DeadRecord
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.topology import RECORDS_DEAD

_POSITION = re.compile(rf"(?:{re.escape(RECORDS_DEAD)}/)?(\d+)/(\d+)")
_ROW_BYTES = 16


@click.group()
def dead() -> None:
    """Look at dead letters, and replay one."""


@dead.command("list")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@with_settings
def list_dead(settings: Settings, limit: int) -> None:
    """The newest dead letters: where each record lay, and why it was refused."""
    found, count = asyncio.run(_newest(settings, limit))
    console = Console(highlight=False)
    for envelope in reversed(found):
        letter: DeadRecord = envelope.record
        head = f"{place_of(envelope.position):<8} {_time(envelope.time_ms)}  {letter.worker}: {letter.reason}"
        console.print(Text(as_text(head), style="bold"), soft_wrap=True)
        console.print(Text(as_text(f"         {origin_of(letter)}, {letter.size} bytes: {letter.detail}")), soft_wrap=True)
    if not found:
        console.print("No dead letters.")
    if count > len(found):
        click.echo(f"{count - len(found)} older ones; --limit shows more")


@dead.command()
@click.argument("position")
@click.option("--payload", is_flag=True, help="Also the record's first 64 KiB. They may hold what nobody has redacted.")
@with_settings
def show(settings: Settings, position: str, payload: bool) -> None:
    """One dead letter, by its POSITION as `dead list` prints it (partition/offset)."""
    place = _parsed(position)
    envelope = asyncio.run(_one(settings, place))
    letter: DeadRecord = envelope.record
    rows = (
        ("position", place_of(place)), ("buried at", _time(envelope.time_ms)), ("by", letter.producer), ("worker", letter.worker),
        ("record", origin_of(letter)), ("appended at", _time(letter.at_ms)), ("reason", letter.reason), ("detail", letter.detail),
        ("key", letter.record_key.decode(errors="backslashreplace")), ("size", f"{letter.size} bytes"),
        ("sha256", letter.digest),
    )  # fmt: skip
    Console(highlight=False).print(pairs((name, as_text(said)) for name, said in rows))
    if payload:
        for line in dump(letter.payload):
            click.echo(line)


@dead.command()
@click.argument("position")
@with_settings
def replay(settings: Settings, position: str) -> None:
    """Appends the original bytes of the dead letter at POSITION to their topic once more, where that is safe.

    That is so for what a stage reads as its input (calls.requested, calls.validated, calls.cleared), where the record proves
    itself today, its call is still open and its time is not over. Who did it is sealed into records.dead.
    """
    click.echo(as_text(asyncio.run(replayed(settings, _parsed(position)))))


async def _newest(settings: Settings, limit: int) -> tuple[list[Envelope], int]:
    """The newest valid dead letters, oldest first, and how many there are. No more than these are held in memory."""
    newest: list[tuple[int, int, Envelope]] = []
    count = 0
    async with connected(settings) as (base, bus):
        async for envelope in letters(base, bus):
            count += 1
            heapq.heappush(newest, (envelope.time_ms, count, envelope))
            if len(newest) > limit:
                heapq.heappop(newest)
    return [envelope for _, _, envelope in sorted(newest)], count


async def _one(settings: Settings, place: Position) -> Envelope:
    async with connected(settings) as (_, bus):
        return await letter_at(bus, place)


def _parsed(position: str) -> Position:
    where = _POSITION.fullmatch(position)
    if where is None:
        raise Fault(f"{position!r} is no position; `fourgates dead list` prints them, such as 3/17.")
    return Position(RECORDS_DEAD, int(where[1]), int(where[2]))


def dump(data: bytes) -> Iterator[str]:
    """Offset, hexadecimal and text of each sixteen bytes."""
    for start in range(0, len(data), _ROW_BYTES):
        row = data[start : start + _ROW_BYTES]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{start:06x}  {row.hex(' '):<{_ROW_BYTES * 3 - 1}}  {text}"


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
