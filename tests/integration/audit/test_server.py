"""The store over ClickHouse's HTTP protocol, as with a server: same schema, same rows, same door."""

from __future__ import annotations

import asyncio

import pytest

from fourgates.audit.build import build_query_door, open_store
from fourgates.audit.report import success
from fourgates.audit.settings import DoorSettings, StoreSettings
from fourgates.contract.errors import Transient
from support.auditing import DDL, Engine, row_maker
from support.clickhouse_front import Front, serving
from support.stories import Tape, good_stories

pytestmark = pytest.mark.engine


async def test_rows_go_in_and_reports_come_out_over_http(engine: Engine) -> None:
    """L2, L4."""
    tape = Tape()
    good_stories(tape)
    front = Front(engine.connect())

    def use(url: str) -> None:
        store, _ = open_store(StoreSettings(url=url), DDL)
        rows = [row_maker().row(one) for one in tape.received]
        store.insert(rows)
        store.insert(rows)
        assert store.query("SELECT count() AS n FROM fourgates.records") == [{"n": len(rows)}]
        assert success(store.query) == success(engine.store.query)
        store.close()

    async with serving(front) as url:
        await asyncio.to_thread(use, url)


async def test_a_server_that_goes_down_or_away_is_transient_and_comes_back(engine: Engine) -> None:
    """L3."""
    tape = Tape()
    good_stories(tape)
    rows = [row_maker().row(one) for one in tape.received]
    front = Front(engine.connect())
    async with serving(front) as url:
        store, _ = await asyncio.to_thread(open_store, StoreSettings(url=url), DDL)
        front.away = True
        with pytest.raises(Transient):
            await asyncio.to_thread(store.insert, rows)
        with pytest.raises(Transient):
            await asyncio.to_thread(store.alive)
        front.away = False
        await asyncio.to_thread(store.insert, rows)
    with pytest.raises(Transient):
        await asyncio.to_thread(store.alive)
    assert engine.one("SELECT count() FROM fourgates.records") == len(rows)


async def test_every_query_of_the_door_is_read_only_and_bounded_on_the_server_too(engine: Engine) -> None:
    """L4."""
    front = Front(engine.connect())
    async with serving(front) as url:
        _, connect = await asyncio.to_thread(open_store, StoreSettings(url=url), DDL)
        _, readers = await asyncio.to_thread(build_query_door, connect, "a-token-of-the-tests", DoorSettings(readers=1))
        front.requests.clear()
        assert await readers.run("SELECT 1 AS one", "JSONEachRow", {}) == b'{"one":1}\n'
        await readers.close()
    assert front.requests
    for params in front.requests:
        assert params["readonly"] == "1"
        assert {"max_execution_time", "max_result_rows", "max_memory_usage"} <= set(params)
