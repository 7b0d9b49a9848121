"""One real broker for the whole session, started when the first test asks for it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from fourgates.runtime.local_broker import LocalBroker, kafka_available
from fourgates.runtime.topics import create_topics
from support.kafka import finish, fresh_topics, no_topics
from support.kafka_world import KafkaWorld

LIBS = Path(__file__).resolve().parents[1] / "build" / "kafka-libs"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The session's broker with all topics. Tests that kill or freeze a broker take `fragile`."""
    if (reason := kafka_available(LIBS)) is not None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"the tests on Kafka must run here: {reason}")
        pytest.skip(reason)
    broker = LocalBroker(tmp_path_factory.mktemp("kafka"), libs=LIBS)
    try:
        finish(broker.start())
        finish(create_topics(broker.bootstrap))
        yield broker
    finally:
        finish(broker.stop())


@pytest.fixture
def fresh_kafka(kafka: LocalBroker) -> LocalBroker:
    """The session's broker with empty topics."""
    finish(fresh_topics(kafka.bootstrap))
    return kafka


@pytest.fixture(scope="session")
def ill_treated(kafka: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A second broker, for tests that kill or freeze one; they leave it running and without topics: `fragile`."""
    broker = LocalBroker(tmp_path_factory.mktemp("ill-treated"), libs=kafka.libs)
    try:
        finish(broker.start())
        yield broker
    finally:
        finish(broker.stop())


@pytest.fixture
def fragile(ill_treated: LocalBroker) -> Iterator[LocalBroker]:
    """A broker without topics that a test may kill, freeze and start again."""
    yield ill_treated
    finish(ill_treated.start())
    finish(no_topics(ill_treated.bootstrap))


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def kafka_world(kafka: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaWorld]:
    """One pipeline of processes for all stories: they use orders of their own.

    On a broker of its own: others empty the session's topics between their tests.
    """
    async with LocalBroker(tmp_path_factory.mktemp("kafka-world-broker"), libs=kafka.libs) as broker:
        await create_topics(broker.bootstrap)
        made = KafkaWorld(broker.bootstrap, tmp_path_factory.mktemp("kafka-world"))
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
