"""Calls that are played through a failing pipeline: asked for once, decided on by people who look, followed to their end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from fourgates.contract.codes import Code, CodeClass
from fourgates.sdk import Answer, Run, RunStopped
from support.worlds import StoryWorld, decide, fresh_order, holds_of

PATIENCE, BUDGET = 150.0, 100.0
_ASK_AGAIN = 40.0
"""So long a host waits for a word before it asks again: an accepted call must end without."""
TOOLS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "read": ("look", lambda: {"item": fresh_order()}),
    "key honoured": ("pay", lambda: {"order": fresh_order(), "cents": 100}),
    "probe": ("ship", lambda: {"order": fresh_order()}),
    "plain": ("post", lambda: {"text": fresh_order()}),
    "held": ("pay", lambda: {"order": fresh_order(), "cents": 9_000}),
    "key honoured, answer lost": ("pay", lambda: {"order": fresh_order(), "cents": 100, "mode": "lose_always"}),
    "probe, answer lost": ("ship", lambda: {"order": fresh_order(), "mode": "lose"}),
    "probe, request lost": ("ship", lambda: {"order": fresh_order(), "mode": "vanish"}),
    "plain, answer lost": ("post", lambda: {"text": fresh_order(), "mode": "lose"}),
    "large read": ("export", lambda: {"name": fresh_order().lower()}),
    "large write": ("archive", lambda: {"name": fresh_order().lower()}),
    "facts": ("book", lambda: {"room": fresh_order().lower(), "seats": 1}),
}
"""By what the downstream offers: the tool, and arguments that nobody else uses."""
WRITES = ("key honoured", "probe", "plain")


@dataclass(slots=True)
class Played:
    """One call, and what its host remembers."""

    sort: str
    tool: str
    arguments: dict[str, Any]
    run: Run
    call_id: str
    fault: str = ""
    """What was done to it."""
    struck: float = 0.0
    """When (loop time); 0: not yet, or never."""
    ended: float = 0.0
    answers: list[str] = field(default_factory=list)
    codes: list[Code] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    asked_again: int = 0
    booked: str = ""
    """The room that it books: its effects are the room's versions."""

    @property
    def recovery(self) -> float | None:
        """Seconds from the fault to the final answer; None where it had none, or had ended before."""
        return self.ended - self.struck if self.struck and self.ended > self.struck else None

    def effects(self, world: StoryWorld) -> int:
        """What the downstream has of it."""
        if self.booked:
            return int(world.bookings.state(self.booked)["version"]) - 1
        return sum(1 for _, key, _ in world.downstream.effects() if key == self.call_id)


async def new_call(world: StoryWorld, sort: str, fault: str = "", **arguments: Any) -> Played:
    """A call that is not asked for yet, so that a failpoint can be armed for it."""
    tool, made = TOOLS[sort]
    run = world.run()
    call = Played(sort, tool, {**made(), **arguments}, run, await run._call_id("1"), fault)
    if sort == "facts":
        call.booked = call.arguments["room"]
        world.bookings.put(call.booked)
    return call


async def play(world: StoryWorld, call: Played, patience: float = PATIENCE) -> Played:
    """Asks once, lets people decide where they must, waits for the end, and asks for the same call once more."""
    loop, end = asyncio.get_running_loop(), asyncio.get_running_loop().time() + patience
    text = json.dumps(call.arguments)
    try:
        answer = await _ask(call, text)
        quiet_since, later = loop.time(), 0.3
        while not answer.final and loop.time() < end:
            if answer.code_class is CodeClass.TRANSIENT and answer.reason != "no_answer_yet":
                await asyncio.sleep(later)  # as a host does that is told to come back later, and later again
                answer, later = await _ask(call, text), min(2 * later, 10.0)
                continue
            if answer.code in (Code.APPROVAL_PENDING, Code.IN_DOUBT):
                await people_decide(world, call)
            if loop.time() - quiet_since > _ASK_AGAIN:
                call.asked_again, quiet_since = call.asked_again + 1, loop.time()
                answer = await _ask(call, text)
            else:
                answer = await call.run.wait(call.call_id, 1.0)
            _hear(call, answer)
        if answer.final:
            call.ended = loop.time()
            _final(call, answer)
            _final(call, await call.run.call(call.tool, text, tool_call_id="1", wait=min(60.0, patience), budget=BUDGET))
    except RunStopped as stopped:
        call.ended = call.ended or loop.time()
        _hear(call, stopped.answer)
        if not call.codes:
            _final(call, stopped.answer)
    return call


async def _ask(call: Played, text: str) -> Answer:
    answer = await call.run.call(call.tool, text, tool_call_id="1", wait=2.0, budget=BUDGET)
    _hear(call, answer)
    return answer


def _hear(call: Played, answer: Answer) -> None:
    word = f"{answer.code.value}/{answer.reason}"
    if not call.heard or call.heard[-1] != word:
        call.heard.append(word)


def _final(call: Played, answer: Answer) -> None:
    call.answers.append(answer.to_json())
    call.codes.append(answer.code)


async def people_decide(world: StoryWorld, call: Played) -> None:
    """Whatever the approver's service can be asked now; while it is being started again, nobody decides."""
    with contextlib.suppress(httpx.HTTPError):
        for hold in await holds_of(world, call.call_id):
            await decide(world, hold["hold_id"], truth(world, hold, call))


def truth(world: StoryWorld, hold: dict[str, Any], call: Played) -> str:
    """What a diligent person says: yes to a payment; about a doubt, what the downstream's books say."""
    if hold["reason"] != "in_doubt":
        return "approve"
    return "committed" if call.effects(world) else "not_applied"
