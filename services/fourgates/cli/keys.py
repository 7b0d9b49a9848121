"""`fourgates keys`: the key files of an environment. No key is ever printed."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fourgates.cli.faults import Fault
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.key_rotation import rotated
from fourgates.runtime.keys import WRITERS, Keyring, new_development_content

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def keys() -> None:
    """Make key files."""


@keys.command()
@click.argument("file", type=_FILE)
def create(file: Path) -> None:
    """Writes all keys of a new environment into FILE, readable by its owner only.

    They are new, and whoever has them can speak for every process. Name the file in FOURGATES_KEYS_FILE of each.
    """
    content = new_development_content()
    del content["issuer"]  # outside development nobody may sign tokens with a key that lies beside the others
    _write(file, content)
    click.echo(f"{file}: the keys of a new environment; keep it secret, and keep it: without it no record can be checked")


@keys.command()
@click.argument("file", type=_FILE)
@click.argument("host_file", type=_FILE)
def host(file: Path, host_file: Path) -> None:
    """Writes what an agent's host needs of the environment's FILE into HOST_FILE.

    With it a host can ask for calls and check their answers, and can speak for no process but the sanitizer, whose seal is
    a shared secret.
    """
    _write(host_file, Keyring.from_file(file).host_part())
    click.echo(f"{host_file}: a host's part of {file}, for FOURGATES_KEYS_FILE of the SDK")


@keys.command()
@click.argument("file", type=_FILE)
@click.argument("writer", type=click.Choice((*WRITERS, "approver")))
@click.argument("new_file", type=_FILE)
@click.option("--hours", type=click.IntRange(min=0), default=24, show_default=True, help="How long the old key still counts.")
def rotate(file: Path, writer: str, new_file: Path, hours: int) -> None:
    """Gives WRITER a new key: NEW_FILE is FILE with it, and with an end for the old one.

    Start every other process with NEW_FILE first, then WRITER itself, all before the old key's end. What the old key sealed
    until then counts as long as the log is kept; what is appended with it later counts for nothing.
    """
    Keyring.from_file(file)  # says what is wrong with it
    ends_ms = SystemClock().now_ms() + hours * 3_600_000
    _write(new_file, rotated(json.loads(file.read_text(encoding="utf-8")), writer, ends_ms))
    ends = datetime.fromtimestamp(ends_ms / 1000, UTC)
    click.echo(f"{new_file}: a new key for {writer}; the old one counts until {ends:%Y-%m-%d %H:%M:%S} UTC")


def _write(file: Path, content: dict[str, Any]) -> None:
    """A new file of mode 0600; one that exists is never overwritten, for its keys would be lost."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Fault(f"{file} exists; it is not overwritten. Name another file, or move it away.") from None
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(content, out, indent=1)
        out.write("\n")
