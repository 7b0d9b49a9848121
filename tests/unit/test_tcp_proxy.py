"""The proxy that the fault tests stand on: each switch does what its name says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.eventually import eventually
from support.tcp_proxy import Answers, TcpProxy, proxying

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Echo:
    """Answers each line with itself, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while line := await reader.readline():
                self.heard.append(line)
                writer.write(line)
        except ConnectionError:
            writer.close()  # the tests cut connections
        finally:
            self.open -= 1


@asynccontextmanager
async def echoing() -> AsyncIterator[tuple[Echo, TcpProxy]]:
    echo = Echo()
    server = await asyncio.start_server(echo.serve, "127.0.0.1", 0)
    async with server:
        async with proxying(server.sockets[0].getsockname()[1]) as proxy:
            yield echo, proxy
        await eventually(lambda: echo.open == 0)


async def connect(proxy: TcpProxy) -> Ends:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def ask(ends: Ends, line: bytes) -> bytes:
    ends[1].write(line)
    return await asyncio.wait_for(ends[0].readline(), 5)


async def test_it_passes_on_until_it_is_cut() -> None:
    """L2, E5: what the fault tests stand on."""
    async with echoing() as (_, proxy):
        ends = await connect(proxy)
        assert await ask(ends, b"one\n") == b"one\n"
        assert proxy.cut() == 2
        with pytest.raises(ConnectionError):
            await ask(ends, b"two\n")
        assert await ask(await connect(proxy), b"three\n") == b"three\n"


async def test_it_refuses_as_where_nobody_listens() -> None:
    """L2, E5."""
    async with echoing() as (echo, proxy):
        proxy.refusing = True
        with pytest.raises(ConnectionError):
            await ask(await connect(proxy), b"one\n")
        assert echo.heard == [] and proxy.accepted == 0


async def test_an_answer_is_lost_or_cut_after_the_server_has_done_the_work() -> None:
    """L2, E3."""
    async with echoing() as (echo, proxy):
        ends = await connect(proxy)
        proxy.answers = Answers.LOST
        ends[1].write(b"one\n")
        await eventually(lambda: echo.heard == [b"one\n"] and proxy.lost == 1)
        proxy.answers = Answers.PASS
        assert await ask(ends, b"two\n") == b"two\n"
        proxy.answers = Answers.CUT
        with pytest.raises(ConnectionError):
            await ask(ends, b"three\n")
        assert echo.heard[-1] == b"three\n"


async def test_a_stall_holds_everything_back_and_then_lets_it_go_on() -> None:
    """L2, E5."""
    async with echoing() as (echo, proxy):
        ends = await connect(proxy)
        assert await ask(ends, b"one\n") == b"one\n"
        proxy.stall()
        ends[1].write(b"two\n")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ends[0].readline(), 0.1)
        assert echo.heard == [b"one\n"]
        proxy.flow()
        assert await asyncio.wait_for(ends[0].readline(), 5) == b"two\n"


async def test_a_torn_chunk_arrives_by_half() -> None:
    """E5: the server has read the beginning of a frame, and nothing more comes."""
    async with echoing() as (echo, proxy):
        ends = await connect(proxy)
        assert await ask(ends, b"one\n") == b"one\n"
        proxy.torn = 1
        ends[1].write(b"a longer line\n")
        assert await asyncio.wait_for(ends[0].read(), 5) == b""
        await eventually(lambda: echo.open == 0)
        assert [line for line in echo.heard if line.endswith(b"\n")] == [b"one\n"]
        assert await ask(await connect(proxy), b"two\n") == b"two\n"
