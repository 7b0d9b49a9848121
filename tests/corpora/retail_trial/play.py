"""Plays the tasks through the gates, each on a fresh store of a tenant of its own, with its mutants round every correct call."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

import httpx

from corpora.retail_shop.shop import AGENT, CONFIRMERS, CUSTOMERS, VISITORS
from corpora.retail_trial.asked import LONGEST_S, Asked
from corpora.retail_trial.breeding import Breeder
from corpora.retail_trial.counts import Counts
from corpora.retail_trial.judging import refused_otherwise, same_outcome, told_whole, unless
from corpora.retail_trial.mutants import Asker, Ending, Held, Mutant, Refused
from corpora.retail_trial.tasks import Data, Step, Task
from corpora.retail_trial.world import RetailWorld
from fourgates.contract.codes import Code
from fourgates.sdk import Answer, Run, RunStopped

_TROUBLE = (TimeoutError, RunStopped, httpx.HTTPError)
"""What may happen to one call without ending the measuring of the others."""
_VOID = (httpx.codes.FORBIDDEN, httpx.codes.CONFLICT)
"""How the approver's service answers a decision that does not count."""
_VISITOR = "visitor"
"""The account of whoever is not signed in."""
_AGAIN_S = 0.02
"""Between two looks at the approver's list: it is another process, and nothing of it can be awaited."""


async def play(world: RetailWorld, data: Data, breeder: Breeder, at_once: int) -> Counts:
    """Every task, `at_once` at the same time: their stores are not shared. What the stores say is counted when all are over."""
    counts, places = Counts(), asyncio.Semaphore(at_once)
    plays = [TaskPlay(world, task, f"task-{number}", breeder, counts) for number, task in enumerate(data.tasks)]

    async def one(each: TaskPlay) -> None:
        async with places:
            await each.play()

    async with asyncio.TaskGroup() as group:
        for each in plays:
            group.create_task(one(each))
    for each in plays:
        each.count_store()
    return counts


class TaskPlay:
    """One task: the customer's conversation, and everything that somebody tries beside it."""

    def __init__(self, world: RetailWorld, task: Task, tenant: str, breeder: Breeder, counts: Counts) -> None:
        self._world, self._task, self._tenant, self._breeder, self._counts = world, task, tenant, breeder, counts
        self._store = world.shops.open(tenant)
        self._runs: dict[Asker, Run] = {}
        self._confirmer = world.approver("counter", tenant, (CONFIRMERS,))
        self._mutants: set[str] = set()
        self._numbers = itertools.count()

    async def play(self) -> None:
        """Every correct call in its turn, its mutants before and after it."""
        async with self._confirmer:
            for step in self._task.steps:
                await self._try_all(self._breeder.before(self._task, step, self._store))
                await self._correct(step)
                await self._try_all(self._breeder.after(self._task, step, self._store))

    def count_store(self) -> None:
        """What the store has become, and whether a tool was entered for a call that was not to run."""
        counts, equal = self._counts, self._store.digest() == self._task.store_sha256
        counts.tasks += 1
        counts.stores_equal += equal
        entered = [key for key in self._store.entries() if key in self._mutants]
        counts.tool_entries_on_refused += len(entered)
        if not equal:
            counts.wrong.append(f"task {self._task.name}: the store is not the recorded one")
        if entered:
            counts.wrong.append(f"task {self._task.name}: a tool was entered for {len(entered)} refused calls")

    async def _correct(self, step: Step) -> None:
        """A correct call, whatever happens to it."""
        self._counts.calls += 1
        try:
            fault = await self._passed(step)
        except _TROUBLE as trouble:
            fault = f"it did not end: {type(trouble).__name__} {trouble}"
        if fault:
            self._counts.wrong.append(f"task {self._task.name}, call {step.number} of {step.tool}: {fault}")

    async def _passed(self, step: Step) -> str:
        """Where people have to confirm it, they do, over HTTP. What is wrong with its outcome; empty: nothing."""
        counts, raw = self._counts, json.dumps(dict(step.arguments), ensure_ascii=False)
        asked = Asked(self._run(Asker.CUSTOMER), step.tool, raw, f"correct-{step.number}")
        answer = await asked.first()
        if answer.code is Code.APPROVAL_PENDING:
            hold = await self._hold_of(answer.call_id)
            counts.held[hold["reason"]] += 1
            (await self._decide(hold, "approve", self._confirmer)).raise_for_status()
            answer = await asked.last(answer.call_id)
        outcome = await self._world.endings.of(answer.call_id)
        counts.told_whole += outcome.ok and told_whole(answer, outcome)
        if not same_outcome(outcome, step):
            said = f"{str(outcome.answer)[:200]!r} in place of {str(step.answer)[:200]!r}"
            return f"{answer.code.value} {answer.reason}, {said}"
        counts.outcomes_equal += 1
        return ""

    async def _try_all(self, mutants: list[Mutant]) -> None:
        async with asyncio.TaskGroup() as group:
            for each in mutants:
                group.create_task(self._try(each, f"mutant-{next(self._numbers)}"))

    async def _try(self, mutant: Mutant, tool_call_id: str) -> None:
        """A call that must not run, whatever happens to it."""
        counts = self._counts
        counts.mutants += 1
        counts.by_kind[mutant.kind] += 1
        try:
            fault = await self._stopped(mutant, tool_call_id)
        except _TROUBLE as trouble:
            fault = f"it did not end: {type(trouble).__name__} {trouble}"
        counts.mutants_refused += not fault
        if fault:
            counts.wrong.append(f"task {self._task.name}: {mutant.kind}, {mutant.tool} {mutant.raw}: {fault}")

    async def _stopped(self, mutant: Mutant, tool_call_id: str) -> str:
        """What is wrong with how it was stopped; empty: nothing."""
        asked, expects = Asked(self._run(mutant.asker), mutant.tool, mutant.raw, tool_call_id), mutant.expects
        self._mutants.add(self._world.call_id(asked.run.id, tool_call_id, self._account, self._tenant, _agent(mutant.asker)))
        answer = await asked.first()
        self._counts.answers[answer.code.value] += 1
        if isinstance(expects, Refused):
            return refused_otherwise(answer, expects)
        if answer.code is not Code.APPROVAL_PENDING:
            return f"{answer.code.value} {answer.reason} in place of a hold"
        return await self._held(asked, answer, expects)

    async def _held(self, asked: Asked, answer: Answer, expects: Held) -> str:
        """Plays the hold to its end; what is wrong with it, empty: nothing."""
        hold = await self._hold_of(answer.call_id)
        if hold["reason"] not in expects.reasons:
            return f"held for {hold['reason']}"
        match expects.ending:
            case Ending.DENIED:
                await self._decide(hold, "deny", self._confirmer)
                return unless(await asked.last(answer.call_id), Code.APPROVAL_DENIED)
            case Ending.OTHER_DETAILS:
                said = await self._decide(hold, "approve", self._confirmer, shown_digest="0" * 64)
                if said.status_code not in _VOID:
                    return f"a yes to something else was answered with {said.status_code}"
            case Ending.OWN_YES:
                async with self._world.approver(self._task.customer, self._tenant, (CUSTOMERS, CONFIRMERS)) as own:
                    said = await self._decide(hold, "approve", own)
                if said.status_code not in _VOID:
                    return f"the asker's own yes was answered with {said.status_code}"
            case Ending.CONFIRMED_AGAIN:
                await self._decide(hold, "approve", self._confirmer)
                again = await self._hold_of(answer.call_id, but=hold["hold_id"])
                if again["reason"] != "near_duplicate":
                    return f"held again for {again['reason']}"
        return unless(await asked.run.cancel(answer.call_id, LONGEST_S), Code.CANCELLED)

    @property
    def _account(self) -> str:
        return self._task.customer or _VISITOR

    def _run(self, asker: Asker) -> Run:
        """The run of this asker: who is signed in is the host's own word, the request is the customer's."""
        if asker not in self._runs:
            groups = () if asker is Asker.NO_CUSTOMER else (CUSTOMERS if self._task.customer else VISITORS,)
            token = self._world.token(self._account, self._tenant, groups, _agent(asker))
            run = self._world.client.run(token, user_turns=[self._task.request])
            run.vouches("sign-in", {"user_id": self._task.customer})
            if asker is Asker.UNANNOUNCED:
                run.allow()
            self._runs[asker] = run
        return self._runs[asker]

    async def _hold_of(self, call_id: str, but: str = "") -> dict[str, Any]:
        """The open hold of this call, as the people see it who decide."""
        async with asyncio.timeout(LONGEST_S):
            while True:
                listed = (await self._confirmer.get("/api/holds")).raise_for_status().json()["holds"]
                for hold in listed:
                    if hold["call_id"] == call_id and hold["hold_id"] != but:
                        return dict(hold)
                await asyncio.sleep(_AGAIN_S)

    async def _decide(self, hold: dict[str, Any], verdict: str, who: httpx.AsyncClient, **instead: str) -> httpx.Response:
        """Sees what is shown, and says yes or no to exactly that."""
        shown = await self._confirmer.get(f"/api/holds/{hold['hold_id']}")
        body = {"verdict": verdict, "shown_digest": shown.raise_for_status().json()["shown_digest"], **instead}
        return await who.post(f"/api/holds/{hold['hold_id']}/decision", json=body)


def _agent(asker: Asker) -> str:
    return "other-agent" if asker is Asker.OTHER_AGENT else AGENT
