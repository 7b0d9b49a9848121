"""How requests get onto the log and answers come back: a small protocol, and its adapter for any bus with our ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fourgates.contract.avro import AvroCodec
from fourgates.contract.events import CallRequested
from fourgates.contract.ports import Following, Publisher, Signer, Sink
from fourgates.contract.seals import RecordWriter
from fourgates.contract.topology import CALLS_COMPLETED


class Transport(Protocol):
    """What a Client needs of the world."""

    async def publish(self, request: CallRequested, signer: Signer) -> None:
        """Appends the request, sealed by the run's key. Raises Transient while the log is away."""

    async def follow_completed(self, sink: Sink, missed: Callable[[], None]) -> None:
        """From now on gives every completed call to `sink`; calls `missed` after a gap. Raises Transient."""

    async def close(self) -> None:
        """Ends the following."""


class Bus(Protocol):
    """What the in-process bus and Kafka's have in common."""

    def publisher(self, writer: RecordWriter) -> Publisher: ...

    async def follow_from_end(self, topic: str, sink: Sink) -> Following: ...


class BusTransport:
    """A transport over a bus that somebody else starts and ends."""

    def __init__(self, bus: Bus, codec: AvroCodec) -> None:
        self._bus, self._codec = bus, codec
        self._following: Following | None = None

    async def publish(self, request: CallRequested, signer: Signer) -> None:
        await self._bus.publisher(RecordWriter(self._codec, signer)).publish(request)

    async def follow_completed(self, sink: Sink, missed: Callable[[], None]) -> None:
        self._following = await self._bus.follow_from_end(CALLS_COMPLETED, sink)

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
