"""Waiting for a condition that somebody else brings about."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any


async def eventually(condition: Callable[[], Any | Awaitable[Any]], seconds: float = 30.0) -> Any:
    """Returns the condition's first true value. AssertionError after `seconds`."""
    value: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                value = condition()
                if inspect.isawaitable(value):
                    value = await value
                if value:
                    return value
                await asyncio.sleep(0.02)  # the other side is another process: nothing of it can be awaited
    except TimeoutError:
        raise AssertionError(f"not within {seconds:.0f} s; last seen: {value!r}") from None
