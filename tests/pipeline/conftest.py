"""The worlds that every story plays in: the in-process bus, and real Kafka with one process a stage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from support.worlds import MemoryWorld, StoryWorld


@pytest_asyncio.fixture(loop_scope="session")
async def memory_world(tmp_path_factory: Any) -> AsyncIterator[MemoryWorld]:
    """A pipeline of its own for each story."""
    made = MemoryWorld(tmp_path_factory.mktemp("world"))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def world(request: pytest.FixtureRequest) -> StoryWorld:
    """The same story on either bus."""
    found: StoryWorld = request.getfixturevalue(f"{request.param}_world")
    return found
