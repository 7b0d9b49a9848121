"""The transport over Kafka: follows calls.completed from its end, and follows it anew where the reading breaks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fourgates.contract.avro import AvroCodec
from fourgates.contract.errors import Transient
from fourgates.contract.events import CallRequested
from fourgates.contract.ports import Signer, Sink, Verifier
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import CALLS_COMPLETED
from fourgates.runtime.intake import FatalError
from fourgates.runtime.kafka import KafkaBus

_AGAIN_S = 1.0


class KafkaTransport:
    """One connection of a host. `verifier` must know the sanitizer's keys."""

    def __init__(self, bootstrap: str, codec: AvroCodec, verifier: Verifier) -> None:
        self._bootstrap, self._codec = bootstrap, codec
        self._opener = RecordOpener(codec, verifier)
        self._bus: KafkaBus | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def publish(self, request: CallRequested, signer: Signer) -> None:
        if self._bus is None:
            raise Transient("Kafka: not connected at the moment")
        await self._bus.publisher(RecordWriter(self._codec, signer)).publish(request)

    async def follow_completed(self, sink: Sink, missed: Callable[[], None]) -> None:
        self._bus = await self._connect(sink)
        self._keeping = asyncio.create_task(self._keep(sink, missed))

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        if self._bus is not None:
            await self._bus.close()

    async def _connect(self, sink: Sink) -> KafkaBus:
        bus = KafkaBus(self._bootstrap, self._opener)
        try:
            await bus.start()
            await bus.follow_from_end(CALLS_COMPLETED, sink)
        except BaseException:
            await bus.close()
            raise
        return bus

    async def _keep(self, sink: Sink, missed: Callable[[], None]) -> None:
        """A host outlives a broken reading: it connects again, and whoever waits asks again."""
        while self._bus is not None:
            await self._bus.broken()
            broken, self._bus = self._bus, None
            await broken.close()
            while self._bus is None:
                try:
                    self._bus = await self._connect(sink)
                except (Transient, FatalError):
                    await asyncio.sleep(_AGAIN_S)
            missed()
