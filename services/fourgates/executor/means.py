"""What every part of one executor works with."""

from __future__ import annotations

from dataclasses import dataclass

from fourgates.contract.ports import Clock, Failpoints, Publisher
from fourgates.executor.results import ResultBoxes
from fourgates.executor.settings import ExecutorSettings
from fourgates.executor.words import Words


@dataclass(frozen=True, slots=True)
class Means:
    """Appends, tells the time, writes entries and boxes results, as the operator has set it."""

    publisher: Publisher
    clock: Clock
    words: Words
    boxes: ResultBoxes
    settings: ExecutorSettings
    failpoints: Failpoints | None = None

    async def hit(self, name: str, call_id: str) -> None:
        """A named point where a test may stop the process."""
        if self.failpoints is not None:
            await self.failpoints.hit(name, call_id)
