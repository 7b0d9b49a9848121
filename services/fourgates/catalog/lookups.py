"""What facts and preview both need is fetched once: a memory that lives for one look at one call."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_MEMORY: ContextVar[dict[Hashable, Any] | None] = ContextVar("fourgates_lookups", default=None)


def once(key: Hashable, make: Callable[[], Any]) -> Any:
    """`make()`, or what it gave earlier in the same look at the same call; what it raised as well. `key` names what is fetched.

    Of an async `make` the result is to be awaited, as often as one likes:

        async def facts(args, principal):
            order = await once(("order", args.order_id), lambda: db.order(args.order_id))

    Every gate looks anew, so nothing that is remembered here is older than the look. Outside of one it simply calls `make`.
    """
    memory = _MEMORY.get()
    if memory is None:
        return make()
    if key not in memory:
        made = make()
        memory[key] = asyncio.ensure_future(made) if inspect.isawaitable(made) else made
    return memory[key]


@contextmanager
def one_look() -> Iterator[None]:
    """A gate's look at one call: what it fetches by `once` is fetched once, and forgotten at the end."""
    token = _MEMORY.set({})
    try:
        yield
    finally:
        _MEMORY.reset(token)
