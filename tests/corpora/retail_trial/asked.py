"""Asking for one call as a host does: until there is an answer, and again where it is transient."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fourgates.sdk import Answer, Run

LONGEST_S = 90.0
"""No call takes longer."""
_LOOK_S = 0.05
"""How long one look at a call lasts that may have to wait for people."""
_UNHEARD = "no_answer_yet"


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that a host asks for until there is an answer: what is transient is asked for again under the same id."""

    run: Run
    tool: str
    raw: str
    tool_call_id: str

    async def first(self) -> Answer:
        """A final answer, or that people have to decide."""
        async with asyncio.timeout(LONGEST_S):
            answer = await self._again(_LOOK_S)
            while answer.retryable:
                unheard = answer.reason == _UNHEARD
                answer = await (self.run.wait(answer.call_id, _LOOK_S) if unheard else self._again(_LOOK_S))
        return answer

    async def last(self, call_id: str) -> Answer:
        """The final answer, after people have decided."""
        async with asyncio.timeout(LONGEST_S):
            answer = await self.run.wait(call_id, LONGEST_S)
            while not answer.final:
                again = answer.retryable and answer.reason != _UNHEARD
                answer = await (self._again(LONGEST_S) if again else self.run.wait(call_id, LONGEST_S))
        return answer

    async def _again(self, wait_s: float) -> Answer:
        return await self.run.call(self.tool, self.raw, tool_call_id=self.tool_call_id, wait=wait_s)
