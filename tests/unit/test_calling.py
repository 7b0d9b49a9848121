"""Calling the functions of a catalog."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import sys
import threading
from typing import Any

import pytest

from fourgates.catalog import invoke


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


@pytest.mark.parametrize("wrong", [ValueError("x"), KeyError("k"), asyncio.CancelledError()])
async def test_what_the_function_raises_is_raised(wrong: BaseException) -> None:
    """R7"""

    def fails() -> None:
        raise wrong

    with pytest.raises(type(wrong)):
        await invoke(fails, timeout=5)


async def test_a_function_cannot_end_the_process() -> None:
    """R7"""

    async def leaves() -> None:
        sys.exit(3)

    def stops() -> None:
        raise StopIteration

    for function in (leaves, stops, sys.exit):
        with pytest.raises(RuntimeError):
            await invoke(function, timeout=5)


async def test_context_reaches_the_thread() -> None:
    """S3: a trace follows the call."""
    trace: contextvars.ContextVar[str] = contextvars.ContextVar("trace")
    trace.set("abc")
    assert await invoke(trace.get, timeout=5) == "abc"
