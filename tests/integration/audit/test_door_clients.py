"""The door over a real socket: our own client, and ClickHouse's official one for Python."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import clickhouse_connect
import pytest
import uvicorn

from fourgates.audit.build import build_query_door
from fourgates.audit.client import DoorClient, DoorError
from fourgates.audit.explain import explain
from fourgates.audit.integrity import run_integrity
from fourgates.audit.report import success
from fourgates.audit.settings import DoorSettings
from support.auditing import Engine
from support.eventually import eventually
from support.stories import Life, Tape, good_stories

pytestmark = pytest.mark.engine

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def lives(engine: Engine) -> list[Life]:
    tape = Tape()
    told = good_stories(tape)
    engine.take(tape.received)
    return told


@pytest.fixture
async def port(engine: Engine, lives: list[Life]) -> AsyncIterator[int]:
    door, readers = build_query_door(engine.connect, TOKEN, DoorSettings())
    server = uvicorn.Server(uvicorn.Config(door, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    serving = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    await serving
    await readers.close()


async def test_reports_explanations_and_integrity_work_over_the_door(engine: Engine, port: int, lives: list[Life]) -> None:
    """L4, L5, L6: whoever asks from another process gets what the store itself says."""

    def ask() -> None:
        with DoorClient(f"http://127.0.0.1:{port}", TOKEN) as door:
            assert success(door) == success(engine.store.query)
            for life in lives:
                told = explain(door, life.call_id)
                assert told is not None
                assert told == explain(engine.store.query, life.call_id)
            assert all(not finding.rows for finding in run_integrity(door, 1_900_000_000_000))
            assert door.text("SELECT 1 AS one") == "one\n1\n"
            assert door("SELECT {said:String} AS said", {"said": "a\tb\\c'd\u2028é"}) == [{"said": "a\tb\\c'd\u2028é"}]
            texts = ["a\tb\\c'd\u2028é", "", "], [", '"', "\0\n"]
            [row] = door("SELECT {texts:Array(String)} AS texts, arraySum({numbers:Array(Int64)}) AS sum",
                         {"texts": texts, "numbers": [2, -5]})  # fmt: skip
            assert (row["texts"], int(row["sum"])) == (texts, -3)
            assert door("SELECT {none:Array(String)} AS none", {"none": []}) == [{"none": []}]
            with pytest.raises(DoorError, match="param_texts is not an array"):
                door("SELECT {texts:Array(String)}", {"texts": "('a')"})

    await asyncio.to_thread(ask)


async def test_a_refusal_or_an_absent_service_is_one_sentence(port: int) -> None:
    """L4."""

    def ask() -> None:
        with DoorClient(f"http://127.0.0.1:{port}", "wrong") as door, pytest.raises(DoorError, match="Authentication failed"):
            door("SELECT 1")
        with DoorClient(f"http://127.0.0.1:{port}", TOKEN) as door, pytest.raises(DoorError, match="only statements that read"):
            door("DROP TABLE events")
        with DoorClient("http://127.0.0.1:1", TOKEN) as door, pytest.raises(DoorError, match="is it running"):
            door("SELECT 1")

    await asyncio.to_thread(ask)


async def test_clickhouse_connect_can_ask(port: int, lives: list[Life]) -> None:
    """L4: by plain SQL, with a tool that everybody has."""

    def ask() -> None:
        client = clickhouse_connect.get_client(host="127.0.0.1", port=port, username="me", password=TOKEN, database="fourgates")
        try:
            rows = client.query(
                "SELECT tool, count() AS n FROM calls WHERE tenant = {tenant:String} GROUP BY tool ORDER BY tool",
                parameters={"tenant": "acme"},
            ).result_rows
            assert rows == [("read_order", 1), ("refund_order", 5)]
            with pytest.raises(clickhouse_connect.driver.exceptions.DatabaseError):
                client.command("DROP TABLE events")
        finally:
            client.close()

    await asyncio.to_thread(ask)
