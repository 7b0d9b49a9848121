"""What the scenes act with: an agent's runs, the approver's HTTP API, the provider's faults, raw appends; and expectations."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from fourgates.contract.avro import AvroCodec
from fourgates.contract.codes import Code
from fourgates.contract.ports import Log, Position
from fourgates.demo.payments import Payments
from fourgates.demo.store import Store
from fourgates.sdk import Answer, Client, Run

_LONGEST_S = 30.0
"""No scene waits longer for one thing."""
_AGAIN_S = 0.05
"""Between two looks at another process over HTTP."""


class Difference(Exception):
    """Something is not as it should be: what, what it should be, what it is."""


class Narrator(Protocol):
    """Who tells it as it happens."""

    def scene(self, title: str, words: str) -> None: ...

    def line(self, who: str, words: str) -> None:
        """Somebody says or does something."""

    def answered(self, answer: Answer) -> None:
        """What the model gets to read."""

    def held(self, shown: dict[str, Any]) -> None:
        """What a person sees of a held call."""

    def right(self, words: str) -> None:
        """Something was checked and is as it should be."""

    def wrong(self, words: str) -> None:
        """Something differs."""


@dataclass(frozen=True, slots=True)
class Premises:
    """Where the story plays: on the in-process bus, or among real processes. The composition root fills it in."""

    client: Client
    log: Log
    codec: AvroCodec
    append: Callable[[str, bytes, bytes], Awaitable[Position]]
    """(topic, key, value) as any Kafka client could append them."""
    token: Callable[[str], str]
    """A clerk's token with the agent in it."""
    approver: Callable[[str], httpx.AsyncClient]
    """The approver's HTTP API, signed in as that person; the caller closes it."""
    payments: Payments
    store: Store
    hold_wait_s: float
    """After so many seconds without a decision a hold expires (the authorizer's setting)."""
    pending_s: float = 1.5
    """How long the agent waits before it takes `approval_pending` for an answer."""


@dataclass(slots=True)
class Play:
    """One telling: acts, counts what was observed, and remembers what the provider's books must say in the end."""

    premises: Premises
    narrator: Narrator
    observed: Counter[str] = field(default_factory=Counter)
    calls: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    """Calls with a final answer."""
    owed: dict[str, int] = field(default_factory=dict)
    """Cents by idempotency key: the refunds that should have been made."""

    def run(self, clerk: str, intent: str) -> Run:
        """A conversation of this clerk with the agent."""
        run = self.premises.client.run(principal=self.premises.token(clerk), intent=intent)
        self.says(run, clerk, intent)
        return run

    def says(self, run: Run, clerk: str, words: str) -> None:
        """The clerk tells the agent something."""
        self.narrator.line(clerk, f"“{words}”")
        run.user_said(words)

    async def ask(self, run: Run, tool: str, raw: str, tool_call_id: str) -> Answer:
        """The model's call, as the raw text that models write, until there is an answer or people have to decide."""
        self.narrator.line("model", f"{tool} {raw}")
        answer = await run.call(tool, raw, tool_call_id=tool_call_id, wait=self.premises.pending_s)
        return await self._told(run, answer, _LONGEST_S)

    async def wait(self, run: Run, call_id: str, seconds: float = _LONGEST_S) -> Answer:
        """The rest of an answer that had to wait for people."""
        return await self._told(run, await run.wait(call_id, seconds), 0)

    async def _told(self, run: Run, answer: Answer, seconds: float) -> Answer:
        end = time.monotonic() + seconds
        while answer.reason == "no_answer_yet" and time.monotonic() < end:
            answer = await run.wait(answer.call_id, self.premises.pending_s)
        self.calls.add(answer.call_id)
        self.observed[answer.code.value] += 1
        if answer.final:
            self.ended.add(answer.call_id)
        self.narrator.answered(answer)
        return answer

    async def hold_of(self, answer: Answer, person: str) -> dict[str, Any]:
        """What this person is shown of the held call, with `hold_id` and `shown_digest`."""
        async with self.premises.approver(person) as http, asyncio.timeout(_LONGEST_S):
            while True:
                listed = (await http.get("/api/holds")).raise_for_status().json()["holds"]
                found = next((hold for hold in listed if hold["call_id"] == answer.call_id), None)
                if found is not None:
                    break
                await asyncio.sleep(_AGAIN_S)
            whole = dict((await http.get(f"/api/holds/{found['hold_id']}")).raise_for_status().json())
        whole["shown"] = json.loads(whole["shown"])
        self.narrator.held(whole["shown"])
        return whole

    async def decide(self, hold: dict[str, Any], person: str, verdict: str, reason: str) -> None:
        """The person decides over HTTP on exactly what was shown."""
        self.narrator.line(person, f"{verdict} over HTTP: “{reason}”")
        body = {"verdict": verdict, "shown_digest": hold["shown_digest"], "reason": reason}
        async with self.premises.approver(person) as http:
            answer = await http.post(f"/api/holds/{hold['hold_id']}/decision", json=body)
        self.expect("the approver's answer", answer.status_code, 200)

    async def requests_of(self, call_id: str) -> list[str]:
        """What became of each request that reached the provider under this key; empty: the tool never got there."""
        return [request["outcome"] for request in await self.premises.payments.requests() if request["key"] == call_id]

    def expect_answer(self, answer: Answer, code: Code, reason: str | None = None, where: str | None = None) -> None:
        """The answer's code, and its reason and field where they are given."""
        wanted = {"code": code.value, "reason": reason, "field": where}
        seen = {"code": answer.code.value, "reason": answer.reason, "field": answer.field}
        given = {name: value for name, value in wanted.items() if value is not None}
        self.expect("the answer", {name: seen[name] for name in given}, given)

    def expect(self, what: str, seen: Any, wanted: Any) -> None:
        """Raises Difference where they are not equal."""
        if seen != wanted:
            raise Difference(f"{what} should be {wanted!r}, but is {seen!r}")

    def expect_true(self, what: str, true: bool) -> None:
        """Raises Difference where it is not so."""
        if not true:
            raise Difference(f"it should be so that {what}, but it is not")
