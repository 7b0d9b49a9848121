"""What runs on this machine, by /proc."""

from __future__ import annotations

import os
from pathlib import Path


def processes_with(mark: str) -> list[int]:
    """Every other process whose command line holds the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
    return found
