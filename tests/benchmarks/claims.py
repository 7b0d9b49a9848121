"""The bare claim: appended with acks=all and read back through the writer's own tail, with nothing else around it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from measuring import measure

from fourgates.contract.topology import CALL_PARTITIONS
from fourgates.runtime.kafka import KafkaAdmin

TOPIC = "bench.claims"
PAYLOAD = b"x" * 1_000
"""About the size of a Claimed."""


async def claims(bootstrap: str, levels: tuple[int, ...], seconds: float | None = None) -> dict[str, Any]:
    """Claims a second and their latency, won by being the first of their key in the log."""
    async with KafkaAdmin(bootstrap) as admin:
        await admin.create(TOPIC, CALL_PARTITIONS, 1, {})
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    await consumer.start()
    await producer.start()
    consumer.assign([TopicPartition(TOPIC, n) for n in range(CALL_PARTITIONS)])
    won: dict[bytes, bytes] = {}
    waiting: dict[tuple[int, int], asyncio.Future[None]] = {}
    seen: dict[int, int] = {}

    async def tail() -> None:
        async for record in consumer:
            won.setdefault(record.key, record.value)
            seen[record.partition] = record.offset
            if (arrived := waiting.pop((record.partition, record.offset), None)) is not None:
                arrived.set_result(None)

    async def one(n: int) -> None:
        key, value = f"{level}/{n}".encode(), f"{n:032x}".encode() + PAYLOAD
        placed = await (await producer.send(TOPIC, value, key=key))
        if seen.get(placed.partition, -1) < placed.offset:
            arrived = waiting[placed.partition, placed.offset] = asyncio.get_running_loop().create_future()
            await arrived
        if won.pop(key) != value:
            raise RuntimeError("somebody else won a claim that nobody else made")

    tailing = asyncio.create_task(tail())
    try:
        found = {}
        for level in levels:
            found[str(level)] = await (measure(one, level) if seconds is None else measure(one, level, seconds))
    finally:
        tailing.cancel()
        await consumer.stop()
        await producer.stop()
    return found
