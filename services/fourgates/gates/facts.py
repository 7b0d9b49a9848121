"""One tool's facts in one process: no more providers at once than the contract says, however many calls come."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from fourgates.catalog import Tool
from fourgates.catalog.calling import is_async
from fourgates.contract.codes import Code
from fourgates.contract.parts import Principal
from fourgates.gates.business import gather_facts
from fourgates.gates.refusal import Refusal


class Facts:
    """Asks the tool's provider for each look at a call. Waiting for room counts as part of the provider's time."""

    def __init__(self, tool: Tool) -> None:
        self._tool, self._room = tool, asyncio.Semaphore(tool.facts_at_once)

    async def gather(self, landed: Any, principal: Principal) -> dict[str, Any] | Refusal:
        """The facts, or `unavailable`: a provider that is slow, fails, or is so busy that there is no room is never a pass."""
        tool = self._tool
        if tool.facts is None:
            return {}
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(tool.facts_timeout.total_seconds()):
                await self._room.acquire()
        except TimeoutError:
            return Refusal(Code.UNAVAILABLE, "facts_busy", detail={"at_once": tool.facts_at_once})
        if is_async(tool.facts):
            try:
                return await gather_facts(tool, landed, principal, loop.time() - began)
            finally:
                self._room.release()
        # A thread cannot be stopped: its place is taken until it really ends, or a slow database would get ever more of them.
        return await gather_facts(self._releasing(loop), landed, principal, loop.time() - began)

    def _releasing(self, loop: asyncio.AbstractEventLoop) -> Tool:
        provider = self._tool.facts
        assert provider is not None

        def facts(args: Any, principal: Principal) -> Any:
            try:
                return provider(args, principal)
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._room.release)

        return dataclasses.replace(self._tool, facts=facts)
