"""Failpoints of a process in development: a test arms one by a file, and the process that comes there first does what it says.

`NAME@CALL_ID` in the folder (`NAME@` for any call) holds one word: `kill` (-9), `stop` (SIGSTOP), `raise`, or `hold` (wait until
the file is gone). Whoever takes it renames it to `NAME@CALL_ID.hit`, so that it counts once and the test sees that it did.

Names, each with `.before` and `.after`: `STAGE.handle` (a record is consumed), `STAGE.RECORD` or `STAGE.RECORD.KIND` (a record
is appended; `after` is acknowledged and not yet read back, such as `executor.LedgerEntry.Claimed.after`), `STAGE.commit`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fourgates.contract.events import Record
from fourgates.contract.ports import Emit, Envelope, Failpoints, Position, Publisher, Stage
from fourgates.contract.stage import WrappedStage
from fourgates.runtime.membership import Group

_LOOK_SECONDS = 0.01
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class Tripped(RuntimeError):
    """What `raise` raises: an exception that nobody foresaw."""


class FolderFailpoints:
    """Armed by files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def hit(self, name: str, call_id: str = "") -> None:
        for armed in {f"{name}@{call_id}", f"{name}@"}:
            taken = self._folder / f"{armed}.hit"
            try:
                (self._folder / armed).rename(taken)
            except FileNotFoundError:
                continue
            word = taken.read_text(encoding="utf-8").strip()
            if word in _SIGNALS:
                os.kill(os.getpid(), _SIGNALS[word])
            elif word == "raise":
                raise Tripped(name)
            else:
                while taken.exists():  # noqa: ASYNC110 - the test is another process: nothing of it can be awaited
                    await asyncio.sleep(_LOOK_SECONDS)


def call_of(record: Any) -> str:
    """The id of the call that a record is about; empty where it is about none."""
    call = getattr(record, "call", None)
    return str(call.call_id if call is not None else getattr(record, "call_id", ""))


class FailingPublisher:
    """A publisher with a point before and after each record."""

    def __init__(self, publisher: Publisher, failpoints: Failpoints, writer: str) -> None:
        self._publisher, self._failpoints, self._writer = publisher, failpoints, writer

    async def publish(self, record: Record, partition: int | None = None) -> Position:
        kind, call_id = getattr(record, "kind", None), call_of(record)
        name = ".".join((self._writer, type(record).__name__, *((kind.value,) if kind is not None else ())))
        await self._failpoints.hit(f"{name}.before", call_id)
        position = await self._publisher.publish(record, partition)
        await self._failpoints.hit(f"{name}.after", call_id)
        return position


class FailingStage(WrappedStage):
    """A stage with a point before and after each record that it handles."""

    def __init__(self, stage: Stage, failpoints: Failpoints) -> None:
        super().__init__(stage)
        self._failpoints = failpoints

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        call_id = call_of(envelope.record)
        await self._failpoints.hit(f"{self.name}.handle.before", call_id)
        emitted = await super().handle(envelope)
        await self._failpoints.hit(f"{self.name}.handle.after", call_id)
        return emitted


class FailingGroup:
    """A group with a point before and after each commit."""

    def __init__(self, group: Group, failpoints: Failpoints, stage: str) -> None:
        self._group, self._failpoints, self._stage = group, failpoints, stage

    async def committed(self) -> Mapping[int, int]:
        return await self._group.committed()

    async def commit(self, offsets: Mapping[int, int]) -> bool:
        await self._failpoints.hit(f"{self._stage}.commit.before")
        done = await self._group.commit(offsets)
        await self._failpoints.hit(f"{self._stage}.commit.after")
        return done

    async def seek(self, partition: int, offset: int) -> None:
        await self._group.seek(partition, offset)
