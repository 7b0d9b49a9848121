"""The worlds that every story plays in: the in-process bus, and real Kafka with one process a stage."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from support.worlds import MemoryWorld, StoryWorld


@pytest_asyncio.fixture(loop_scope="session", params=["memory"])
async def world(request: pytest.FixtureRequest, tmp_path_factory: Any) -> AsyncIterator[StoryWorld]:
    """A pipeline of its own for each story."""
    made = MemoryWorld(tmp_path_factory.mktemp("world"))
    await made.start()
    try:
        yield made
    finally:
        await made.stop()
