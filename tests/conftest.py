"""One real broker for the whole session, started when the first test asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fourgates.runtime.local_broker import LocalBroker, kafka_available
from fourgates.runtime.topics import create_topics
from support.kafka import finish, fresh_topics

LIBS = Path(__file__).resolve().parents[1] / "build" / "kafka-libs"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The session's broker with all topics. Tests that kill or pause a broker start one of their own."""
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
