"""Facts: no more providers at once than the contract says; within one look at a call each thing is fetched once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Tool, once
from fourgates.catalog.lookups import one_look
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.gates.facts import Facts
from fourgates.gates.refusal import Refusal
from support.samples import PRINCIPAL


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order_id: str


def tool(facts: Callable[..., Any] | None, **contract: Any) -> Tool:
    catalog = Catalog("shop")

    @catalog.tool(
        risk="read", timeout=1, description="Reads.", facts=facts, facts_types={"n": "int"} if facts else {}, **contract
    )
    def read(args: Arguments, ctx: Any) -> None: ...

    found = catalog.get("read")
    assert found is not None
    return found


async def test_no_more_providers_run_at_once_than_the_contract_says() -> None:
    """B2: a hundred calls at once are no hundred queries at once."""
    running, most, passing = 0, 0, asyncio.Event()

    async def provider(args: Any, principal: Any) -> dict[str, int]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await passing.wait()
        running -= 1
        return {"n": running}

    facts = Facts(tool(provider, facts_at_once=3))
    asked = [asyncio.create_task(facts.gather(None, PRINCIPAL)) for _ in range(10)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert (running, most) == (3, 3)
    passing.set()
    answers = await asyncio.gather(*asked)
    assert most == 3
    assert all(isinstance(answer, dict) for answer in answers)


async def test_without_room_in_time_facts_are_unavailable() -> None:
    """B2: waiting for room is part of the provider's time, never a pass."""

    async def hangs(args: Any, principal: Any) -> dict[str, int]:
        await asyncio.Event().wait()
        return {"n": 1}

    facts = Facts(tool(hangs, facts_at_once=1, facts_timeout=0.05))
    first, second = await asyncio.gather(facts.gather(None, PRINCIPAL), facts.gather(None, PRINCIPAL))
    assert isinstance(first, Refusal)
    assert isinstance(second, Refusal)
    assert (first.code, first.reason) == (Code.UNAVAILABLE, "facts_unavailable")
    assert second.code is Code.UNAVAILABLE
    assert second.reason in {"facts_busy", "facts_unavailable"}
    third = await facts.gather(None, PRINCIPAL)
    assert isinstance(third, Refusal)
    assert third.reason == "facts_unavailable", "the room of those that were given up is free again"


async def test_a_thread_keeps_its_place_until_it_really_ends() -> None:
    """B2: nobody can stop it, so a slow database does not get more and more of them."""
    going_on, started = threading.Event(), []

    def blocks(args: Any, principal: Any) -> dict[str, int]:
        started.append(1)
        going_on.wait(10)
        return {"n": 1}

    facts = Facts(tool(blocks, facts_at_once=2, facts_timeout=0.05))
    reasons = [answer.reason for answer in await asyncio.gather(*(facts.gather(None, PRINCIPAL) for _ in range(2)))]
    assert reasons == ["facts_unavailable"] * 2
    busy = await facts.gather(None, PRINCIPAL)
    assert isinstance(busy, Refusal)
    assert (busy.reason, busy.detail) == ("facts_busy", {"at_once": 2})
    assert len(started) == 2
    going_on.set()
    while isinstance(answer := await facts.gather(None, PRINCIPAL), Refusal):
        pass
    assert answer == {"n": 1}


async def test_a_tool_without_a_provider_has_no_facts_and_needs_no_room() -> None:
    """B2"""
    assert await Facts(tool(None)).gather(None, PRINCIPAL) == {}


def test_no_room_at_all_is_refused_at_registration() -> None:
    """B2, C1"""
    with pytest.raises(ConfigurationError, match="facts_at_once must be 1"):
        tool(lambda args, principal: {}, facts_at_once=0)


def test_how_many_may_ask_at_once_decides_nothing() -> None:
    """B6: an operator may change it without another tool coming of it."""
    assert tool(_none, facts_at_once=1).version == tool(_none, facts_at_once=2).version


def _none(args: Any, principal: Any) -> dict[str, int]:
    return {"n": 1}


async def test_within_one_look_the_same_thing_is_fetched_once() -> None:
    """B2: by facts and preview, async or in a thread; the next look fetches it anew."""
    fetched: list[str] = []

    async def order(order_id: str) -> str:
        fetched.append(order_id)
        await asyncio.sleep(0)
        return order_id.lower()

    async def look() -> list[str]:
        with one_look():
            return [await once(("order", name), lambda name=name: order(name)) for name in ("A", "B", "A")]

    assert await look() == ["a", "b", "a"]
    assert fetched == ["A", "B"]
    assert await asyncio.gather(look(), look()) == [["a", "b", "a"]] * 2
    assert sorted(fetched) == ["A", "A", "A", "B", "B", "B"]
    with one_look():
        assert [once("n", lambda: len(fetched)), once("n", lambda: 0)] == [6, 6]
        assert await asyncio.to_thread(once, "n", lambda: 0) == 6


async def test_outside_of_a_look_nothing_is_remembered() -> None:
    """B2"""
    assert [once("n", lambda: 1), once("n", lambda: 2)] == [1, 2]


async def test_what_failed_has_failed_for_the_whole_look() -> None:
    """B2: facts and preview must not see two different worlds."""

    async def fails() -> None:
        raise OSError("away")

    with one_look():
        for _ in range(2):
            with pytest.raises(OSError, match="away"):
                await once("x", fails)
