"""One status line for each process: kept up to date in place on a terminal, one line for each change elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fourgates.approval.visible import as_text
from fourgates.runtime.supervisor import Condition, Watched

_STYLES = {Condition.READY: "green", Condition.FAILED: "bold red", Condition.RESTARTING: "yellow", Condition.ENDED: "dim"}


class Board:
    """Shows what the supervisor tells, and remembers the first process that was refused for good."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, Watched] = {}
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._refused: asyncio.Future[Watched] = asyncio.get_running_loop().create_future()

    def shown(self) -> AbstractContextManager[object]:
        """The lines are on the screen until the block ends."""
        return self._live or nullcontext()

    def changed(self, watched: Watched) -> None:
        """What the supervisor calls."""
        self._rows[watched.spec.name] = watched
        if watched.condition is Condition.FAILED and not self._refused.done():
            self._refused.set_result(watched)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        else:
            self._console.print(Text(f"{watched.spec.name}: {_state(watched)}"), soft_wrap=True)

    def say(self, line: str) -> None:
        """A line of the command's own, above the status lines."""
        self._console.print(Text(line), soft_wrap=True)

    async def refused(self) -> str:
        """Returns once a process cannot be started again, with the sentence that says why."""
        watched = await self._refused
        return f"{watched.spec.name} was refused (log: {watched.log}): {watched.last_words()}"

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, watched in self._rows.items():
            table.add_row(Text(name, style="bold"), Text(_state(watched), style=_STYLES.get(watched.condition, "")))
        return table


def _state(watched: Watched) -> str:
    said = watched.condition.value
    if watched.condition in (Condition.RESTARTING, Condition.FAILED):
        said += f" (exit {watched.last_exit}: {as_text(watched.last_words())[:160]})"
    elif watched.condition is Condition.READY and watched.pid is not None:
        said += f" (process {watched.pid})"
    return said + (f", {watched.restarts} restarts" if watched.restarts else "")
