"""Running a call: attempts within the claim, the budget and the lease, until there is an end or nobody can know."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from fourgates.catalog import ProbeVerdict, Tool, ToolContext
from fourgates.contract import ids
from fourgates.contract.codes import CODES, Code
from fourgates.contract.events import ALL_ATTEMPTS, CallCleared, LedgerEntry
from fourgates.contract.parts import Call, Cause
from fourgates.contract.ports import Clock, Failpoints, Publisher
from fourgates.executor.attempts import Attempt, Ended, probe, run_tool
from fourgates.executor.index import LedgerIndex, OpenClaim
from fourgates.executor.preflight import Ready
from fourgates.executor.results import ResultBoxes
from fourgates.executor.settings import ExecutorSettings
from fourgates.executor.words import Words
from fourgates.gates.ledger import Phase
from fourgates.gates.refusal import Refusal
from fourgates.gates.retry import RetryLook, backoff, may_retry


@dataclass(frozen=True, slots=True)
class Job:
    """One cleared call on its way to its tool."""

    cleared: CallCleared
    cause: Cause
    tool: Tool
    ready: Ready
    ends: float
    """Monotonic end of the budget."""
    controls: Callable[[Call], Refusal | None]
    """Whether the call was switched off meanwhile: looked at right before each attempt."""

    @property
    def call(self) -> Call:
        return self.cleared.call

    def barred(self) -> Refusal | None:
        return self.controls(self.call)


class Runner:
    """Runs claimed writes and unclaimed reads to their last word."""

    def __init__(
        self, index: LedgerIndex, publisher: Publisher, boxes: ResultBoxes, words: Words, clock: Clock, settings: ExecutorSettings
    ) -> None:
        self._index, self._publisher, self._boxes, self._words = index, publisher, boxes, words
        self._clock, self._settings = clock, settings
        self._rng = random.Random()  # noqa: S311 - spreads load, guards nothing
        self.failpoints: Failpoints | None = None

    def context(self, job: Job, fence: int, timeout: float, attempt: int) -> ToolContext:
        return ToolContext(
            key=job.call.call_id, fence=fence, deadline_ms=self._clock.now_ms() + int(timeout * 1000),
            principal=job.call.principal, precondition=job.ready.facts, attempt=attempt,
        )  # fmt: skip

    async def read(self, job: Job) -> LedgerEntry:
        """A read claims nothing: its first Finished in the ledger answers. A transient end is told and is not final."""
        started, attempt = self._clock.now_ms(), 0
        while True:
            if barred := job.barred():
                return self._words.refused(job.call, job.cause, barred)
            attempt += 1
            timeout = min(job.tool.timeout.total_seconds(), max(0.0, job.ends - self._clock.monotonic()))
            done = await run_tool(job.tool, job.ready.landed, self.context(job, -1, timeout, attempt), timeout, None)
            if done.ended is Ended.COMMITTED:
                return await self._committed(job, done, "", started)
            if not await self._again(job, done, attempt, stopped=False):
                break
        if not CODES[done.code].final:
            return self._words.refused(job.call, job.cause, Refusal(done.code, done.reason, sentence=done.sentence))
        return self._words.finished(
            job.call, job.cause, done, outcome="failed", started_ms=started, duration_ms=self._clock.now_ms() - started
        )

    async def write(self, job: Job, claim: OpenClaim) -> LedgerEntry:
        """A claimed write: its last word, or InDoubt where neither sending again nor the probe could tell."""
        claim_id, started, attempts, vouched = claim.entry.claim_id, self._clock.now_ms(), 0, 0
        done, barred = _NOT_SENT, None
        while self._may_send(job.call, claim):
            if (barred := job.barred()) is not None:
                break
            attempts += 1
            attempt_id = ids.random_id()
            await self._publisher.publish(self._words.attempted(job.call, claim_id, attempt_id, "holder"))
            if not self._may_send(job.call, claim):  # the acknowledgement may have come later than the lease's end
                done, vouched = _NOT_SENT, vouched + 1
                break
            await self._hit("executor.attempted", job)
            timeout = max(0.0, min(job.tool.timeout.total_seconds(), job.ends - self._clock.monotonic()))
            context = self.context(job, claim.fence, timeout, attempts)
            done = await run_tool(job.tool, job.ready.landed, context, timeout, claim.stop)
            await self._hit("executor.ran", job)
            if done.ended is Ended.COMMITTED:
                return await self._committed(job, done, claim_id, started)
            vouched += done.ended is Ended.NOT_EXECUTED
            if not await self._again(job, done, attempts, stopped=claim.stop.is_set()):
                break
        if vouched == attempts:
            if barred is not None:
                return self._words.refused(job.call, job.cause, barred, claim_id, vouches=attempts)
            return self._nothing_ran(job, done, claim_id, attempts, started)
        return await self._doubted(job, done, claim, started)

    def _may_send(self, call: Call, claim: OpenClaim) -> bool:
        """Own claim still stands as claimed, nobody asked to stop, own lease not over."""
        state = self._index.state(call.call_id)
        mine = state.phase is Phase.CLAIMED and state.claim_id == claim.entry.claim_id
        return mine and not state.stop and not claim.lease_over(self._clock.monotonic())

    async def _again(self, job: Job, done: Attempt, attempt: int, *, stopped: bool) -> bool:
        """Whether another attempt is allowed; returns after the wait before it."""
        until = job.cleared.approved_until_ms
        look = RetryLook(
            transient=done.retryable,
            read=not job.tool.writes,
            key_honoured=job.tool.honours_key,
            budget_left=self._clock.monotonic() < job.ends,
            approval_valid=until is None or self._clock.now_ms() < until,
            cancelled=stopped,
            attempts_left=attempt < self._settings.max_attempts,
        )
        if not may_retry(look):
            return False
        s = self._settings
        wait = backoff(attempt, base_s=s.retry_base, cap_s=s.retry_cap, retry_after_s=None, rng=self._rng)
        await self._clock.sleep(min(wait, max(0.0, job.ends - self._clock.monotonic())))
        return self._clock.monotonic() < job.ends

    def _nothing_ran(self, job: Job, done: Attempt, claim_id: str, attempts: int, started: int) -> LedgerEntry:
        """Every attempt asserted that nothing happened: released where asking again may help, else failed."""
        call, cause = job.call, job.cause
        if self._index.state(call.call_id).stop:
            return self._words.released(call, cause, claim_id, attempts)
        if not CODES[done.code].final:
            told = Refusal(done.code, done.reason, sentence=done.sentence)
            return self._words.released(call, cause, claim_id, attempts, told)
        return self._words.finished(
            call, cause, done, claim_id=claim_id, outcome="failed", vouches=attempts, started_ms=started,
            duration_ms=self._clock.now_ms() - started,
        )  # fmt: skip

    async def _doubted(self, job: Job, done: Attempt, claim: OpenClaim, started: int) -> LedgerEntry:
        """Some attempt may have happened: the probe is asked once; what it does not know is in doubt."""
        timeout = job.tool.facts_timeout.total_seconds()
        answer = await probe(job.tool, job.ready.landed, self.context(job, claim.fence, timeout, 0), timeout)
        if answer.verdict is ProbeVerdict.COMMITTED:
            found = Attempt(Ended.COMMITTED, answer.content, dict(answer.state_change))
            return await self._committed(job, found, claim.entry.claim_id, started)
        if answer.verdict is ProbeVerdict.NEVER:
            return self._words.finished(
                job.call, job.cause, never(), claim_id=claim.entry.claim_id, outcome="failed", vouches=ALL_ATTEMPTS,
                started_ms=started, duration_ms=self._clock.now_ms() - started,
            )  # fmt: skip
        return self._words.in_doubt(job.call, job.cause, claim.entry.claim_id, done.reason)

    async def _committed(self, job: Job, done: Attempt, claim_id: str, started: int) -> LedgerEntry:
        return self._words.finished(
            job.call, job.cause, done, claim_id=claim_id, outcome="committed",
            result=await self._boxes.box(job.call, done.content), started_ms=started,
            duration_ms=self._clock.now_ms() - started,
        )  # fmt: skip

    async def _hit(self, name: str, job: Job) -> None:
        if self.failpoints is not None:
            await self.failpoints.hit(name, job.call.call_id)


_NOT_SENT = Attempt(Ended.NOT_EXECUTED, code=Code.UNAVAILABLE, reason="claim_over")
"""The claim, its lease or the caller's wish ended before the tool was sent for: whoever waits is told, and may ask again."""


def never() -> Attempt:
    """What a probe's `never` makes of a call: it did not happen, and now it cannot."""
    return Attempt(Ended.NOT_EXECUTED, code=Code.TOOL_FAILED, reason="never_applied")
