"""The sink when the store or it itself is killed, cut off, frozen or full: each record once, none missing."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fourgates.audit.build import open_store
from fourgates.audit.settings import SinkSettings, StoreSettings
from fourgates.audit.sink import AuditSink
from fourgates.audit.store import Store
from fourgates.contract.topology import AUDIT_WATERMARKS, AUDITED, CALLS_LEDGER
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_batches import MemoryBatches
from support.auditing import DDL, Engine, row_maker
from support.clickhouse_front import Front, FrontProcess, serving
from support.eventually import eventually
from support.file_log import write_log
from support.sealing import opener, writer
from support.stories import Tape, a_misspelt_call, a_read, a_waived_write
from support.tcp_proxy import Answers, TcpProxy, proxying

pytestmark = pytest.mark.engine

TESTS = Path(__file__).resolve().parents[2]


def days_of_calls(calls: int) -> Tape:
    tape = Tape()
    for number in range(calls):
        (a_read, a_waived_write, a_misspelt_call)[number % 3](tape, f"call-{number}")
    return tape


class Sinking:
    """A sink on a bus in memory, whose store is a server somewhere."""

    def __init__(self, store: Store, rows: int) -> None:
        self.bus, self.tape = MemoryBus(opener(), SystemClock()), Tape()
        self.batches = MemoryBatches(self.bus, "audit", AUDITED, most=rows)
        self.sink = AuditSink(
            store, row_maker(), self.bus.publisher(writer("audit")), SystemClock(), "audit@test",
            SinkSettings(rows=rows, age=0.01, heartbeat=0.05, retry_base=0.01, retry_cap=0.1),
        )  # fmt: skip

    def play(self, tape: Tape) -> int:
        for one in tape.received:
            self.bus.append(one.position.topic, one.key, one.value, one.position.partition)
        return len(tape.received)


@asynccontextmanager
async def sinking(url: str, rows: int = 40) -> AsyncIterator[Sinking]:
    store, _ = await asyncio.to_thread(open_store, StoreSettings(url=url), DDL)
    here = Sinking(store, rows)
    task = asyncio.create_task(here.sink.run(here.batches))
    try:
        yield here
    finally:
        await here.batches.close()
        await asyncio.wait((task,), timeout=10)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(store.close)


Fault = Callable[[TcpProxy, Front], Awaitable[None]]


async def _cut(proxy: TcpProxy, front: Front) -> None:
    await eventually(lambda: proxy.cut())


async def _answers_lost(proxy: TcpProxy, front: Front) -> None:
    before, proxy.answers = proxy.lost, Answers.CUT
    await eventually(lambda: proxy.lost >= before + 2)
    proxy.answers = Answers.PASS


async def _gone(proxy: TcpProxy, front: Front) -> None:
    proxy.refusing = True
    proxy.cut()
    await asyncio.sleep(0.3)  # what a server that is away looks like is a time without one
    proxy.refusing = False


async def _full(proxy: TcpProxy, front: Front) -> None:
    before, front.full = len(front.requests), True
    await eventually(lambda: len(front.requests) > before + 2)
    front.full = False


@pytest.mark.parametrize("fault", [_cut, _answers_lost, _gone, _full], ids=lambda fault: fault.__name__.strip("_"))
async def test_each_record_is_counted_once_whatever_the_store_does(engine: Engine, fault: Fault) -> None:
    """L2, L3: a server that is cut off, whose answer is lost, that is away, whose disk is full."""
    front = Front(engine.connect())
    tape = days_of_calls(60)
    async with (
        serving(front) as url,
        proxying(int(url.rpartition(":")[2])) as proxy,
        sinking(f"http://default@127.0.0.1:{proxy.port}") as here,
    ):
        count = here.play(tape)
        for _ in range(3):
            await fault(proxy, front)
        await eventually(lambda: here.sink.inserted == count, 60)
        ends = {place: len(here.bus.log(*place)) for place in here.batches.assigned() if place[0] == CALLS_LEDGER}
        await eventually(lambda: marks(here.bus) == ends)
    assert engine.one("SELECT count() FROM fourgates.records") == count
    assert engine.one("SELECT sum(asked) FROM fourgates.success") == 60


def marks(bus: MemoryBus) -> dict[tuple[str, int], int]:
    """The newest watermark of each of the ledger's partitions."""
    said = [envelope.record for envelope in bus.opened(AUDIT_WATERMARKS)]
    return {(mark.topic, mark.partition): mark.offset for mark in said if mark.topic == CALLS_LEDGER}


async def test_a_server_that_is_killed_again_and_again_has_each_record_once(tmp_path: Path) -> None:
    """L2: kill -9 of the server in the middle of inserts."""
    server = FrontProcess(tmp_path)
    await server.start()
    tape, dice = days_of_calls(120), random.Random(11)
    async with sinking(f"http://default@127.0.0.1:{server.port}", rows=60) as here:
        count = here.play(tape)
        for kills in range(2):
            await eventually(lambda k=kills: here.sink.inserted > k * count // 5)
            await asyncio.sleep(dice.random() * 0.1)
            server.kill()
            await eventually(lambda: here.sink.failing)
            await server.start()
        await eventually(lambda: here.sink.inserted == count, 60)
        assert await counted(server) == {"records": count, "invalid": 0, "asked": 120}
    server.kill()


async def counted(server: FrontProcess) -> dict[str, int]:
    """What lies in the store; another process has to look, for this one may hold another folder."""
    store, _ = await asyncio.to_thread(open_store, StoreSettings(url=f"http://default@127.0.0.1:{server.port}"), DDL)
    asked = "SELECT count() AS records, countIf(kind = 'invalid') AS invalid, (SELECT sum(asked) FROM fourgates.success) AS asked"
    (row,) = await asyncio.to_thread(store.query, f"{asked} FROM fourgates.records")
    await asyncio.to_thread(store.close)
    return {name: int(value) for name, value in row.items()}


async def test_a_sink_that_is_killed_again_and_again_has_each_record_once(tmp_path: Path) -> None:
    """L2: kill -9 of the process that holds the embedded engine, anywhere; at the end a backlog is read whole."""
    log, commits = tmp_path / "log", tmp_path / "commits.json"
    tape, dice = days_of_calls(200), random.Random(5)
    write_log(log, tape.received)
    argv = [sys.executable, "-m", "support.sink_process", str(tmp_path / "engine"), str(log), str(commits), "200"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    for kill in (True, True, False):
        child = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE, env=env)
        assert child.stdout is not None
        assert await child.stdout.readline() == b"reading\n"
        if kill:
            await asyncio.sleep(0.1 + dice.random() * 0.8)
            child.kill()
        out, _ = await child.communicate()
    assert out == b"done\n"
    server = FrontProcess(tmp_path)
    await server.start()
    assert await counted(server) == {"records": len(tape.received), "invalid": 0, "asked": 200}
    server.kill()
