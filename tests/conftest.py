"""One real broker for each test process, started when its first test asks for it; and who runs what where there are several."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
from xdist.scheduler import LoadScopeScheduling

from fourgates.runtime.local_broker import LocalBroker, fetch_kafka, kafka_available
from fourgates.runtime.topics import create_topics
from support.fault_tally import SEED_VARIABLE
from support.kafka import finish, fresh_topics, no_topics
from support.kafka_world import KafkaWorld
from support.quick_java import quick_java

TESTS = Path(__file__).resolve().parent
LIBS = TESTS.parent / "build" / "kafka-libs"
SEED = "164954"
"""What chance decides in `make test` is the same each time; `make evidence-faults` and `make soak` take other seeds."""
MUST_RUN = "required"
"""What FOURGATES_TEST_KAFKA says in `make test`: without a broker the tests on Kafka fail; else they skip."""
LONGEST_FIRST = (
    "faults on Kafka", "stories on Kafka", "on the session's broker", "integration/test_cli_on_kafka.py", "faults",
    "integration/test_tools_in_the_pipeline.py", "corpora/test_retail.py", "browser", "integration", "contract", "corpora",
)  # fmt: skip
WITHOUT_BROKER = frozenset({"faults/test_in_process.py", "faults/test_mutants.py"})
ON_THE_BROKER = (
    "contract/test_batches.py", "contract/test_bus.py", "integration/test_approval_evidence.py",
    "integration/test_cli_switches.py", "integration/test_dead_replayed.py", "integration/test_faust_worker.py",
    "integration/test_kafka_bus.py", "integration/test_local_broker.py", "integration/test_sdk_on_kafka.py",
)  # fmt: skip
"""Whoever works on the session's broker itself: it is one for all of them."""
SHARED_IN_A_GROUP = ("kafka", "kafka_world", "faulty", "driver")
"""Fixtures of the session that one group of tests uses: processes that would idle until the session's end."""


# A busy machine is slow, not wrong; and no example that chance finds today fails what passed yesterday. Other examples:
# `--hypothesis-profile default`.
hypothesis.settings.register_profile(
    "same everywhere", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("same everywhere")


def pytest_configure(config: pytest.Config) -> None:
    """Before the first of several processes starts: what all of them would fetch, and one seed for all."""
    os.environ.setdefault(SEED_VARIABLE, SEED)
    if config.getoption("numprocesses", None) and kafka_available(LIBS) is None:
        asyncio.run(fetch_kafka(LIBS))
        quick_java(LIBS)
    gc.set_threshold(50_000, 20, 20)  # thousands of tests and all modules stay: looking through them often is wasted


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest come first, so that with `-n` no process ends long after the others."""
    items.sort(key=lambda item: _rank(_together(item.nodeid)))


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function, nextitem: pytest.Item | None) -> Iterator[None]:
    """What only this group uses ends with it."""
    yield
    if nextitem is None or _together(nextitem.nodeid) != _together(item.nodeid):
        for name in SHARED_IN_A_GROUP:
            for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
                fixture.finish(item._request)


class _ByWorld(LoadScopeScheduling):
    """With `-n`, a file's tests stay together, for the sake of what they share; so do those of one broker, or one browser."""

    def _split_scope(self, nodeid: str) -> str:
        return _together(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByWorld:
    return _ByWorld(config, log)


def _together(nodeid: str) -> str:
    file, _, test = nodeid.removeprefix("tests/").partition("::")
    if file.startswith("pipeline/") and "[kafka" in test:
        return "stories on Kafka"
    if file.startswith("browser/"):
        return "browser"
    if file.startswith("faults/") and file not in WITHOUT_BROKER:
        return "faults on Kafka"
    if file in ON_THE_BROKER:
        return "on the session's broker"
    return file


def _rank(group: str) -> int:
    return next((place for place, start in enumerate(LONGEST_FIRST) if group.startswith(start)), len(LONGEST_FIRST))


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """Where a broker's jars are, for who starts one of its own. Without Java and Maven it skips, or fails where it must run."""
    if (reason := kafka_available(LIBS)) is not None:
        if os.environ.get("CI") == "true" or os.environ.get("FOURGATES_TEST_KAFKA") == MUST_RUN:
            pytest.fail(f"the tests on Kafka must run here: {reason}")
        pytest.skip(reason)
    return LIBS


@pytest.fixture(scope="session")
def kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """The session's broker with all topics. Tests that kill or freeze a broker take `fragile`."""
    broker = LocalBroker(tmp_path_factory.mktemp("kafka"), libs=kafka_libs)
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
async def kafka_world(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[KafkaWorld]:
    """One pipeline of processes for all stories: they use orders of their own.

    On a broker of its own: others empty the session's topics between their tests.
    """
    async with LocalBroker(tmp_path_factory.mktemp("kafka-world-broker"), libs=kafka_libs) as broker:
        await create_topics(broker.bootstrap)
        made = KafkaWorld(broker.bootstrap, tmp_path_factory.mktemp("kafka-world"))
        await made.start()
        try:
            yield made
        finally:
            await made.stop()
