"""The `fourgates up` that holds a home: where it put broker, approver and audit door, so that other commands find them.

The file is locked as long as that process lives, whatever ends it; one that nobody locks says nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fourgates.contract.errors import ConfigurationError

_FILE = "up.json"


def standing_settings(home: Path) -> dict[str, Any]:
    """What the `up` of this home has chosen, by setting; nothing where none runs."""
    try:
        with (home / _FILE).open(encoding="utf-8") as file:
            if _locked(file.fileno(), fcntl.LOCK_SH):
                return {}
            found = json.loads(file.read() or "{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class Standing:
    """This process's hold on a home."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def tell(self, settings: Mapping[str, str]) -> None:
        """Writes what was chosen, for the other commands."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(dict(settings), indent=1).encode(), 0)


@contextmanager
def hold(home: Path) -> Iterator[Standing]:
    """Holds the home until the block ends. Raises ConfigurationError where another `up` does."""
    home.mkdir(parents=True, exist_ok=True)
    handle = os.open(home / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(handle, fcntl.LOCK_EX):
            raise ConfigurationError(f"FOURGATES_HOME: `fourgates up` runs in {home} already; end it, or name another folder.")
        os.ftruncate(handle, 0)
        try:
            yield Standing(handle)
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def _locked(handle: int, kind: int) -> bool:
    """Whether the lock could be taken at once."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
