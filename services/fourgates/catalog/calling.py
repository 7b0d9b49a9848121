"""How a function of a catalog is called: async or sync, always with an end."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any


async def invoke(function: Callable[..., Any], *args: Any, timeout: float) -> Any:
    """Awaits an async function, runs a sync one in a thread of its own; `timeout` in seconds.

    Raises TimeoutError when the time is over, else whatever the function raises. A thread cannot be stopped from outside: the
    wait ends, the thread goes on, so a sync function should look at its own deadline.
    """
    try:
        async with asyncio.timeout(timeout):
            result = function(*args) if is_async(function) else await _in_thread(function, args)
            return await result if inspect.isawaitable(result) else result
    except SystemExit as fault:
        # A tool that calls sys.exit would otherwise end the worker that runs it, and every other call with it.
        raise RuntimeError("the function tried to end the process") from fault


def is_async(function: Callable[..., Any]) -> bool:
    """True for coroutine functions, also behind functools.partial, and for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # its kind is asked, not whether it exists


async def _in_thread(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A daemon thread a call: a pool would be filled by a few that never return, and would hold up the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(result: Any, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is None:
            future.set_result(result)
        else:
            future.set_exception(fault)

    def body() -> None:
        result: Any = None
        fault: BaseException | None = None
        try:
            result = context.run(function, *args)
        except (StopIteration, SystemExit, KeyboardInterrupt) as odd:
            fault = RuntimeError(f"the function raised {type(odd).__name__}")  # a future cannot carry these to its waiter
        except BaseException as raised:  # the waiter gets it, whatever it is
            fault = raised
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(deliver, result, fault)
            except RuntimeError:
                return  # the loop closed in between: nobody waits any more

    threading.Thread(target=body, name=f"tool:{getattr(function, '__name__', 'function')}", daemon=True).start()
    return await future
