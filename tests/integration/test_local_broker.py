"""The local Kafka: as it is made, after a crash, and gone with whoever started it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.topology import CALLS_LEDGER, RECORDS_DEAD, TOPOLOGY
from fourgates.runtime import local_broker
from fourgates.runtime.children import end_group, spawn
from fourgates.runtime.kafka import KafkaAdmin, RawProducer
from fourgates.runtime.local_broker import LocalBroker, kafka_available
from fourgates.runtime.topics import Replication, await_broker, check_durability, check_topics, create_topics
from support.eventually import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(150)]


async def test_topics_are_made_once_and_accepted_afterwards(kafka: LocalBroker) -> None:
    assert kafka.version == "4.3.0"
    assert await create_topics(kafka.bootstrap) == ()
    await check_topics(kafka.bootstrap)
    async with KafkaAdmin(kafka.bootstrap) as admin:
        state = (await admin.topics([CALLS_LEDGER]))[CALLS_LEDGER]
    assert (state.partitions, state.replication) == (12, 1)
    assert state.config["message.timestamp.type"] == "LogAppendTime"


async def test_one_broker_is_enough_in_development_only(kafka: LocalBroker) -> None:
    await check_durability(kafka.bootstrap, "development")
    with pytest.raises(ConfigurationError, match="1 copies, at least 3 are needed"):
        await check_durability(kafka.bootstrap, "production")


async def test_more_copies_than_brokers_are_refused_with_the_brokers_reason(fragile: LocalBroker) -> None:
    with pytest.raises(ConfigurationError, match=r"does not create the topic calls\.requested"):
        await create_topics(fragile.bootstrap, Replication(3, 2))


async def test_missing_and_wrong_topics_are_named(fragile: LocalBroker) -> None:
    with pytest.raises(ConfigurationError, match=r"records\.dead.*fourgates topics create"):
        await check_topics(fragile.bootstrap)
    async with KafkaAdmin(fragile.bootstrap) as admin:
        await admin.create(RECORDS_DEAD, 3, 1, {})
        await eventually(lambda: admin.topics([RECORDS_DEAD]))
    with pytest.raises(ConfigurationError, match=r"records\.dead has 3 partitions, 12 are needed"):
        await create_topics(fragile.bootstrap)


async def test_records_survive_kill_9_of_the_broker_under_the_same_address(fragile: LocalBroker) -> None:
    """E5"""
    await create_topics(fragile.bootstrap)
    before = fragile.bootstrap
    async with RawProducer(fragile.bootstrap) as producer:
        first = await producer.append(CALLS_LEDGER, b"k", b"one", 0)
        await fragile.kill()
        await fragile.restart()
        assert fragile.bootstrap == before
        second = await producer.append(CALLS_LEDGER, b"k", b"two", 0)
    assert (first.offset, second.offset) == (0, 1)


async def test_a_frozen_broker_answers_nothing_until_it_is_resumed(fragile: LocalBroker) -> None:
    await create_topics(fragile.bootstrap)
    async with RawProducer(fragile.bootstrap) as producer:
        fragile.pause()
        waiting = asyncio.create_task(producer.append(CALLS_LEDGER, b"k", b"one", 0))
        done, _ = await asyncio.wait((waiting,), timeout=0.5)
        assert not done
        fragile.resume()
        assert (await asyncio.wait_for(waiting, 30)).offset == 0


async def test_an_absent_broker_is_waited_for_and_then_said_in_one_sentence() -> None:
    lines: list[str] = []
    started = time.monotonic()
    with pytest.raises(Transient, match=r"No Kafka broker answers at 127\.0\.0\.1:1 after 1 s"):
        await await_broker("127.0.0.1:1", seconds=1, progress=lines.append)
    assert time.monotonic() - started < 10
    assert lines
    assert "waiting for Kafka at 127.0.0.1:1" in lines[0]


_OWNER = """
import asyncio, signal, sys
from pathlib import Path
from fourgates.runtime.local_broker import LocalBroker

signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background is deaf to it

async def main():
    async with LocalBroker(Path(sys.argv[1]), libs=Path(sys.argv[2])) as broker:
        print("broker", broker.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child together with a killed parent")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_the_broker_ends_with_whoever_started_it(kafka: LocalBroker, tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "owner.log"
    owner = spawn([sys.executable, "-c", _OWNER, str(tmp_path / "broker"), str(kafka.libs)], log)
    try:
        said = await eventually(lambda: re.search(r"broker (\d+)\n", log.read_text()))
        pid = int(said[1])
        os.kill(pid, 0)
        os.kill(owner.pid, number)
        await asyncio.to_thread(owner.wait, 30)

        def gone() -> bool:
            try:
                os.kill(pid, 0)
            except ProcessLookupError:
                return True
            return False

        await eventually(gone, 90)  # it is told to end, and writes its logs down first
    finally:
        end_group(owner, 0)


def test_what_is_missing_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    which = local_broker.shutil.which
    monkeypatch.setattr(local_broker.shutil, "which", lambda name: None if name == "mvn" else which(name))
    assert "`mvn`" in (kafka_available(tmp_path) or "")
    monkeypatch.setattr(local_broker.shutil, "which", lambda name: None)
    assert "`java`" in (kafka_available(tmp_path) or "")


def test_the_topology_fits_on_one_broker_with_room() -> None:
    assert sum(topic.partitions for topic in TOPOLOGY) <= 200
