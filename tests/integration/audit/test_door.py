"""The query door on the real engine: answers who has the token, reads and nothing else, and leaves the writer alone."""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import lz4.frame
import pytest
from starlette.applications import Starlette

from fourgates.audit.build import build_query_door
from fourgates.audit.compression import zstd
from fourgates.audit.settings import DoorSettings, ReadLimits
from fourgates.contract.errors import ConfigurationError
from support.auditing import Engine
from support.eventually import eventually
from support.stories import Tape, good_stories

pytestmark = pytest.mark.engine

TOKEN = "a-token-of-the-tests"
URL = "http://127.0.0.1:8124"
LIMITS = ReadLimits(seconds=4, rows=1_000, memory_bytes=200_000_000)


@pytest.fixture
async def app(engine: Engine) -> AsyncIterator[Starlette]:
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    door, readers = build_query_door(engine.connect, TOKEN, DoorSettings(readers=2, waiting=1, limits=LIMITS))
    yield door
    await readers.close()


@pytest.fixture
async def door(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A caller who has the token."""
    async with _client(app, {"X-ClickHouse-Key": TOKEN}) as client:
        yield client


def _client(app: Starlette, headers: dict[str, str] | None = None, url: str = URL) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=url, headers=headers or {})


async def ask(door: httpx.AsyncClient, sql: str, **query: str) -> httpx.Response:
    return await door.post("/", params=query, content=sql.encode())


async def test_formats_are_the_engines(door: httpx.AsyncClient) -> None:
    """L4: by plain SQL."""
    sql = "SELECT tool, count() AS calls FROM calls GROUP BY tool ORDER BY tool"
    assert (await ask(door, sql)).text == "read_order\t1\nrefund_order\t5\n"
    answer = await ask(door, sql, default_format="JSON")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["data"] == [{"tool": "read_order", "calls": 1}, {"tool": "refund_order", "calls": 5}]
    assert (await ask(door, sql + " FORMAT CSV")).text == '"read_order",1\n"refund_order",5\n'
    assert (await door.get("/", params={"query": sql, "default_format": "JSONEachRow"})).text.startswith('{"tool":"read_order"')
    assert (await door.post("/", params={"query": "SELECT 1"}, content=b" + 1")).text == "2\n"


async def test_parameters_are_bound_by_the_engine(door: httpx.AsyncClient) -> None:
    """L4."""
    sql = "SELECT {name:String} AS name, {number:Int32} + 1 AS number FORMAT JSONEachRow"
    answer = await ask(door, sql, param_name="a'b\\\\c\\td", param_number="2")
    assert answer.json() == {"name": "a'b\\c\td", "number": 3}


PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstd.compress}
UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "lz4": lz4.frame.decompress, "zstd": zstd.decompress}


@pytest.mark.parametrize("encoding", PACK)
async def test_statements_and_answers_may_be_compressed(door: httpx.AsyncClient, encoding: str) -> None:
    """L4."""
    sql = "SELECT repeat('x', 5000)"
    headers = {"Content-Encoding": encoding, "Accept-Encoding": encoding}
    async with door.stream(
        "POST", "/?enable_http_compression=1", content=PACK[encoding](sql.encode()), headers=headers
    ) as answer:
        raw = b"".join([chunk async for chunk in answer.aiter_raw()])
    assert (answer.status_code, answer.headers["content-encoding"]) == (200, encoding)
    assert len(raw) < 500 and UNPACK[encoding](raw) == b"x" * 5000 + b"\n"
    plain = await door.post("/", content=sql.encode(), headers={"Accept-Encoding": encoding})
    assert "content-encoding" not in plain.headers, "as ClickHouse: only who asks for it gets it"


@pytest.mark.parametrize("encoding", PACK)
async def test_a_body_that_unpacks_to_much_is_refused(door: httpx.AsyncClient, encoding: str) -> None:
    """L4: a few bytes must not become gigabytes."""
    bomb = PACK[encoding](b" " * 50_000_000)
    answer = await door.post("/", content=bomb, headers={"Content-Encoding": encoding})
    assert answer.status_code == 413
    broken = await door.post("/", content=b"no such thing", headers={"Content-Encoding": encoding})
    assert broken.status_code == 400
    assert (await door.post("/", content=b"SELECT 1", headers={"Content-Encoding": "br"})).status_code == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"X-ClickHouse-Key": "another-token-of-tests"}, 403),
        ({"Authorization": "Bearer another-token-of-tests"}, 403),
        ({"Authorization": "Basic !!!"}, 403),
        ({"Authorization": f"Bearer {TOKEN}"}, 200),
        ({"Authorization": "Basic " + base64.b64encode(f"grafana:{TOKEN}".encode()).decode()}, 200),
        ({"X-ClickHouse-User": "default", "X-ClickHouse-Key": TOKEN}, 200),
    ],
)
async def test_only_the_token_opens_it(app: Starlette, headers: dict[str, str], status: int) -> None:
    """L4: whoever reaches the port is not yet somebody who may read."""
    async with _client(app, headers) as client:
        answer = await ask(client, "SELECT 1")
    assert answer.status_code == status
    assert (answer.text == "1\n") is (status == 200)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://localhost:8124", 200),
        ("http://[::1]:8124", 200),
        ("http://audit.example:8124", 403),
        ("http://127.0.0.1.nip.io", 403),
    ],
)
async def test_a_host_that_is_not_loopback_is_refused(app: Starlette, url: str, status: int) -> None:
    """L4: a page on a name that resolves to 127.0.0.1 is not a local caller."""
    async with _client(app, {"X-ClickHouse-Key": TOKEN}, url) as client:
        assert (await ask(client, "SELECT 1")).status_code == status


WRITING = [
    "INSERT INTO events (topic) VALUES ('x')",
    "CREATE TABLE fourgates.mine (a Int32) ENGINE = Memory",
    "CREATE TEMPORARY TABLE mine (a Int32)",
    "ALTER TABLE events DELETE WHERE 1",
    "TRUNCATE TABLE events",
    "DROP TABLE events",
    "DROP DATABASE fourgates",
    "OPTIMIZE TABLE events FINAL",
    "RENAME TABLE events TO gone",
    "GRANT ALL ON *.* TO default",
    "SYSTEM SHUTDOWN",
    "KILL QUERY WHERE 1",
    "BACKUP TABLE events TO Disk('a', 'b')",
    "USE system",
    "SET readonly = 0",
    "SET max_execution_time = 0",
    "SELECT 1 SETTINGS readonly = 0",
    "SELECT 1; KILL QUERY WHERE 1",
    "SELECT 1; SELECT 2",
]
REACHING_OUT = [
    "SELECT file('{path}')",
    "SELECT `file`('{path}')",
    "SELECT FILE ( '{path}' )",
    "SELECT arrayMap(x -> file(x), ['{path}'])",
    "SELECT * APPLY(file) FROM (SELECT '{path}')",
    "SELECT * FROM file('{path}', 'LineAsString')",
    "SELECT * FROM '{path}'",
    "SELECT * FROM default.`{path}`",
    'SELECT * FROM "default"."{path}"',
    "SELECT * FROM {{d:Identifier}}.{{t:Identifier}}",
    "DESCRIBE TABLE file('{path}', 'LineAsString')",
    "DESCRIBE TABLE url('http://127.0.0.1:1/', 'CSV')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'CSV')",
    "SELECT * FROM s3('http://127.0.0.1:1/bucket/x', 'CSV')",
    "SELECT * FROM remote('127.0.0.1:1', 'system.one')",
    "SELECT * FROM executable('ls', 'CSV', 'a String')",
    "SELECT * FROM python(x)",
    "SELECT * FROM merge('default', '.*')",
    "SELECT * FROM viewExplain('EXPLAIN', '', (SELECT 1))",
    "SELECT hasColumnInTable('default', '{path}', 'c1')",
    "SELECT 1 INTO OUTFILE '{out}'",
    "SELECT 1 INTO OUTFILE '{out}' FORMAT CSV",
    "SHOW TABLES INTO OUTFILE '{out}'",
    "EXPLAIN SELECT 1 INTO OUTFILE '{out}'",
    "SELECT * FROM (SELECT 1) /* x */ INTO /* y */ OUTFILE '{out}'",
]


@pytest.mark.parametrize("sql", WRITING)
async def test_nothing_is_written_through_it(engine: Engine, door: httpx.AsyncClient, sql: str) -> None:
    """L4, L2."""
    before = engine.one("SELECT count() FROM fourgates.records")
    answer = await ask(door, sql)
    assert answer.status_code >= 400
    assert answer.text.startswith("Code: ")
    assert engine.one("SELECT count() FROM fourgates.records") == before
    assert (await ask(door, "SELECT currentDatabase(), getSetting('readonly')")).text == "fourgates\t1\n"
    assert engine.one("SELECT getSetting('readonly')") == 0


@pytest.mark.parametrize("sql", REACHING_OUT)
async def test_nothing_outside_the_database_is_reached(door: httpx.AsyncClient, tmp_path: Path, sql: str) -> None:
    """L4, P1: the embedded engine runs as this process and could read whatever that can."""
    secret, out = tmp_path / "secret.txt", tmp_path / "out.txt"
    secret.write_text("not for you\n")
    answer = await ask(door, sql.format(path=secret, out=out), param_d="default", param_t=str(secret))
    assert answer.status_code >= 400, answer.text
    assert "not for you" not in answer.text
    assert not out.exists()


async def test_time_rows_memory_and_size_are_bounded(door: httpx.AsyncClient) -> None:
    """L4."""
    slow = await ask(door, "SELECT count() FROM numbers(100000000000)")
    assert (slow.status_code, slow.headers["x-clickhouse-exception-code"]) == (408, "159")
    many = await ask(door, "SELECT * FROM numbers(5000)")
    assert (many.status_code, many.headers["x-clickhouse-exception-code"]) == (500, "396")
    large = await ask(door, "SELECT groupArray(number) FROM numbers(1000000000)")
    assert (large.status_code, large.headers["x-clickhouse-exception-code"]) == (500, "241")
    long = await ask(door, f"SELECT '{'x' * LIMITS.query_bytes}'")
    assert long.status_code == 413


@pytest.mark.parametrize(
    ("sql", "status", "code"),
    [("SELEC 1", 400, "62"), ("SELECT * FROM nowhere", 404, "60"), ("SELECT nothing FROM calls", 404, "47")],
)
async def test_errors_are_the_engines_text(door: httpx.AsyncClient, sql: str, status: int, code: str) -> None:
    """L4."""
    answer = await ask(door, sql)
    assert (answer.status_code, answer.headers["x-clickhouse-exception-code"]) == (status, code)
    assert answer.text.startswith(f"Code: {code}. DB::Exception: ")
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("query", [{"max_execution_time": "0"}, {"readonly": "0"}, {"default_format": "CSV; DROP"}])
async def test_settings_cannot_be_changed_through_the_url(door: httpx.AsyncClient, query: dict[str, str]) -> None:
    """L4."""
    answer = await ask(door, "SELECT 1", **query)
    assert answer.status_code == 403


async def test_it_says_that_it_lives_without_a_token(app: Starlette) -> None:
    """S3."""
    async with _client(app) as client:
        assert (await client.get("/ping")).text == "Ok.\n"


async def test_a_hostile_query_neither_stops_the_writer_nor_others_for_long(engine: Engine, door: httpx.AsyncClient) -> None:
    """L3, L4: who may only read must not be able to stop the executors by way of the audit."""
    tape = Tape()
    good_stories(tape)
    hostile = [asyncio.create_task(ask(door, "SELECT sum(cityHash64(number)) FROM numbers(100000000000)")) for _ in range(6)]
    await eventually(lambda: sum(task.done() for task in hostile) >= 3)
    refused = [task.result().status_code for task in hostile if task.done()]
    assert set(refused) == {503}
    await asyncio.to_thread(engine.take, tape.received)
    assert sum(task.done() for task in hostile) < 6, "the insert came through while they ran"
    answers = await asyncio.gather(*hostile)
    assert {answer.status_code for answer in answers} == {408, 503}
    assert (await ask(door, "SELECT count() FROM records")).text == f"{len(tape.received)}\n"


def test_a_door_that_others_could_reach_or_that_has_no_token_is_not_built(engine: Engine) -> None:
    """L4."""
    with pytest.raises(ConfigurationError, match="not a loopback address"):
        build_query_door(engine.connect, TOKEN, DoorSettings(host="0.0.0.0"))
    with pytest.raises(ConfigurationError, match="at least 16 characters"):
        build_query_door(engine.connect, "", DoorSettings())
