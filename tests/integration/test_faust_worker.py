"""A stage on a real consumer group: nothing is lost, nothing is committed too early, whatever ends a process."""

from __future__ import annotations

import dataclasses
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fourgates.contract.canonical import digest
from fourgates.contract.events import CallCleared, ClearedKind, LedgerKind
from fourgates.contract.partition import partition_of
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_CLEARED, CALLS_LEDGER, RECORDS_DEAD
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.topics import create_topics
from support.eventually import eventually
from support.kafka import committed_offsets, no_topics
from support.records import codec
from support.samples import CALL
from support.worker_process import GROUP, WorkerProcess, start_worker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(150)]


class World:
    """The topics, a writer that clears calls, and the workers that a test starts."""

    def __init__(self, bootstrap: str, folder: Path, bus: KafkaBus, keyring: Any) -> None:
        self.bootstrap, self.folder, self.bus = bootstrap, folder, bus
        self._authorizer = RecordWriter(codec(), keyring.signer("authorizer"))
        self._publisher = bus.publisher(self._authorizer)
        self._workers: list[WorkerProcess] = []
        self._count = 0

    def record(self, tool: str, partition: int, **wish: Any) -> CallCleared:
        """A cleared call that lands on that partition."""
        while True:
            self._count += 1
            call_id = f"{self._count:064x}"
            if partition_of(call_id.encode(), CALL_PARTITIONS) == partition:
                break
        call = dataclasses.replace(CALL, call_id=call_id, tool=tool, arguments=json.dumps(wish), args_digest=digest(wish))
        return CallCleared(event_id=f"{self._count:032x}", producer="test", kind=ClearedKind.CLEARED, call=call, verdicts=())

    async def clear(self, tool: str = "ok", partition: int = 3, **wish: Any) -> Position:
        return await self._publisher.publish(self.record(tool, partition, **wish))

    def encoded(self, tool: str = "ok", partition: int = 3) -> tuple[bytes, bytes]:
        _, key, value = self._authorizer.encode(self.record(tool, partition))
        return key, value

    async def worker(self, **settings: Any) -> WorkerProcess:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        log = self.folder / f"worker-{len(self._workers)}.log"
        worker = start_worker(self.bootstrap, self.folder / "keys", log, port, **settings)
        self._workers.append(worker)
        await worker.ready()
        return worker

    async def answers(self) -> list[Envelope]:
        return await self.bus.opened(CALLS_LEDGER)

    async def answered(self, positions: list[Position]) -> list[Envelope]:
        """Waits until each of these records has an answer; all answers, repetitions included."""
        wanted = {(p.partition, p.offset) for p in positions}

        async def all_there() -> list[Envelope] | None:
            found = await self.answers()
            return found if wanted <= {(e.record.cause.partition, e.record.cause.offset) for e in found} else None

        found: list[Envelope] = await eventually(all_there, 60)
        return found

    async def dead(self, number: int) -> list[Any]:
        async def enough() -> list[Any] | None:
            found = [envelope.record for envelope in await self.bus.opened(RECORDS_DEAD)]
            return found if len(found) >= number else None

        found: list[Any] = await eventually(enough)
        return found

    async def committed(self, partition: int = 3) -> int:
        return (await committed_offsets(self.bootstrap, GROUP, CALLS_CLEARED)).get(partition, 0)

    async def committed_up_to(self, offset: int, partition: int = 3) -> None:
        async def there() -> bool:
            return await self.committed(partition) == offset

        await eventually(there)

    def stop(self) -> None:
        for worker in self._workers:
            worker.stop()


@pytest.fixture
async def world(fresh_kafka: LocalBroker, tmp_path: Path) -> AsyncIterator[World]:
    keyring = DevKeys.load(tmp_path / "keys")
    async with KafkaBus(fresh_kafka.bootstrap, RecordOpener(codec(), keyring.verifier())) as bus:
        world = World(fresh_kafka.bootstrap, tmp_path, bus, keyring)
        try:
            yield world
        finally:
            world.stop()


async def test_what_proves_nothing_is_dead_lettered_and_the_partition_goes_on(world: World) -> None:
    """P6"""
    await world.worker()
    key, good = world.encoded()
    elsewhere, _ = world.encoded(partition=5)
    await world.bus.raw.append(CALLS_CLEARED, key, None, 3)
    await world.bus.raw.append(CALLS_CLEARED, b"", b"", 3)
    await world.bus.raw.append(CALLS_CLEARED, key, b"no avro", 3)
    await world.bus.raw.append(CALLS_CLEARED, key, b"\0\0\0\0\1" + good[5:], 3)
    await world.bus.raw.append(CALLS_CLEARED, key, good[:-1] + bytes([good[-1] ^ 1]), 3)
    await world.bus.raw.append(CALLS_CLEARED, key, good, 5)
    await world.bus.raw.append(CALLS_CLEARED, elsewhere, good, 3)
    await world.bus.raw.append(CALLS_CLEARED, key, b"\0" * 1_010_000, 3)
    poison = await world.clear("poison")
    last = await world.clear()
    answers = await world.answered([last])
    assert [e.record.cause.offset for e in answers] == [last.offset]
    dead = await world.dead(9)
    assert sorted(record.reason for record in dead) == sorted(
        ["null_value", "malformed_avro", "malformed_avro", "unknown_schema", "bad_seal", "wrong_partition", "wrong_key",
         "too_large", "test_poison"]
    )  # fmt: skip
    assert {record.worker for record in dead} == {GROUP}
    assert max(len(record.payload) for record in dead) == 65_536
    (asked,) = [record for record in dead if record.reason == "test_poison"]
    assert (asked.topic, asked.partition, asked.offset) == (poison.topic, poison.partition, poison.offset)
    await world.committed_up_to(last.offset + 1)


async def test_a_slow_record_holds_back_nothing_but_the_commit(world: World) -> None:
    """E11"""
    await world.worker(drain=0)
    head = await world.clear("slow", seconds=60)
    others = [await world.clear() for _ in range(30)]
    answers = await world.answered(others)
    assert len(answers) == 30
    elsewhere = await world.clear(partition=4)
    await world.answered([elsewhere])
    await world.committed_up_to(elsewhere.offset + 1, 4)
    assert await world.committed() == head.offset


async def test_records_are_folded_in_offset_order_also_while_earlier_ones_wait(world: World) -> None:
    tools = ["slow" if n % 7 == 0 else "ok" for n in range(60)]
    positions = [await world.clear(tool, seconds=0.3) for tool in tools]
    await world.worker()
    answers = await world.answered(positions)
    folded = {e.record.cause.offset: json.loads(e.record.detail)["folded"] for e in answers}
    assert [folded[p.offset] for p in positions] == list(range(1, 61))


async def test_kill_9_loses_nothing_and_repeats_the_same_event_ids(world: World) -> None:
    """E5"""
    first = await world.worker()
    done = [await world.clear() for _ in range(20)]
    await world.answered(done)
    under_way = [await world.clear("slow", seconds=3) for _ in range(5)]
    behind = [await world.clear() for _ in range(20)]
    await world.answered(behind)
    first.signal(signal.SIGKILL)
    await first.ended()
    assert await world.committed() <= under_way[0].offset
    await world.worker()
    answers = await world.answered(done + under_way + behind)
    by_cause: dict[tuple[int, int], set[str]] = {}
    for envelope in answers:
        cause = envelope.record.cause
        by_cause.setdefault((cause.partition, cause.offset), set()).add(envelope.record.event_id)
    assert len(by_cause) == 45
    assert all(len(event_ids) == 1 for event_ids in by_cause.values())
    await world.committed_up_to(behind[-1].offset + 1)


async def test_sigterm_drains_commits_and_ends_with_0(world: World) -> None:
    """S3"""
    worker = await world.worker()
    positions = [await world.clear("slow", seconds=2) for _ in range(10)]

    async def taken() -> bool:
        return b'fourgates_records_under_way{stage="executor"} 10.0' in (await worker.get("/metrics")).content

    await eventually(taken)
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    answers = await world.answers()
    assert len(answers) == 10
    assert await world.committed() == positions[-1].offset + 1


async def test_work_beyond_the_drain_is_cancelled_and_comes_again(world: World) -> None:
    worker = await world.worker(drain=1)
    quick, slow = await world.clear(), await world.clear("slow", seconds=120)
    await world.answered([quick])
    worker.signal(signal.SIGINT)
    assert await worker.ended(20) == 0
    assert await world.committed() == slow.offset


async def test_a_second_worker_takes_its_part_and_nothing_is_lost(world: World) -> None:
    """S1"""
    first = await world.worker()
    before = [await world.clear("slow", n % CALL_PARTITIONS, seconds=2) for n in range(24)]
    await world.worker()
    after = [await world.clear("ok", n % CALL_PARTITIONS) for n in range(48)]
    answers = await world.answered(before + after)
    pids = {json.loads(e.record.detail)["pid"] for e in answers}
    assert len(pids) == 2
    causes = [(e.record.cause.partition, e.record.cause.offset) for e in answers]
    assert len(causes) == len(set(causes)) == 72
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0
    rest = [await world.clear("ok", n) for n in range(CALL_PARTITIONS)]
    await world.answered(rest)


async def test_a_new_owner_folds_what_was_committed_before_it_handles_anything(world: World) -> None:
    first = await world.worker()
    before = [await world.clear() for _ in range(10)]
    await world.answered(before)
    first.signal(signal.SIGTERM)
    assert await first.ended() == 0
    await world.worker()
    last = await world.clear()
    (answer,) = [e for e in await world.answered([last]) if e.record.cause.offset == last.offset]
    assert json.loads(answer.record.detail)["folded"] == 11


async def test_what_is_away_is_tried_again_without_a_commit(world: World) -> None:
    await world.worker()
    away = await world.clear("away", times=4)
    after = await world.clear()
    await world.answered([after])
    await world.answered([away])
    await world.committed_up_to(after.offset + 1)


async def test_an_unforeseen_exception_is_owned_up_to_and_tells_no_payload(world: World) -> None:
    """R5, S6"""
    worker = await world.worker()
    broken, after = await world.clear("broken"), await world.clear()
    answers = await world.answered([broken, after])
    kinds = {e.record.cause.offset: e.record.kind for e in answers}
    assert kinds == {broken.offset: LedgerKind.REFUSED, after.offset: LedgerKind.REPLAYED}
    (dead,) = await world.dead(1)
    assert (dead.reason, dead.offset) == ("unforeseen", broken.offset)
    assert "RuntimeError" in dead.detail
    assert "hunter2" not in dead.detail + worker.log.read_text()


async def test_five_unforeseen_exceptions_in_a_row_end_the_process(world: World) -> None:
    worker = await world.worker()
    for _ in range(4):
        await world.clear("broken")
    await world.answered([await world.clear()])
    broken = [await world.clear("broken") for _ in range(5)]
    assert await worker.ended() == 1
    await world.dead(9)
    await world.worker()
    after = await world.clear()
    await world.answered([after, *broken])


async def test_a_worker_tells_that_it_is_ready_and_survives_sigusr2(world: World) -> None:
    """S3"""
    worker = await world.worker()
    worker.signal(signal.SIGUSR2)
    await world.answered([await world.clear()])
    assert (await worker.get("/healthz")).text == "ok\n"
    metrics = (await worker.get("/metrics")).text
    assert 'fourgates_ready{stage="executor"} 1.0' in metrics
    assert 'fourgates_records_total{end="handled",stage="executor"} 1.0' in metrics


async def test_the_same_key_is_handled_one_after_the_other(world: World) -> None:
    """E1"""
    await world.worker()
    record = world.record("slow", 3, seconds=1)
    publisher = world.bus.publisher(RecordWriter(codec(), DevKeys.load(world.folder / "keys").signer("authorizer")))
    twice = [await publisher.publish(record), await publisher.publish(record)]
    other = await world.clear()
    answers = await world.answered([*twice, other])
    times = {e.record.cause.offset: e.time_ms for e in answers}
    assert times[twice[1].offset] - times[twice[0].offset] >= 900
    assert times[other.offset] < times[twice[0].offset]


def _entries(log: Path, *, where: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    return [entry for line in log.read_text().splitlines() if line.startswith("{") and where(entry := json.loads(line))]


async def test_logs_are_one_json_object_a_line(world: World) -> None:
    worker = await world.worker()
    worker.signal(signal.SIGTERM)
    assert await worker.ended() == 0
    lines = worker.log.read_text().splitlines()
    assert all(line.startswith("{") for line in lines), [line for line in lines if not line.startswith("{")]
    assert _entries(worker.log, where=lambda entry: entry["event"] == "assigned")


async def test_without_topics_a_worker_does_not_start(world: World) -> None:
    await no_topics(world.bootstrap)
    worker = start_worker(world.bootstrap, world.folder / "keys", world.folder / "worker.log", 0)
    try:
        assert await worker.ended() == 2
    finally:
        worker.stop()
        await create_topics(world.bootstrap)
    assert "fourgates topics create" in worker.log.read_text()


async def test_records_that_wait_without_any_progress_end_the_process(world: World) -> None:
    worker = await world.worker(stall=2)
    hung = await world.clear("slow", seconds=1_000)
    assert await worker.ended() == 1
    assert "nothing happened for 2 s" in worker.log.read_text()
    assert await world.committed() == hung.offset


async def test_a_worker_goes_on_after_its_broker_was_killed(fragile: LocalBroker, tmp_path: Path) -> None:
    """E5"""
    await create_topics(fragile.bootstrap)
    keyring = DevKeys.load(tmp_path / "keys")
    async with KafkaBus(fragile.bootstrap, RecordOpener(codec(), keyring.verifier())) as bus:
        world = World(fragile.bootstrap, tmp_path, bus, keyring)
        try:
            worker = await world.worker()
            before = [await world.clear("slow", n, seconds=2) for n in range(CALL_PARTITIONS)]
            await fragile.kill()
            await fragile.start()
            after = [await world.clear("ok", n) for n in range(CALL_PARTITIONS)]
            answers = await world.answered(before + after)
            assert {json.loads(e.record.detail)["pid"] for e in answers} == {worker.child.pid}
            await world.committed_up_to(after[3].offset + 1)
            worker.signal(signal.SIGTERM)
            assert await worker.ended() == 0
        finally:
            world.stop()


async def test_a_worker_told_to_end_while_its_broker_is_frozen_ends_in_bounded_time(fragile: LocalBroker, tmp_path: Path) -> None:
    await create_topics(fragile.bootstrap)
    keyring = DevKeys.load(tmp_path / "keys")
    async with KafkaBus(fragile.bootstrap, RecordOpener(codec(), keyring.verifier())) as bus:
        world = World(fragile.bootstrap, tmp_path, bus, keyring)
        try:
            worker = await world.worker(drain=1)
            await world.answered([await world.clear()])
            fragile.pause()
            worker.signal(signal.SIGTERM)
            await worker.ended(60)
        finally:
            world.stop()
            fragile.resume()
