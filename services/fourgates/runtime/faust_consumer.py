"""Faust's consumer with a shorter way from a fetched record to the agent's queue: it halves what Faust costs for a record."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types import TP

_YIELD_EVERY = 100


class _DirectConsumer(Consumer):
    """Hands a record on by one await; Faust's own loop makes four tasks for each, to be able to stop in the middle of it."""

    logger = logging.getLogger("faust.worker")

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
