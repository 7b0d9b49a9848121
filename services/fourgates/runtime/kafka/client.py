"""What every Kafka client of ours shares: its settings, and what the library's errors mean to us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord
from aiokafka.errors import (
    ConsumerStoppedError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    RecordTooLargeError,
)

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Position, Received
from fourgates.runtime.intake import FatalError

T = TypeVar("T")
REQUEST_SECONDS = 30.0
CLOSE_SECONDS = 10.0
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError, RecordTooLargeError)


def meaning(error: BaseException) -> Exception:
    """Transient where trying again may help, ValueError for a record that is too large, FatalError for the rest.

    The rest is for instance a fenced producer, a closed client, a missing right: nothing that this process can mend.
    """
    name = type(error).__name__
    if isinstance(error, (KafkaTimeoutError, KafkaConnectionError, TimeoutError, OSError)) or getattr(error, "retriable", False):
        return Transient(f"Kafka: {name}")
    if isinstance(error, _TOO_LARGE):
        return ValueError(f"the record is too large for Kafka: {name}")
    return FatalError(f"Kafka: {name}")


async def bounded(work: Awaitable[T], seconds: float = REQUEST_SECONDS) -> T:
    """Awaits a client's request no longer than `seconds`; its errors come out as what they mean."""
    try:
        return await asyncio.wait_for(work, seconds)
    except (KafkaError, ConsumerStoppedError, TimeoutError, OSError) as error:
        raise meaning(error) from error


def received_of(record: ConsumerRecord[Any, Any]) -> Received:
    """A record as the ports know it. Its time is the broker's on every topic of ours (LogAppendTime)."""
    where = Position(record.topic, record.partition, record.offset)
    return Received(where, record.timestamp, record.key or b"", record.value, tuple(record.headers))


def plain_consumer(bootstrap: str, *, fetch_bytes: int) -> AIOKafkaConsumer:
    """A consumer without a group. `fetch_bytes` bounds what it holds in memory."""
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        request_timeout_ms=int(REQUEST_SECONDS * 1000),
        fetch_max_bytes=fetch_bytes,
        # Each partition's share is held beside those of the others; a larger record comes all the same.
        max_partition_fetch_bytes=min(max(fetch_bytes // 8, 65_536), 1_048_576),
    )


async def start_consumer(consumer: AIOKafkaConsumer) -> None:
    """Connects; a consumer that could not is closed again. Raises Transient or FatalError."""
    try:
        await bounded(consumer.start())
    except BaseException:
        await stop_consumer(consumer)
        raise


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Closes it, in bounded time also where the broker does not answer."""
    try:
        await asyncio.wait_for(consumer.stop(), CLOSE_SECONDS)
    except (KafkaError, TimeoutError, OSError):
        return  # the broker is away: its side of the connection ends by itself
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # else it is one of the client's own tasks that was cancelled while it waited for an absent broker, and nobody means us
