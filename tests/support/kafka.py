"""Emptying the topics of a real broker between tests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka.admin import AIOKafkaAdminClient

from fourgates.contract.topology import TOPOLOGY
from fourgates.runtime.kafka import KafkaAdmin
from fourgates.runtime.topics import create_topics
from support.eventually import eventually

T = TypeVar("T")
NAMES = tuple(topic.name for topic in TOPOLOGY)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Runs it in a loop of its own, in this thread: Linux would end a broker together with another one."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def remove_topics(admin: KafkaAdmin) -> None:
    """Removes all topics with their records; committed offsets go with them."""

    async def gone() -> bool:
        return not await admin.topics(NAMES)

    await admin.delete(await admin.topics(NAMES))
    await eventually(gone)


async def no_topics(bootstrap: str) -> None:
    """Removes all topics."""
    async with KafkaAdmin(bootstrap) as admin:
        await remove_topics(admin)


async def fresh_topics(bootstrap: str) -> None:
    """Removes all topics and makes them again."""
    async with KafkaAdmin(bootstrap) as admin:
        await remove_topics(admin)
        await create_topics(bootstrap)


async def committed_offsets(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    """What the group has committed, by partition."""
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        offsets = await client.list_consumer_group_offsets(group)
        return {tp.partition: found.offset for tp, found in offsets.items() if tp.topic == topic and found.offset >= 0}
    finally:
        await client.close()
