"""Bulkheads and rates: places of one tool and tenant, who waits and how long, and that a tool that hangs takes no others'."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.catalog import Rate, Tool
from fourgates.contract.codes import Code
from fourgates.contract.parts import Risk
from fourgates.executor.rooms import Rooms
from fourgates.executor.settings import ExecutorSettings
from fourgates.gates.limits import TokenBucket
from fourgates.gates.refusal import Refusal
from fourgates.runtime.clock import ManualClock, SystemClock


async def _run(args: object, ctx: object) -> None: ...


def tool(name: str = "slow", at_once: int = 2, rate: Rate | None = None) -> Tool:
    return Tool(
        name=name, description="d", risk=Risk.READ, schema={}, model=None, run=_run, timeout=timedelta(seconds=7),
        at_once=at_once, rate=rate,
    )  # fmt: skip


class Crowd:
    """Calls that stay in their places until they are let go."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms, self.inside, self.order = rooms, asyncio.Event(), list[int]()
        self.refused: list[Refusal] = []
        self.go = asyncio.Event()

    async def enter(self, of: Tool, number: int = 0, tenant: str = "acme", seconds: float = 60.0) -> None:
        async with self._rooms.place(of, tenant, asyncio.get_running_loop().time() + seconds) as no:
            if no is not None:
                self.refused.append(no)
                return
            self.order.append(number)
            await self.go.wait()


def rooms(**settings: float) -> Rooms:
    return Rooms(SystemClock(), ExecutorSettings(**settings))  # type: ignore[arg-type]


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_tool_that_hangs_fills_its_own_places_and_nobody_elses() -> None:
    """E11: of 600 calls two run, 510 wait, the rest is told at once when to ask again; another tool and another tenant run."""
    crowd = Crowd(rooms())
    slow = tool()
    tasks = [asyncio.create_task(crowd.enter(slow, n)) for n in range(600)]
    await turns()
    assert crowd.order == [0, 1]
    assert len(crowd.refused) == 600 - 512
    first = crowd.refused[0]
    assert (first.code, first.reason, first.detail) == (Code.RATE_LIMITED, "tool_busy", {"retry_after_s": 7})
    assert first.sentence.endswith("Ask again in 7 s.")
    tasks += [
        asyncio.create_task(crowd.enter(tool("quick"), 900)),
        asyncio.create_task(crowd.enter(tool("other"), 901, "umbrella")),
    ]
    await turns()
    assert crowd.order == [0, 1, 900, 901]
    crowd.go.set()
    await asyncio.gather(*tasks)
    assert crowd.order[4:] == list(range(2, 512))  # in the order of coming


async def test_tenants_have_places_of_their_own() -> None:
    """E11: one tenant's calls that hang do not hold up another's of the same tool."""
    crowd = Crowd(rooms())
    tasks = [asyncio.create_task(crowd.enter(tool(), n, tenant)) for n, tenant in enumerate(("a", "a", "a", "b"))]
    await turns()
    assert crowd.order == [0, 1, 3]
    crowd.go.set()
    await asyncio.gather(*tasks)


async def test_who_waits_too_long_is_told_and_leaves_no_trace() -> None:
    """E11, E8: at most `room_wait`, and never beyond the call's own budget; the place goes to the next one."""
    crowd = Crowd(rooms(room_wait=0.02))
    slow = tool(at_once=1)
    holder = asyncio.create_task(crowd.enter(slow, 0))
    await turns()
    await crowd.enter(slow, 1)
    await crowd.enter(slow, 2, seconds=0.0)
    assert [no.reason for no in crowd.refused] == ["tool_busy", "tool_busy"]
    crowd.go.set()
    await holder
    await crowd.enter(slow, 3)
    assert crowd.order == [0, 3]


async def test_a_waiter_that_is_cancelled_gives_its_place_up() -> None:
    """E7, E11: a rebalance cancels who waits; nothing of it stays."""
    crowd = Crowd(rooms(per_tool=2))
    slow = tool(at_once=1)
    tasks = [asyncio.create_task(crowd.enter(slow, n)) for n in range(2)]
    await turns()
    tasks[1].cancel()
    await turns()
    late = asyncio.create_task(crowd.enter(slow, 2))
    await turns()
    crowd.go.set()
    await asyncio.gather(*tasks, late, return_exceptions=True)
    assert crowd.order == [0, 2]
    assert crowd.refused == []


async def test_the_rate_is_kept_and_says_when_to_ask_again() -> None:
    """E11: five at once, then one every two seconds; by the process's own share of the partitions."""
    clock = ManualClock()
    made = Rooms(clock, ExecutorSettings())
    limited = tool(at_once=99, rate=Rate(5, timedelta(seconds=10)))

    async def enter() -> Refusal | None:
        async with made.place(limited, "acme", clock.monotonic() + 60) as no:
            return no

    assert [await enter() for _ in range(5)] == [None] * 5
    refusal = await enter()
    assert refusal is not None
    assert (refusal.code, refusal.reason, refusal.detail) == (Code.RATE_LIMITED, "rate", {"retry_after_s": 2})
    await clock.advance(2.0)
    assert await enter() is None
    made.share(0.5)
    assert [no is None for no in [await enter() for _ in range(4)]] == [True, True, False, False]


@given(st.integers(1, 20), st.floats(0.1, 60), st.floats(0.05, 1), st.lists(st.floats(0, 30), max_size=60))
def test_no_window_takes_more_than_the_bucket_and_what_flows_in(calls: int, per: float, share: float, gaps: list[float]) -> None:
    """E11: in any stretch of time at most the bucket and rate times the time; and a refusal tells when it works."""
    rate, now = Rate(calls, timedelta(seconds=per)), 0.0
    bucket = TokenBucket(rate, share, now)
    taken: list[float] = []
    for gap in gaps:
        now += gap
        wait = bucket.take(now)
        if wait:
            now += wait + 1e-6
            assert bucket.take(now) == 0.0
        taken.append(now)
    size, per_second = max(1.0, calls * share), calls * share / rate.per.total_seconds()
    for first, since in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= size + (taken[last] - since) * per_second + 1e-3


async def test_a_share_never_leaves_a_tool_without_a_place() -> None:
    """E11: twelve processes share at_once=4: each runs one at least."""
    made = rooms()
    made.share(1 / 12)
    async with made.place(tool(at_once=4), "acme", asyncio.get_running_loop().time() + 5) as no:
        assert no is None


async def test_who_has_a_claim_to_settle_waits_for_a_place_like_the_others() -> None:
    """E11, E6: a thousand doubts of a tool that came back do not fall upon it at once."""
    made = rooms()
    crowd, slow = Crowd(made), tool(at_once=1)
    holder = asyncio.create_task(crowd.enter(slow, 0))
    await turns()

    async def settle() -> None:
        async with made.room(slow, "acme"):
            crowd.order.append(1)

    settling = asyncio.create_task(settle())
    await turns()
    assert crowd.order == [0]
    crowd.go.set()
    await asyncio.gather(holder, settling)
    assert crowd.order == [0, 1]


async def test_nothing_is_kept_of_tenants_that_are_gone() -> None:
    """E11: neither places, nor buckets that have filled up again."""
    clock = ManualClock()
    made, limited = Rooms(clock, ExecutorSettings()), tool(rate=Rate(1, timedelta(seconds=10)))
    for number in range(10_001):
        async with made.place(limited, f"tenant-{number}", 60.0) as no:
            assert no is None
    assert (len(made._rooms), len(made._there), len(made._buckets)) == (0, 0, 10_001)
    await clock.advance(11)
    async with made.place(limited, "another", 60.0):
        assert len(made._buckets) == 1


@pytest.mark.parametrize("seconds", [0, -1])
def test_settings_that_would_let_nobody_in_are_refused(seconds: int) -> None:
    """E11: checked when they are read."""
    with pytest.raises(ValueError):
        ExecutorSettings(room_wait=seconds)
    with pytest.raises(ValueError):
        ExecutorSettings(per_tool=seconds)
