"""Many calls that wait for people, and one waiter's process over real Kafka: what the evidence of approval is measured with."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from fourgates.cli.local import free_ports
from fourgates.contract.events import ApprovalKind
from fourgates.contract.ports import Position
from fourgates.contract.seals import RecordOpener
from fourgates.contract.topology import APPROVALS
from fourgates.runtime.children import end_group, spawn
from fourgates.runtime.kafka import KafkaBus
from support.downstream import Downstream
from support.eventually import eventually
from support.scribe import Scribe, Scribes, Sealed
from support.toolbox import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
GROUP = "waiter"
_BATCH, _BATCHES_AT_ONCE = 500, 3
_LOOK_S = 0.1


class ManyHolds:
    """Writes holds, and starts and ends the waiter."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.folder, self.bootstrap = folder, bootstrap
        Downstream(folder / "downstream.sqlite")
        self.scribe = Scribe(folder)
        self.bus = KafkaBus(bootstrap, RecordOpener(self.scribe.codec, self.scribe.keyring.verifier()))
        self.written = 0
        self._port = free_ports(1)[0]
        self._child: Any = None

    async def write(self, count: int, expires: Callable[[int], int]) -> None:
        """So many new holds about which nobody was asked yet, the n-th expiring at `expires(n)`."""
        await self._write(count, expires, asked=False)

    async def write_asked(self, count: int, expires: Callable[[int], int]) -> None:
        """The same with the waiter's questions, as if it had asked about all of them and committed that. It must not run."""
        assert self._child is None
        await self._write(count, expires, asked=True)
        await self._commit(await self.bus.ends(APPROVALS))

    async def _write(self, count: int, expires: Callable[[int], int], *, asked: bool) -> None:
        if count <= _BATCH:  # not worth two processes
            batch = {self.written + n: expires(n) for n in range(count)}
            positions = await self._append(self.scribe.helds(batch))
            if asked:
                await self._append(self.scribe.questions(batch, positions))
        else:
            await self._write_many(count, expires, asked=asked)
        self.written += count

    async def _write_many(self, count: int, expires: Callable[[int], int], *, asked: bool) -> None:
        numbers = range(count)
        batches = [{self.written + n: expires(n) for n in numbers[at : at + _BATCH]} for at in numbers[::_BATCH]]
        places = asyncio.Semaphore(_BATCHES_AT_ONCE)
        async with Scribes(self.folder) as scribes:

            async def one(batch: dict[int, int]) -> None:
                async with places:
                    positions = await self._append(await scribes.helds(batch))
                    if asked:
                        await self._append(await scribes.questions(batch, positions))

            await asyncio.gather(*map(one, batches))

    async def _append(self, records: list[Sealed]) -> list[Position]:
        return await asyncio.gather(*(self.bus.raw.append(*record) for record in records))

    async def _commit(self, offsets: Mapping[int, int]) -> None:
        """For the waiter's group, in which nobody is now."""
        todo = {TopicPartition(APPROVALS, number): offset for number, offset in offsets.items()}
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=GROUP, enable_auto_commit=False)
        await consumer.start()
        try:
            consumer.assign(list(todo))

            async def committed() -> bool:
                with suppress(KafkaError):  # the last member may not have left yet
                    await consumer.commit(todo)
                    return True
                return False

            await eventually(committed, 60)
        finally:
            await consumer.stop()

    async def start_waiter(self) -> float:
        """Seconds from the process's start until it says that it is ready."""
        environment = {
            **os.environ, VARIABLE: str(self.folder), "FOURGATES_BOOTSTRAP": self.bootstrap,
            "FOURGATES_HOME": str(self.folder / "home"), "FOURGATES_CATALOG": "support.toolbox:catalog",
            "FOURGATES_HEALTH": f"127.0.0.1:{self._port}", "FOURGATES_WORKER__SESSION": "10",
            "FOURGATES_LOG_LEVEL": "warning", "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "services")]),
        }  # fmt: skip
        began = time.monotonic()
        argv = (sys.executable, "-m", "fourgates.cli", "run", "waiter")
        self._child = spawn(argv, self.folder / "waiter.log", env=environment)
        async with httpx.AsyncClient(trust_env=False) as http:

            async def ready() -> bool:
                await asyncio.sleep(_LOOK_S)  # it shares the processors with us
                with suppress(httpx.HTTPError):
                    return (await http.get(f"http://127.0.0.1:{self._port}/readyz")).is_success
                return False

            await eventually(ready, 600)
        return time.monotonic() - began

    async def end_waiter(self) -> None:
        """In order: what is finished is committed."""
        child, self._child = self._child, None
        if child is not None:
            await asyncio.to_thread(end_group, child, 30.0)

    def memory_mb(self) -> tuple[float, float]:
        """What the waiter's process occupies now, and at its most."""
        status = Path(f"/proc/{self._child.pid}/status").read_text().splitlines()
        found = {line.partition(":")[0]: line.split() for line in status}
        return int(found["VmRSS"][1]) / 1024, int(found["VmHWM"][1]) / 1024

    def cpu_s(self) -> float:
        """Seconds of processor time that the waiter's process has used."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def asked(self, count: int) -> None:
        """Returns once the log holds a Held and a Requested of so many."""
        await eventually(lambda: self._reached(2 * count), 600)

    async def _reached(self, records: int) -> bool:
        await asyncio.sleep(_LOOK_S)
        return sum((await self.bus.ends(APPROVALS)).values()) >= records

    async def expired(self, due: Mapping[str, int]) -> dict[str, int]:
        """Hold -> broker time of the Expired that counted: the first at or after its time."""
        found: dict[str, int] = {}
        codec = self.scribe.codec
        async for received in self.bus.scan(APPROVALS):
            if codec.glance(APPROVALS, received.value) != (ApprovalKind.EXPIRED.value, received.key.decode()):
                continue
            hold_id = codec.decode(APPROVALS, received.value).hold_id  # type: ignore[attr-defined]  # an ApprovalEvent
            if received.time_ms >= due.get(hold_id, received.time_ms + 1):
                found.setdefault(hold_id, received.time_ms)
        return found
