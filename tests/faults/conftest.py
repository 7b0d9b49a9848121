"""One pipeline for all fault tests: it is made to fail again and again, and must be whole after each of them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.fault_checker import Checker
from support.fault_tally import Tally
from support.faulting import FaultWorld, fault_world


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def faulty(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FaultWorld]:
    """A pipeline of processes on a broker of its own, behind a proxy."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # thousands of lines about a broker that was killed on purpose
    async with fault_world(tmp_path_factory.mktemp("faults"), kafka_libs) as world:
        yield world


@pytest.fixture(scope="session")
def tally() -> Iterator[Tally]:
    counted = Tally()
    yield counted
    counted.write()


@pytest.fixture(scope="session")
def checker(faulty: FaultWorld) -> Checker:
    return Checker(faulty)
