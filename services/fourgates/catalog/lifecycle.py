"""Tools that live longer than a call (a connection, a server's process): started with the executor, closed with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from fourgates.contract.errors import ConfigurationError

from .catalog import Catalog


@runtime_checkable
class Started(Protocol):
    """A `run` or `probe` that must know before the first call whether it can work at all."""

    async def start(self) -> None:
        """Raises ConfigurationError where it may never run as it is configured (no sandbox). What is away for now is no fault.

        May be called again; also after `close`.
        """


@runtime_checkable
class Closed(Protocol):
    """A `run` or `probe` that holds something open."""

    async def close(self) -> None:
        """Ends what it holds. May be called again, and without `start`."""


async def start_tools(catalog: Catalog) -> None:
    """Starts what has to be started. Raises ConfigurationError naming the tool."""
    for name, part in _parts(catalog):
        if isinstance(part, Started):
            try:
                await part.start()
            except ConfigurationError as fault:
                raise ConfigurationError(f"tool {name!r}: {fault}") from fault


async def close_tools(catalog: Catalog) -> None:
    """Closes everything, also where one of them fails; then raises the first fault."""
    faults: list[Exception] = []
    for _, part in _parts(catalog):
        if isinstance(part, Closed):
            try:
                await part.close()
            except Exception as fault:
                faults.append(fault)
    if faults:
        raise faults[0]


def _parts(catalog: Catalog) -> Iterator[tuple[str, object]]:
    """Each once, with the first tool that has it: several may share one server."""
    seen: set[int] = set()
    for tool in catalog.served():
        for part in (tool.run, tool.probe, tool.facts, tool.preview):
            if part is not None and id(part) not in seen:
                seen.add(id(part))
                yield tool.name, part
