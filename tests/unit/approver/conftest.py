"""A waiter and an approver service on one in-process bus, and people who hold real tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from fourgates.runtime.memory_worker import MemoryWorker
from support.approver import approver
from support.waiting import Waiting


@pytest.fixture
async def client(world: Waiting) -> AsyncIterator[httpx.AsyncClient]:
    async with approver(world) as running:
        yield running


@pytest.fixture
async def asked(world: Waiting, worker: MemoryWorker) -> None:
    """One call waits."""
    await world.hold()
    await world.settle(worker)
