"""Emptying the topics of a real broker between tests."""

from __future__ import annotations

from aiokafka.admin import AIOKafkaAdminClient

from fourgates.contract.topology import TOPOLOGY
from fourgates.runtime.kafka import KafkaAdmin
from fourgates.runtime.topics import create_topics
from support.eventually import eventually

NAMES = tuple(topic.name for topic in TOPOLOGY)


async def fresh_topics(bootstrap: str) -> None:
    """Removes all topics with their records and makes them again; committed offsets go with them."""
    async with KafkaAdmin(bootstrap) as admin:

        async def gone() -> bool:
            return not await admin.topics(NAMES)

        await admin.delete(await admin.topics(NAMES))
        await eventually(gone)
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
