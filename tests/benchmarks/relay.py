"""One hop of the bare relay that the pipeline is compared with, a process of its own: each record goes to the next topic."""

from __future__ import annotations

import sys

import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer


async def relay(bootstrap: str, source: str, target: str) -> None:
    """Until it is killed. Says `ready` once it has its partitions."""
    consumer = AIOKafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id=f"relay-{source}", enable_auto_commit=True, auto_offset_reset="earliest"
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    await consumer.start()
    await producer.start()
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=50)
    print("ready", flush=True)
    while True:
        for batch in (await consumer.getmany(timeout_ms=1000)).values():
            for record in batch:
                await producer.send(target, record.value, key=record.key)


if __name__ == "__main__":
    uvloop.run(relay(*sys.argv[1:4]))
