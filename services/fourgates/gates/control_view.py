"""A process's view of `controls`: the whole topic from its beginning, known before anything is decided."""

from __future__ import annotations

from collections.abc import Callable

from fourgates.contract.ports import Envelope, Following, Log
from fourgates.contract.topology import CONTROLS
from fourgates.gates.controls import ControlFold, Whose
from fourgates.gates.refusal import Refusal


class ControlView:
    """Follows the topic. Every stage that refuses by it refuses alike; `told` is called whenever something was said."""

    def __init__(self, log: Log, told: Callable[[], None] = lambda: None) -> None:
        self._log, self._told = log, told
        self._fold = ControlFold()
        self._following: Following | None = None

    async def start(self) -> None:
        """Returns once everything that had been said is known."""
        self._fold = ControlFold()
        self._following = await self._log.follow(CONTROLS, self._take)
        await self._following.reached_end()

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
            self._following = None

    def _take(self, envelope: Envelope) -> None:
        self._fold.apply(envelope)
        self._told()

    def barred(self, tool: str, who: Whose, run_id: str) -> Refusal | None:
        """Why such a call may not go on now. Raises RuntimeError where the view was not started: it would let all pass."""
        if self._following is None:
            raise RuntimeError("the view of the controls was not started")
        return self._fold.barred(tool, who, run_id)
