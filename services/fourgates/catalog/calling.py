"""How a function of a catalog is called: async or sync, always with an end, and with an end that reaches down to it."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from .outcome import ToolError, ToolErrorKind
from .stopping import Stopped, Stopping

GRACE = 0.25
"""Seconds in which a function that was asked to stop may still say how it ended; then it is abandoned."""

MOST_ABANDONED = 64
"""Threads of one function that go on after they were abandoned. Beyond, it is not called until some have ended."""
_abandoned: Counter[int] = Counter()
"""By the function's id, which its threads keep from being given to another."""


async def invoke(function: Callable[..., Any], *args: Any, timeout: float, stop: asyncio.Event | None = None) -> Any:
    """Awaits an async function, runs a sync one in a thread of its own; `timeout` in seconds.

    When the time is over or `stop` is set, an async function is cancelled and a thread is asked to stop (`ctx.stopping`). What
    it returns, or declares as ToolError, within GRACE seconds counts: nobody knows better how it ended. Everything else is
    TimeoutError, or Stopped; a function that goes on in silence is abandoned. Otherwise raises what the function raises.
    """
    stopping = next((found for arg in args if isinstance(found := getattr(arg, "stopping", None), Stopping)), None)
    if stopping is not None:
        stopping.lasts(timeout)
    if timeout <= 0:
        raise TimeoutError
    running = asyncio.ensure_future(_run(function, args))
    wished = asyncio.ensure_future(stop.wait()) if stop is not None else None
    try:
        done, _ = await asyncio.wait(
            {running, wished} if wished else {running}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
        )
        if running in done:
            return _ended(running)
        return await _last_words(running, stopping, Stopped() if done else TimeoutError())
    finally:
        if wished is not None:
            wished.cancel()
        if not running.done():  # abandoned, or our own caller is gone
            if stopping is not None:
                stopping.request()
            running.add_done_callback(_unheard)
            running.cancel()


def is_async(function: Callable[..., Any]) -> bool:
    """True for coroutine functions, also behind functools.partial, and for objects with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  # its kind is asked, not whether it exists


async def _run(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        result = function(*args) if is_async(function) else await _in_thread(function, args)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as fault:
        # A tool that calls sys.exit would otherwise end the worker that runs it, and every other call with it.
        raise RuntimeError("the function tried to end the process") from fault


async def _last_words(running: asyncio.Task[Any], stopping: Stopping | None, told: Exception) -> Any:
    """What a function that should stop still says of itself; else raises `told`."""
    if stopping is not None:
        stopping.request()
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=2 * GRACE)
    if done and not running.cancelled():
        fault = running.exception()
        if fault is None:
            return running.result()
        if isinstance(fault, ToolError):
            raise fault
    raise told


def _ended(running: asyncio.Task[Any]) -> Any:
    if running.cancelled():  # let through, it would look like a wish of ours and end the work of others
        raise RuntimeError("the function cancelled itself")
    return running.result()


def _unheard(running: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more; asyncio would complain that nobody looked at how it ended."""
    if not running.cancelled():
        running.exception()


async def _in_thread(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A daemon thread a call: a pool would be filled by a few that never return, and would hold up the end of the process.

    A thread cannot be stopped from outside: cancelled, this waits GRACE seconds for what it may still say. Raises ToolError,
    with nothing started, where too many of the function's threads never came back.
    """
    if _abandoned.get(id(function), 0) >= MOST_ABANDONED:
        raise ToolError("stuck", "The tool does not answer.", ToolErrorKind.TRANSIENT, not_executed=True)
    answer = _start_thread(function, args)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        if not answer.done():
            await asyncio.wait({answer}, timeout=GRACE)
        if not answer.done():
            _abandoned[id(function)] += 1
            answer.add_done_callback(lambda late: _came_back(function, late))
            raise
        return answer.result()


def _came_back(function: Callable[..., Any], late: asyncio.Future[Any]) -> None:
    _unheard(late)
    _abandoned[id(function)] -= 1
    if not _abandoned[id(function)]:
        del _abandoned[id(function)]


def _start_thread(function: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
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
        except (StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError) as odd:
            fault = RuntimeError(f"the function raised {type(odd).__name__}")  # a future cannot carry these to its waiter
        except BaseException as raised:  # the waiter gets it, whatever it is
            fault = raised
        if not loop.is_closed():
            try:
                loop.call_soon_threadsafe(deliver, result, fault)
            except RuntimeError:
                return  # the loop closed in between: nobody waits any more

    threading.Thread(target=body, name=f"tool:{getattr(function, '__name__', 'function')}", daemon=True).start()
    return future
