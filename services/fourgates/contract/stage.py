"""What all stages share: the empty parts of the Stage port, and how an emitted record names its cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fourgates.contract.parts import Cause
from fourgates.contract.ports import Emit, Envelope, Stage


class BaseStage:
    """A stage that keeps no state and knows no time; a stage overrides what it needs."""

    name: str
    reads: str
    restores: bool = False
    restores_briefly: bool = False

    async def start(self) -> None:
        """Nothing to load."""

    async def assigned(self, partitions: Sequence[int]) -> None:
        """No state per partition."""

    async def revoked(self) -> None:
        """Nothing to forget."""

    def fold(self, envelope: Envelope) -> Any:
        """Nothing to fold."""
        return None

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        raise TypeError(f"{type(self).__name__} does not handle records")

    async def tick(self) -> Sequence[Emit]:
        """Time alone brings nothing."""
        return ()

    async def close(self) -> None:
        """Nothing is held open."""


class WrappedStage:
    """A stage that passes everything on to another one; whoever wraps it for a reason overrides what that concerns."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.name, self.reads = stage.name, stage.reads
        self.restores, self.restores_briefly = stage.restores, stage.restores_briefly

    async def start(self) -> None:
        await self._stage.start()

    async def assigned(self, partitions: Sequence[int]) -> None:
        await self._stage.assigned(partitions)

    async def revoked(self) -> None:
        await self._stage.revoked()

    def fold(self, envelope: Envelope) -> Any:
        return self._stage.fold(envelope)

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        return await self._stage.handle(envelope)

    async def tick(self) -> Sequence[Emit]:
        return await self._stage.tick()

    async def close(self) -> None:
        await self._stage.close()


def cause_of(envelope: Envelope) -> Cause:
    """The input as the cause of what it makes happen."""
    where = envelope.position
    return Cause(event_id=envelope.record.event_id, topic=where.topic, partition=where.partition, offset=where.offset)
