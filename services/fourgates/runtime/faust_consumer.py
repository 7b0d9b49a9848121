"""Faust's consumer with a shorter way from a fetched record to the agent's queue, in the loop that handles the records.

Faust keeps its Kafka client in a thread with a loop of its own. A process that is busy then waits for the interpreter's lock at
each of the crossings, 5 ms a time: under load that alone was a tenth of a second a hop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from typing import Any, cast

from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport
from faust.types import TP

_YIELD_EVERY = 100


class _InOurLoop(AIOKafkaConsumerThread):
    """What Faust takes for its consumer's thread, without one: the same calls, awaited where they are made."""

    abstract = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, thread_loop=asyncio.get_event_loop(), **kwargs)

    async def start(self) -> None:
        self._thread_started.set()
        await self._default_start()

    async def stop(self) -> None:
        if not self._started.is_set() or self._stopped.is_set():
            return
        self._stopped.set()
        await self._shutdown_thread()

    async def call_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        called = fun(*args, **kwargs)
        return await called if inspect.isawaitable(called) else called

    async def cast_thread(self, fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        await self.call_thread(fun, *args, **kwargs)

    def set_shutdown(self) -> None:
        self._shutdown.set()


class _DirectConsumer(Consumer):
    """Hands a record on by one await; Faust's own loop makes four tasks for each, to be able to stop in the middle of it."""

    logger = logging.getLogger("faust.worker")

    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _InOurLoop(self, loop=self.loop, beacon=self.beacon)

    async def _drain_messages(self, fetcher: Any) -> None:
        try:
            while not (self.should_stop or fetcher.should_stop):
                count = 0
                async for tp, message in self.getmany(timeout=1.0):
                    await self._hand_on(tp, message)
                    count += 1
                    if count % _YIELD_EVERY == 0:
                        await asyncio.sleep(0)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise

    async def _hand_on(self, tp: TP, message: Any) -> None:
        read = self._read_offset[tp]
        if read is not None and message.offset < read:
            return
        if self.flow_active and not any(channel.queue.full() for channel in cast(Any, self.app.topics)._tp_index[tp]):
            await self.callback(message)  # goes into the queue without a suspension
        else:
            await self.wait_first(self.callback(message), self.suspend_flow.wait())
        self._read_offset[tp] = message.offset


class DirectTransport(Transport):
    Consumer = _DirectConsumer
