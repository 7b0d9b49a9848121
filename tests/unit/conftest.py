"""What the tests of the waiter, the notices and the approver service stand on: one in-process bus with a waiter on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fourgates.runtime.memory_worker import MemoryWorker
from support.waiting import Waiting


@pytest.fixture
def world() -> Waiting:
    return Waiting()


@pytest.fixture
async def worker(world: Waiting) -> AsyncIterator[MemoryWorker]:
    running = await world.waiter()
    yield running
    await running.crash()
