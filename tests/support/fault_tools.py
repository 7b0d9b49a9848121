"""The toolbox, and tools whose results are larger than a disk may have room for. They write nothing to the downstream's file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field

from fourgates.catalog import Catalog, Committed, Effect, Probed, ProbeVerdict, ToolContext
from support.toolbox import VARIABLE, Arguments, make_catalog

LARGE = 3_000_000
"""Bytes of a large result; far more than what else a process writes to one file in a short life."""


class Archive(Arguments):
    name: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,30}$")]


def catalog() -> Catalog:
    """`--catalog support.fault_tools:catalog`."""
    folder = Path(os.environ[VARIABLE])
    made, archives = make_catalog(folder), folder / "archives"
    archives.mkdir(exist_ok=True)

    @made.tool(risk="read", timeout=5.0)
    async def export(args: Archive, ctx: ToolContext) -> str:
        """Exports an archive. Use it to read one; takes its name; changes nothing; returns all of it."""
        return ctx.key + "x" * LARGE  # bytes that no other call has stored

    async def probe(args: Archive, ctx: ToolContext) -> Probed:
        found = (archives / ctx.key).exists()
        return Probed(ProbeVerdict.COMMITTED, {"archived": args.name}) if found else Probed(ProbeVerdict.UNKNOWN)

    @made.tool(risk="write", timeout=5.0, honours_key=True, probe=probe, effect=Effect("archive", ("{name}",)))
    async def archive(args: Archive, ctx: ToolContext) -> Committed:
        """Archives something. Use it once; takes its name; makes an archive; returns all that was archived."""
        (archives / ctx.key).touch()  # a second time it changes nothing
        return Committed(ctx.key + "x" * LARGE)

    return made
