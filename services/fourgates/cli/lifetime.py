"""How long a command that stays runs: to its end, or until SIGTERM or ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import uvloop


def until_told(work: Coroutine[Any, Any, None]) -> bool:
    """Runs `work` to its end, or until a signal cancels it: True then. A second signal does not wait for its cleaning up."""

    async def told() -> bool:
        doing, loop = asyncio.ensure_future(work), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, doing.cancel)
        with suppress(asyncio.CancelledError):
            await doing
        return doing.cancelled()

    return uvloop.run(told())
