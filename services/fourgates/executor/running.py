"""Running a call: attempts within the claim, the budget and the lease, until there is an end or nobody can know."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from fourgates.catalog import ProbeVerdict, Tool, ToolContext
from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import ALL_ATTEMPTS, CallCleared, LedgerEntry
from fourgates.contract.parts import Call, Cause
from fourgates.executor.attempts import Attempt, Ended, probe, run_tool
from fourgates.executor.index import LedgerIndex, OpenClaim
from fourgates.executor.means import Means
from fourgates.executor.preflight import Preflight, Ready
from fourgates.gates.ledger import Phase
from fourgates.gates.refusal import Refusal
from fourgates.gates.retry import RetryLook, backoff, may_retry


@dataclass(slots=True)
class Job:
    """One cleared call on its way to its tool, and what came of its attempts so far."""

    cleared: CallCleared
    cause: Cause
    tool: Tool
    ready: Ready
    ends: float
    """Monotonic end of the budget."""
    started_ms: int
    tries: list[dict[str, Any]] = field(default_factory=list)
    """Each attempt, for the audit."""
    asserted: int = 0
    """Attempts of which it is certain that nothing happened."""

    @property
    def call(self) -> Call:
        return self.cleared.call

    def note(self, done: Attempt, took_ms: int) -> None:
        """An attempt has ended."""
        self.asserted += done.ended is Ended.NOT_EXECUTED
        self.tries.append({"ended": done.ended.value, "reason": done.reason, "ms": took_ms})


class Runner:
    """Runs claimed writes and unclaimed reads to their last word."""

    def __init__(self, index: LedgerIndex, look: Preflight, means: Means) -> None:
        self._index, self._look, self._m = index, look, means
        self._rng = random.Random()  # noqa: S311 - spreads load, guards nothing

    async def read(self, job: Job) -> LedgerEntry:
        """A read claims nothing: its first Finished in the ledger answers. A transient end is told and is not final."""
        with self._index.reading(job.call.call_id) as ended:
            return await self._read(job, ended)

    async def _read(self, job: Job, ended: asyncio.Event) -> LedgerEntry:
        while True:
            if (no := self._look.controls(job.call) or self._look.deadline(job.call, job.ends)) is not None:
                return self._m.words.refused(job.call, job.cause, no)
            done = await self._attempt(job, -1, ended)
            if done.ended is Ended.COMMITTED:
                return await self._committed(job, done, "")
            if not await self._again(job, done, stopped=ended.is_set()):
                break
        if not CODES[done.code].final:
            return self._m.words.refused(job.call, job.cause, _told(job, done))
        return self._finished(job, done, "", "failed")

    async def write(self, job: Job, claim: OpenClaim) -> LedgerEntry:
        """A claimed write: its last word, or InDoubt where neither sending again nor the probe could tell."""
        m, claim_id, done, no = self._m, claim.entry.claim_id, None, self._last_look(job, claim)
        while no is None:
            attempt_id = ids.random_id()
            await m.publisher.publish(m.words.attempted(job.call, claim_id, attempt_id, "holder"))
            if (no := self._last_look(job, claim)) is not None:  # the acknowledgement may have come after the lease's end
                job.note(NOT_SENT, 0)
                break
            await m.hit("executor.attempted", job.call.call_id)
            done = await self._attempt(job, claim.fence, claim.stop)
            await m.hit("executor.ran", job.call.call_id)
            if done.ended is Ended.COMMITTED:
                return await self._committed(job, done, claim_id)
            if not await self._again(job, done, stopped=claim.stop.is_set()):
                break
            no = self._last_look(job, claim)
        if job.asserted == len(job.tries):
            return self._nothing_ran(job, done, no, claim_id)
        return await self._doubted(job, done or NOT_SENT, claim)

    def _last_look(self, job: Job, claim: OpenClaim) -> Refusal | None:
        """Right before a send: the claim stands, its lease runs, nobody wants it stopped or switched off, there is time."""
        state = self._index.state(job.call.call_id)
        if state.stop:
            return Refusal(Code.CANCELLED, "stop")
        mine = state.phase is Phase.CLAIMED and state.claim_id == claim.entry.claim_id
        if not mine or claim.lease_over(self._m.clock.monotonic()):
            return Refusal(Code.UNAVAILABLE, "claim_over")
        return self._look.controls(job.call) or self._look.deadline(job.call, job.ends)

    async def _attempt(self, job: Job, fence: int, stop: asyncio.Event) -> Attempt:
        """The tool, within its own time and what is left of the budget."""
        begun = self._m.clock.monotonic()
        timeout = min(job.tool.timeout.total_seconds(), max(0.0, job.ends - begun))
        context = self._context(job, fence, timeout, len(job.tries) + 1)
        done = await run_tool(job.tool, job.ready.landed, context, timeout, stop)
        job.note(done, round((self._m.clock.monotonic() - begun) * 1000))
        return done

    async def _again(self, job: Job, done: Attempt, *, stopped: bool) -> bool:
        """Whether another attempt is allowed; returns after the wait before it."""
        clock, s, until = self._m.clock, self._m.settings, job.cleared.approved_until_ms
        wait = backoff(
            len(job.tries), base_s=s.retry_base, cap_s=s.retry_cap, retry_after_s=done.retry_after_s, rng=self._rng
        )  # fmt: skip
        look = RetryLook(
            transient=done.retryable, read=not job.tool.writes, key_honoured=job.tool.honours_key,
            budget_left=clock.monotonic() + wait < job.ends,
            approval_valid=until is None or clock.now_ms() + wait * 1000 < until,
            cancelled=stopped, attempts_left=len(job.tries) < s.max_attempts,
        )  # fmt: skip
        if not may_retry(look):
            return False
        job.tries[-1]["waited_ms"] = round(wait * 1000)
        await clock.sleep(wait)
        return True

    def _nothing_ran(self, job: Job, done: Attempt | None, no: Refusal | None, claim_id: str) -> LedgerEntry:
        """No attempt, or each asserts that nothing happened: refused, failed, or released where asking again may help."""
        call, cause, words, count = job.call, job.cause, self._m.words, len(job.tries)
        if self._index.state(call.call_id).stop:
            return words.released(call, cause, claim_id, count)  # the fold makes it cancelled
        if done is not None and (no is None or not CODES[no.code].final):
            no = _told(job, done)
            if CODES[no.code].final:
                return self._finished(job, done, claim_id, "failed", vouches=count)
        no = no or Refusal(Code.UNAVAILABLE, "claim_over")
        if CODES[no.code].final:
            return words.refused(call, cause, no, claim_id, vouches=count)
        return words.released(call, cause, claim_id, count, no)

    async def _doubted(self, job: Job, done: Attempt, claim: OpenClaim) -> LedgerEntry:
        """Some attempt may have happened: the probe is asked once; what it does not know is in doubt."""
        timeout, claim_id = job.tool.facts_timeout.total_seconds(), claim.entry.claim_id
        answer = await probe(job.tool, job.ready.landed, self._context(job, claim.fence, timeout, 0), timeout)
        if answer.verdict is ProbeVerdict.COMMITTED:
            return await self._committed(job, Attempt(Ended.COMMITTED, answer.content, dict(answer.state_change)), claim_id)
        if answer.verdict is ProbeVerdict.NEVER:
            return self._finished(job, NEVER, claim_id, "failed", vouches=ALL_ATTEMPTS)
        return self._m.words.in_doubt(job.call, job.cause, claim_id, done.reason, {"attempts": job.tries})

    def _context(self, job: Job, fence: int, timeout: float, attempt: int) -> ToolContext:
        return ToolContext(
            key=job.call.call_id, fence=fence, deadline_ms=self._m.clock.now_ms() + int(timeout * 1000),
            principal=job.call.principal, precondition=job.ready.facts, attempt=attempt, run_id=job.call.run_id,
        )  # fmt: skip

    async def _committed(self, job: Job, done: Attempt, claim_id: str) -> LedgerEntry:
        box = await self._m.boxes.box(job.call, done.content)
        return self._finished(job, done, claim_id, "committed", result=box)

    def _finished(self, job: Job, done: Attempt, claim_id: str, outcome: str, **more: Any) -> LedgerEntry:
        return self._m.words.finished(
            job.call, job.cause, done, claim_id=claim_id, outcome=outcome, started_ms=job.started_ms,
            duration_ms=self._m.clock.now_ms() - job.started_ms, detail={"attempts": job.tries}, **more,
        )  # fmt: skip


def _told(job: Job, done: Attempt) -> Refusal:
    return Refusal(done.code, done.reason, sentence=done.sentence, detail={"attempts": job.tries})


NOT_SENT = Attempt(Ended.NOT_EXECUTED, code=Code.UNAVAILABLE, reason="not_sent")
"""An attempt that was announced and not made: the claim, its lease, the time or the caller's wish had ended meanwhile."""
NEVER = Attempt(Ended.NOT_EXECUTED, code=Code.TOOL_FAILED, reason="never_applied")
"""What a probe's `never` makes of a call: it did not happen, and now it cannot."""
