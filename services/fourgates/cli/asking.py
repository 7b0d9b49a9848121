"""What the commands share that ask the audit over its query door."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import click

from fourgates.audit.client import DoorClient
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.options import with_settings
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.world import Base

_CALL_ID_CHARS = 64
_BEGINNING = "SELECT DISTINCT call_id FROM fourgates.call_rollup WHERE startsWith(call_id, {beginning:String}) LIMIT 2"
"""Of the roll-up, which lies in the order of the ids: the records do not."""


def door_of(settings: Settings) -> DoorClient:
    """The audit's query door of these settings, with the token of its key file."""
    url = Address.parse(f"{PREFIX}AUDIT_DOOR", settings.audit_door).url
    return DoorClient(url, Base(settings).keyring.door_token())


def with_door(command: Callable[..., None]) -> Callable[..., None]:
    """Opens the audit's query door for the command."""

    @with_settings
    @functools.wraps(command)
    def opened(settings: Settings, **options: Any) -> None:
        with door_of(settings) as door:
            command(door, **options)

    return opened


def whole_call_id(door: DoorClient, beginning: str) -> str:
    """The id of the one call that begins so; `beginning` itself where there is none. Raises Fault where there are several."""
    if len(beginning) >= _CALL_ID_CHARS:
        return beginning
    found = [str(row["call_id"]) for row in door(_BEGINNING, {"beginning": beginning})]
    if len(found) > 1:
        raise Fault(f"Several calls begin with {beginning!r}; give more of the id.", BROKEN)
    return found[0] if found else beginning


def print_json(content: Any) -> None:
    """For programs."""
    click.echo(json.dumps(content, ensure_ascii=False, indent=1))
