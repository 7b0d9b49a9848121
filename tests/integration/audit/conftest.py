"""One embedded engine for each module of tests, emptied before each test: a process has one engine folder at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.auditing import Engine, engine_in


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with engine_in(tmp_path_factory.mktemp("clickhouse")) as engine:
        yield engine


@pytest.fixture
def engine(opened: Engine) -> Engine:
    opened.empty()
    return opened
