"""Finding out about a call in doubt: the same key again where it is honoured, the probe until its settle time, then people."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import structlog

from fourgates.catalog import ProbeVerdict, Tool, ToolContext
from fourgates.contract import ids
from fourgates.contract.events import ALL_ATTEMPTS, LedgerEntry
from fourgates.contract.parts import Call
from fourgates.executor.attempts import Attempt, Ended, probe, run_tool
from fourgates.executor.effects_view import EffectsView
from fourgates.executor.index import LedgerIndex, OpenClaim
from fourgates.executor.means import Means
from fourgates.executor.preflight import Preflight
from fourgates.executor.rooms import Rooms
from fourgates.executor.running import NEVER
from fourgates.gates.ledger import Phase
from fourgates.gates.refusal import Refusal
from fourgates.gates.retry import RetryLook, backoff, may_retry

NOTHING: Mapping[str, Any] = MappingProxyType({})
_log = structlog.get_logger("fourgates.executor")


class Recovery:
    """What the owner of a partition owes every claim in doubt there. One task a claim; a crash in between heals."""

    def __init__(self, index: LedgerIndex, effects: EffectsView, look: Preflight, rooms: Rooms, means: Means) -> None:
        self._index, self._effects, self._look, self._rooms, self._m = index, effects, look, rooms, means
        self._clock, self._settings = means.clock, means.settings
        self._rng = random.Random()  # noqa: S311 - spreads load, guards nothing
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._asked: dict[str, int] = {}

    def under_way(self, claim_id: str) -> bool:
        return claim_id in self._tasks

    def ensure(self, claim: OpenClaim) -> None:
        """Starts finding out, unless that is under way or people have been asked about as many attempts as there are."""
        claim_id = claim.entry.claim_id
        attempts = len(self._index.state(claim.entry.call_id).attempts)
        if claim_id in self._tasks or self._asked.get(claim_id) == attempts:
            return
        task = asyncio.create_task(self._find_out(claim))
        self._tasks[claim_id] = task
        task.add_done_callback(lambda done: self._ended(claim_id, done))

    def _ended(self, claim_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(claim_id, None)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.warning("finding out failed, is tried again", claim=claim_id, fault=type(fault).__name__)

    async def stop(self) -> None:
        """Ends all tasks; the next owner begins anew."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._asked.clear()

    async def _find_out(self, claim: OpenClaim) -> None:
        call = claim.entry.call
        if call is None:
            raise ValueError("a Claimed entry carries its call")
        tool = self._look.version(call)
        settled_ms = self._clock.now_ms()
        if not isinstance(tool, Refusal):  # another version could reach, and ask, somebody else than the first send did
            landed = tool.land(json.loads(call.arguments))
            last = await self._send_again(claim, call, tool, landed)
            settled_ms = self._clock.now_ms() + int(tool.settle.total_seconds() * 1000)  # what was sent last may land so late
            last = last or await self._probe(claim, call, tool, landed, settled_ms)
            if last is not None:
                await self._index.append(last)
                return
        await self._ask_people(claim, settled_ms)

    def _in_doubt(self, claim: OpenClaim) -> bool:
        state = self._index.state(claim.entry.call_id)
        return state.phase is Phase.IN_DOUBT and state.claim_id == claim.entry.claim_id

    async def _send_again(self, claim: OpenClaim, call: Call, tool: Tool, landed: Any) -> LedgerEntry | None:
        """Only where the key is honoured, only in doubt, only while `effects` shows the key held by this claim."""
        attempt, s = 0, self._settings
        asserted: set[str] = set()
        while may_retry(self._may_send_again(claim, tool, attempt)):
            attempt += 1
            async with self._rooms.room(tool, call.principal.tenant):
                done = await self._one_more(claim, call, tool, landed, attempt, asserted)
            if not isinstance(done, Attempt):
                return done
            await self._clock.sleep(
                backoff(attempt, base_s=s.retry_base, cap_s=s.retry_cap, retry_after_s=done.retry_after_s, rng=self._rng)
            )
        return None

    async def _one_more(
        self, claim: OpenClaim, call: Call, tool: Tool, landed: Any, number: int, asserted: set[str]
    ) -> Attempt | LedgerEntry | None:
        """One send and how it ended; the last word where that is one; None where nothing may be sent any more."""
        claim_id = claim.entry.claim_id
        if not self._in_doubt(claim) or self._look.controls(call):
            return None
        ready = await self._look.rules(tool, call, landed, json.loads(call.arguments))
        if isinstance(ready, Refusal):  # the first send may be why, or something else that now forbids it
            return None
        if not self._effects.holds(call.effect_key, call.call_id, claim.fence):
            return None
        attempt_id = ids.random_id()
        await self._index.append(self._m.words.attempted(call, claim_id, attempt_id, "recoverer"))
        if not self._in_doubt(claim) or attempt_id not in self._index.state(call.call_id).attempts:
            return None
        timeout, started = tool.timeout.total_seconds(), self._clock.now_ms()
        done = await run_tool(tool, landed, self._context(claim, call, timeout, number, ready.facts), timeout, claim.stop)
        if done.ended is Ended.COMMITTED:
            return await self._committed(claim, call, done, started)
        if done.ended is Ended.NOT_EXECUTED:
            asserted.add(attempt_id)
            if not done.retryable and asserted >= self._index.state(call.call_id).attempts:
                return self._m.words.finished(
                    call, None, done, claim_id=claim_id, outcome="failed", vouches=len(asserted), started_ms=started
                )
        return done

    def _may_send_again(self, claim: OpenClaim, tool: Tool, attempts: int) -> RetryLook:
        """The same conditions as for any retry. The call's own budget is over by now: it bounded the sends that were for the
        caller, this one is to find out."""
        until = claim.entry.approved_until_ms
        return RetryLook(
            transient=True, read=False, key_honoured=tool.honours_key, budget_left=True,
            approval_valid=until is None or self._clock.now_ms() < until, cancelled=claim.stop.is_set(),
            attempts_left=attempts < self._settings.max_attempts,
        )  # fmt: skip

    async def _probe(self, claim: OpenClaim, call: Call, tool: Tool, landed: Any, settled_ms: int) -> LedgerEntry | None:
        """Asks until it is known, or until an attempt can no longer be on its way and it is still not known."""
        timeout = tool.facts_timeout.total_seconds()
        while tool.probe is not None and self._in_doubt(claim):
            answer = await probe(tool, landed, self._context(claim, call, timeout, 0), timeout)
            if answer.verdict is ProbeVerdict.COMMITTED:
                found = Attempt(Ended.COMMITTED, answer.content, dict(answer.state_change))
                return await self._committed(claim, call, found, self._clock.now_ms())
            if answer.verdict is ProbeVerdict.NEVER:
                return self._m.words.finished(
                    call, None, NEVER, claim_id=claim.entry.claim_id, outcome="failed", vouches=ALL_ATTEMPTS
                )
            if self._clock.now_ms() >= settled_ms:
                return None
            await self._clock.sleep(self._settings.probe_every)
        return None

    async def _committed(self, claim: OpenClaim, call: Call, done: Attempt, started: int) -> LedgerEntry:
        return self._m.words.finished(
            call, None, done, claim_id=claim.entry.claim_id, outcome="committed",
            result=await self._m.boxes.box(call, done.content), started_ms=started,
            duration_ms=self._clock.now_ms() - started,
        )  # fmt: skip

    def _context(
        self, claim: OpenClaim, call: Call, timeout: float, attempt: int, facts: Mapping[str, Any] = NOTHING
    ) -> ToolContext:  # fmt: skip
        return ToolContext(
            key=call.call_id, fence=claim.fence, deadline_ms=self._clock.now_ms() + int(timeout * 1000),
            principal=call.principal, precondition=facts, attempt=attempt, run_id=call.run_id,
        )  # fmt: skip

    async def _ask_people(self, claim: OpenClaim, not_before_ms: int) -> None:
        if not self._in_doubt(claim):
            return
        attempts = len(self._index.state(claim.entry.call_id).attempts)
        await self._m.publisher.publish(self.held(claim, attempts, not_before_ms))
        self._asked[claim.entry.claim_id] = attempts

    def held(self, claim: OpenClaim, attempts: int, not_before_ms: int) -> Any:
        """The question to people; the same claim with the same attempts is the same hold."""
        return self._m.words.held_in_doubt(claim.entry, attempts, "outcome_unknown", not_before_ms, self._settings.hold_group)
