"""A stage's life in its group: state is loaded before the first record, work is drained before the partitions go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

import structlog

from fourgates.contract.errors import Transient
from fourgates.contract.ports import Position, Received, Stage
from fourgates.runtime.assignment import Assignment
from fourgates.runtime.health import Health
from fourgates.runtime.intake import RecordHandler, backoff
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.memory_use import give_back
from fourgates.runtime.worker_settings import WorkerSettings

T = TypeVar("T")
_log = structlog.get_logger("fourgates.membership")


class Group(Protocol):
    """The offsets of the group we are a member of."""

    async def committed(self) -> Mapping[int, int]: ...

    async def commit(self, offsets: Mapping[int, int]) -> bool: ...

    async def seek(self, partition: int, offset: int) -> None: ...


class Membership:
    """Nothing here raises to the group's client: what cannot go on comes to `failed`."""

    def __init__(
        self, stage: Stage, handler: RecordHandler, bus: KafkaBus, group: Group, settings: WorkerSettings, health: Health
    ) -> None:
        self._stage, self._handler, self._bus, self._group = stage, handler, bus, group
        self._settings, self._health = settings, health
        self.assignment = Assignment(handler, self, at_once=settings.at_once, span=settings.span, failed=self._fail)
        self.failed: Callable[[BaseException], None] = lambda fault: None
        self._hurried = False
        self._taking_up: asyncio.Task[None] | None = None

    def hurry(self) -> None:
        """From now on work under way is not waited for."""
        self._hurried = True

    async def take(self, received: Received) -> None:
        """A record of the group's topic; returns when there is room for the next."""
        await self.assignment.take(received)

    async def assigned(self) -> None:
        """Returns once the state is loaded, or a new rebalance made it pointless."""
        self._taking_up = asyncio.create_task(self._take_up())
        await asyncio.wait((self._taking_up,))

    async def revoked(self) -> None:
        """The partitions go: what is under way ends here, and what is finished is committed."""
        self._health.not_ready = "between two assignments"
        await self._let_go()

    async def ending(self) -> None:
        """The process ends while it is still a member: the next owner finds everything committed that is finished."""
        self._health.not_ready = "ending"
        await self._let_go()

    async def commit(self) -> None:
        """Commits what is finished. What cannot be committed now is tried again with the next round."""
        offsets = self.assignment.committable()
        if not offsets:
            return
        try:
            done = await self._group.commit(offsets)
        except TimeoutError:
            _log.warning("the commit was not answered", stage=self._stage.name)
            return
        if done:
            self.assignment.committed(offsets)
            self._bus.metrics.commits.labels(self._stage.name).inc()

    async def first_from(self, partition: int, offset: int) -> int:
        """See Rereading."""
        return await self._bus.first_from(Position(self._stage.reads, partition, offset))

    async def seek(self, partition: int, offset: int) -> None:
        """See Rereading."""
        await self._group.seek(partition, offset)

    async def _take_up(self) -> None:
        try:
            committed = await patiently(self._stage.name, self._group.committed)
            if committed:
                await patiently(self._stage.name, lambda: self._restore(committed))
                give_back()
            self.assignment.take_up(committed)
            self._bus.metrics.rebalances.labels(self._stage.name).inc()
            self._bus.metrics.ready.labels(self._stage.name).set(1)
            self._health.not_ready = ""
            _log.info("assigned", stage=self._stage.name, partitions=sorted(committed))
        except Exception as fault:
            self._fail(fault)

    async def _restore(self, committed: Mapping[int, int]) -> None:
        try:
            await self._stage.assigned(sorted(committed))
            if self._stage.restores:
                async for received in self._bus.scan(self._stage.reads, committed):
                    await self._handler.restore(received)
        except Transient:
            await self._stage.revoked()  # half a state: the next attempt begins with none
            raise

    async def _let_go(self) -> None:
        try:
            if self._taking_up is not None:
                self._taking_up.cancel()
                await asyncio.wait((self._taking_up,))
                self._taking_up = None
            await self.assignment.drain(0 if self._hurried else self._settings.drain)
            await self.commit()
            self.assignment.give_up()
            await self._stage.revoked()
        except Exception as fault:
            self._fail(fault)

    def _fail(self, fault: BaseException) -> None:
        self.failed(fault)


async def patiently(stage: str, work: Callable[[], Awaitable[T]]) -> T:
    """Tries again for as long as what is missing may come back."""
    attempt = 0
    while True:
        try:
            return await work()
        except (Transient, TimeoutError) as fault:
            attempt += 1
            _log.info("tried again", stage=stage, fault=str(fault), attempt=attempt)
        await asyncio.sleep(backoff(attempt))
