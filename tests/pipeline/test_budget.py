"""One deadline from the host to the tool, and what becomes of attempts within it. The tools of these stories are their own."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
import pytest_asyncio
from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Committed, NotExecuted, Rule, ToolContext, ToolError, ToolErrorKind
from fourgates.contract.codes import Code
from fourgates.contract.events import EffectKind, LedgerKind
from fourgates.contract.parts import Principal
from fourgates.contract.topology import CALLS_LEDGER, EFFECTS
from fourgates.testing import Pipeline
from support.eventually import eventually
from support.worlds import FAST

pytestmark = pytest.mark.asyncio(loop_scope="session")
POLICIES = """
@id("all") @approval("waived") permit (principal, action, resource);
"""


class Args(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    name: Annotated[str, Field(pattern=r"^[a-z-]{1,20}$")]
    after_s: Annotated[float, Field(ge=0, le=600)] = 0.0


class Desk:
    """What the tools saw, and how long the next look at the facts takes."""

    def __init__(self) -> None:
        self.entered: list[tuple[str, float, ToolContext]] = []
        self.looks = 0

    def enter(self, ctx: ToolContext, name: str) -> None:
        self.entered.append((name, time.monotonic(), ctx))

    def catalog(self) -> Catalog:
        made = Catalog("desk", policies=POLICIES)

        async def facts(args: Args, who: Principal) -> dict[str, bool]:
            self.looks += 1
            if args.name == "slow-facts" and self.looks == 2:  # the validator's look was quick, the executor's is not
                await asyncio.sleep(30)
            return {"fine": True}

        @made.tool(
            risk="write", timeout=5.0, facts=facts, facts_timeout=20.0, facts_types={"fine": "bool"},
            rules=(Rule("fine", "facts.fine", "It is not fine."),),
        )  # fmt: skip
        async def put(args: Args, ctx: ToolContext) -> object:
            """Puts. Use it; takes a name; changes it; returns it."""
            self.enter(ctx, args.name)
            if args.name == "no":
                return NotExecuted("declined", "Declined.")
            return Committed({"put": args.name})

        @made.tool(risk="read", timeout=5.0)
        async def get(args: Args, ctx: ToolContext) -> object:
            """Gets. Use it; takes a name; changes nothing; returns it."""
            self.enter(ctx, args.name)
            if args.name == "busy" and ctx.attempt == 1:
                raise ToolError("busy", "Later.", ToolErrorKind.TRANSIENT, retry_after_s=args.after_s)
            if args.name == "hangs":
                await asyncio.sleep(30)
            return {"got": args.name, "attempt": ctx.attempt}

        return made


@pytest_asyncio.fixture(loop_scope="session")
async def desk() -> AsyncIterator[tuple[Desk, Pipeline]]:
    made = Desk()
    async with Pipeline(made.catalog(), settings=FAST) as pipeline:
        yield made, pipeline


def words(pipeline: Pipeline, call_id: str, kind: LedgerKind) -> list[Any]:
    return [e.record for e in pipeline.records(CALLS_LEDGER) if e.record.call_id == call_id and e.record.kind is kind]


async def test_a_tool_gets_what_is_left_of_the_hosts_deadline(desk: tuple[Desk, Pipeline]) -> None:
    """E8, E12: the smaller of its own time and the call's; the host's two seconds have begun before the tool's."""
    made, pipeline = desk
    asked_ms = time.time() * 1000
    run = pipeline.run("anna", ("staff",))
    assert (await run.call("get", '{"name": "a"}', tool_call_id="1", budget=2.0)).code is Code.OK
    assert (await run.call("get", '{"name": "a"}', tool_call_id="2", budget=60.0)).code is Code.OK
    short, long = (ctx.deadline_ms for _, _, ctx in made.entered)
    assert asked_ms < short <= asked_ms + 2_050
    assert short < long <= time.time() * 1000 + 5_050


async def test_a_read_that_hangs_ends_with_the_hosts_budget(desk: tuple[Desk, Pipeline]) -> None:
    """E8: not with the tool's own five seconds."""
    _, pipeline = desk
    begun = time.monotonic()
    answer = await pipeline.run("anna", ("staff",)).call("get", '{"name": "hangs"}', tool_call_id="1", budget=0.7)
    assert (answer.code, answer.final) == (Code.TIMEOUT, False)
    assert time.monotonic() - begun < 4


async def test_looks_before_dispatch_are_within_the_budget_and_nothing_is_sent_after_it(desk: tuple[Desk, Pipeline]) -> None:
    """E8, E4: facts that are slow at the executor use the budget up; the tool is not entered, and its effect is free again."""
    made, pipeline = desk
    answer = await pipeline.run("anna", ("staff",)).call("put", '{"name": "slow-facts"}', tool_call_id="1", budget=1.0, wait=15)
    assert (answer.code, answer.reason, answer.final) == (Code.BUDGET_EXHAUSTED, "deadline", True)
    assert made.entered == []
    assert words(pipeline, answer.call_id, LedgerKind.ATTEMPTED) == []

    def released() -> bool:
        return any(
            e.record.kind is EffectKind.RELEASED and e.record.call_id == answer.call_id for e in pipeline.records(EFFECTS)
        )  # fmt: skip

    await eventually(released)


async def test_the_next_attempt_waits_as_long_as_the_downstream_asks(desk: tuple[Desk, Pipeline]) -> None:
    """E9: Retry-After; each attempt and each pause stands in the last word."""
    made, pipeline = desk
    answer = await pipeline.run("anna", ("staff",)).call("get", '{"name": "busy", "after_s": 0.4}', tool_call_id="1")
    assert json.loads(answer.content or "") == {"got": "busy", "attempt": 2}
    (_, first, _), (_, second, _) = made.entered
    assert second - first >= 0.4
    [last] = words(pipeline, answer.call_id, LedgerKind.FINISHED)
    one, two = json.loads(last.detail)["attempts"]
    assert (one["ended"], one["reason"], one["waited_ms"] >= 400, two["ended"]) == ("not_executed", "busy", True, "committed")


async def test_a_pause_that_would_outlast_the_budget_is_not_begun(desk: tuple[Desk, Pipeline]) -> None:
    """E8, E9: whoever waits is told now, not when it is too late."""
    made, pipeline = desk
    begun = time.monotonic()
    answer = await pipeline.run("anna", ("staff",)).call("get", '{"name": "busy", "after_s": 500}', tool_call_id="1", budget=20)
    assert (answer.code, answer.reason) == (Code.UNAVAILABLE, "busy")
    assert len(made.entered) == 1
    assert time.monotonic() - begun < 10


async def test_how_a_write_ended_is_told_to_the_audit(desk: tuple[Desk, Pipeline]) -> None:
    """E9, L1: also where it failed."""
    _, pipeline = desk
    answer = await pipeline.run("anna", ("staff",)).call("put", '{"name": "no"}', tool_call_id="1")
    assert (answer.code, answer.reason) == (Code.TOOL_FAILED, "declined")
    [last] = words(pipeline, answer.call_id, LedgerKind.FINISHED)
    [attempt] = json.loads(last.detail)["attempts"]
    assert (attempt["ended"], attempt["reason"]) == ("not_executed", "declined")
