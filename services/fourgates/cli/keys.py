"""`fourgates keys`: the key files of an environment. No key is ever printed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from fourgates.cli.faults import Fault
from fourgates.runtime.keys import Keyring, new_development_content

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


def _write(file: Path, content: dict[str, Any]) -> None:
    """A new file of mode 0600; one that exists is never overwritten, for its keys would be lost."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Fault(f"{file} exists; it is not overwritten. Name another file, or move it away.") from None
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(content, out, indent=1)
        out.write("\n")
