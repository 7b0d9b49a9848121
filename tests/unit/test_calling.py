"""Calling the functions of a catalog."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sqlite3
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from fourgates.catalog import Stopped, Stopping, ToolError, invoke
from support.eventually import eventually


async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


def add(a: int, b: int) -> int:
    return a + b


class Adder:
    async def __call__(self, a: int, b: int) -> int:
        return a + b


@pytest.mark.parametrize(
    "function", [add, add_later, Adder(), functools.partial(add_later), functools.partial(add), lambda a, b: add_later(a, b)]
)
async def test_async_and_sync_functions_are_called_alike(function: Any) -> None:
    """S2"""
    assert await invoke(function, 1, 2, timeout=5) == 3


async def test_an_async_function_is_cancelled_when_its_time_is_over() -> None:
    """E7"""
    cancelled = asyncio.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(TimeoutError):
        await invoke(slow, timeout=0.01)
    assert cancelled.is_set()


async def test_a_stuck_thread_holds_up_neither_its_caller_nor_others() -> None:
    """E7, E11"""
    release = threading.Event()
    try:
        stuck = [asyncio.create_task(invoke(release.wait, timeout=0.05)) for _ in range(50)]
        assert await invoke(add, 1, 2, timeout=5) == 3
        outcomes = await asyncio.gather(*stuck, return_exceptions=True)
        assert all(isinstance(outcome, TimeoutError) for outcome in outcomes)
    finally:
        release.set()


@pytest.mark.parametrize("wrong", [ValueError("x"), KeyError("k")])
async def test_what_the_function_raises_is_raised(wrong: BaseException) -> None:
    """R7"""

    def fails() -> None:
        raise wrong

    with pytest.raises(type(wrong)):
        await invoke(fails, timeout=5)


async def test_a_function_can_end_neither_the_process_nor_the_work_of_its_caller() -> None:
    """R7"""

    async def leaves() -> None:
        sys.exit(3)

    def stops() -> None:
        raise StopIteration

    async def gives_up() -> None:
        raise asyncio.CancelledError

    def gives_up_too() -> None:
        raise asyncio.CancelledError

    for function in (leaves, stops, sys.exit, gives_up, gives_up_too):
        with pytest.raises(RuntimeError):
            await invoke(function, timeout=5)


async def test_context_reaches_the_thread() -> None:
    """S3: a trace follows the call."""
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("abc")
    assert await invoke(trace.get, timeout=5) == "abc"


class Context:
    def __init__(self) -> None:
        self.stopping = Stopping()


async def stopped(function: Any, *args: Any) -> Any:
    """Calls it and asks it to stop as soon as it runs."""
    wish = asyncio.Event()
    asyncio.get_running_loop().call_later(0.02, wish.set)
    return await invoke(function, *args, timeout=5, stop=wish)


async def test_a_thread_that_is_asked_to_stop_says_how_it_ended() -> None:
    """E7"""

    def waits(ctx: Context) -> str:
        return "nothing was done" if ctx.stopping.wait(5) else "done"

    def declares(ctx: Context) -> None:
        ctx.stopping.wait(5)
        raise ToolError("stopped", "It was stopped.", not_executed=True)

    assert await stopped(waits, Context()) == "nothing was done"
    assert await invoke(waits, Context(), timeout=0.02) == "nothing was done"
    with pytest.raises(ToolError, match="stopped"):
        await stopped(declares, Context())


async def test_what_breaks_because_it_was_stopped_is_told_as_stopped() -> None:
    """E7"""

    def checks(ctx: Context) -> None:
        while True:
            ctx.stopping.check()
            ctx.stopping.wait(0.01)

    with pytest.raises(Stopped):
        await stopped(checks, Context())
    with pytest.raises(TimeoutError):
        await invoke(checks, Context(), timeout=0.02)


async def test_a_thread_that_does_not_listen_is_abandoned_and_told_so() -> None:
    """E7"""
    release, left = threading.Event(), threading.Event()

    def deaf(ctx: Context) -> str:
        release.wait()
        left.set()
        return "too late"

    try:
        began = asyncio.get_running_loop().time()
        with pytest.raises(Stopped):
            await stopped(deaf, Context())
        assert asyncio.get_running_loop().time() - began < 2
    finally:
        release.set()
    assert await asyncio.to_thread(left.wait, 5)


async def test_a_function_whose_threads_never_come_back_is_not_called_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """E11, E6: a stuck downstream does not fill the process with threads; nothing ran, and it is said so."""
    monkeypatch.setattr("fourgates.catalog.calling.MOST_ABANDONED", 3)
    monkeypatch.setattr("fourgates.catalog.calling.GRACE", 0.01)
    release, entered = threading.Event(), []

    def deaf(ctx: Context) -> str:
        entered.append(1)
        release.wait()
        return "late"

    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await invoke(deaf, Context(), timeout=0.02)
        with pytest.raises(ToolError) as told:
            await invoke(deaf, Context(), timeout=0.02)
        assert (told.value.reason, told.value.not_executed, len(entered)) == ("stuck", True, 3)
        assert await invoke(add, 1, 2, timeout=5) == 3
    finally:
        release.set()
    await eventually(lambda: not any(thread.name == "tool:deaf" for thread in threading.enumerate()), 5)
    assert await eventually(lambda: invoke(deaf, Context(), timeout=5), 5) == "late"


async def test_a_coroutine_that_refuses_to_end_is_abandoned() -> None:
    """E7"""
    refuses = asyncio.Event()

    async def deaf() -> None:
        while not refuses.is_set():
            try:
                await asyncio.wait_for(refuses.wait(), 5)
            except asyncio.CancelledError:
                continue

    try:
        with pytest.raises(TimeoutError):
            await invoke(deaf, timeout=0.02)
    finally:
        refuses.set()


async def test_who_is_gone_himself_leaves_nothing_running() -> None:
    """E7"""
    ended, asked = asyncio.Event(), threading.Event()

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def threaded(ctx: Context) -> None:
        if ctx.stopping.wait(5):
            asked.set()

    for call in (asyncio.create_task(invoke(slow, timeout=5)), asyncio.create_task(invoke(threaded, Context(), timeout=5))):
        await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await asyncio.wait_for(ended.wait(), 5)
    assert await asyncio.to_thread(asked.wait, 5)


async def test_nothing_starts_when_there_is_no_time_left() -> None:
    """E8"""
    entered: list[int] = []
    with pytest.raises(TimeoutError):
        await invoke(entered.append, 1, timeout=0)
    assert entered == []


async def test_a_database_cursor_is_interrupted() -> None:
    """E7"""

    def counts(ctx: Context) -> None:
        with closing(sqlite3.connect(":memory:", check_same_thread=False)) as db, ctx.stopping.calling(db.interrupt):
            db.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n").fetchall()

    context = Context()
    with pytest.raises(TimeoutError):
        await invoke(counts, context, timeout=0.05)
    await eventually(lambda: asyncio.sleep(0, not any(t.name == "tool:counts" for t in threading.enumerate())), 5)


def test_the_wish_is_told_to_who_comes_late_and_a_broken_end_does_not_keep_it_from_others() -> None:
    """E7"""
    stopping, told = Stopping(60.0), []

    def breaks() -> None:
        raise OSError("gone")

    with stopping.calling(breaks), stopping.calling(lambda: told.append("first")):
        stopping.request()
        stopping.request()
    with stopping.calling(lambda: told.append("late")):
        assert stopping.requested
    assert told == ["first", "late"]
    assert 59 < stopping.seconds_left() <= 60
