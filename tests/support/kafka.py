"""Emptying the topics of a real broker between tests."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
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


async def remove_topics(admin: KafkaAdmin, names: Collection[str] = NAMES) -> None:
    """Removes these topics with their records; committed offsets go with them."""

    async def gone() -> bool:
        return not await admin.topics(names)

    if there := await admin.topics(names):
        await admin.delete(there)
        await eventually(gone)


async def used_topics(admin: KafkaAdmin, bootstrap: str) -> set[str]:
    """Those on which a record ever lay."""
    tps = [TopicPartition(name, n) for name, state in (await admin.topics(NAMES)).items() for n in range(state.partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        ends = await consumer.end_offsets(tps)
    finally:
        await consumer.stop()
    return {tp.topic for tp, end in ends.items() if end}


async def no_topics(bootstrap: str) -> None:
    """Removes all topics."""
    async with KafkaAdmin(bootstrap) as admin:
        await remove_topics(admin)


async def fresh_topics(bootstrap: str) -> None:
    """Makes all topics empty: those that were used are removed, which takes the broker long, and made again."""
    async with KafkaAdmin(bootstrap) as admin:
        await remove_topics(admin, await used_topics(admin, bootstrap))
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
