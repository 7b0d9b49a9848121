"""A TCP proxy between a client and a server, with switches for what networks do: delay, cut, refuse, stall, lose answers."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto

_CHUNK = 65_536
_LINGER_0 = struct.pack("ii", 1, 0)


class Answers(Enum):
    """What becomes of bytes on their way from the server to the client."""

    PASS = auto()
    LOST = auto()
    """They vanish and the connection stays: the client waits for an answer until its own timeout."""
    CUT = auto()
    """The first of them cuts the connection: the server has done the work, the client cannot know."""


class TcpProxy:
    """One listener on loopback that passes connections on. Switches count from the next chunk or connection on."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._ends: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0
        """Where clients connect; set once it listens."""
        self.delay = 0.0
        """Seconds that each chunk is late, in both directions."""
        self.refusing = False
        """New connections are closed at once, as where nobody listens."""
        self.answers = Answers.PASS
        self.torn = 0
        """So many of the next chunks, of either side, arrive by half, and their connection is reset: cut in mid-frame."""
        self.accepted = 0
        """Connections so far that were passed on."""
        self.lost = 0
        """Answers' chunks so far that never reached the client."""

    def stall(self) -> None:
        """Nothing flows any more, and nobody is told: a frozen peer, a network that swallows."""
        self._flowing.clear()

    def flow(self) -> None:
        """Ends a stall; what was held back goes on."""
        self._flowing.set()

    def cut(self) -> int:
        """Resets every open connection; how many ends that were. New ones are taken unless `refusing`."""
        ends = list(self._ends)
        for writer in ends:
            _reset(writer)
        return len(ends)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection, until either side ends it."""
        if self.refusing:
            _reset(writer)
            return
        try:
            back_reader, back_writer = await asyncio.open_connection(*self._target)
        except OSError:  # the server behind is away: so are we
            _reset(writer)
            return
        self.accepted += 1
        self._ends |= {writer, back_writer}
        ways = [
            asyncio.create_task(self._pass_on(reader, back_writer, from_server=False)),
            asyncio.create_task(self._pass_on(back_reader, writer, from_server=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)  # whichever side ends it, it has ended
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._ends -= {writer, back_writer}
            writer.close()  # what was passed on before still arrives
            back_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, from_server: bool) -> None:
        with contextlib.suppress(OSError):  # reset by either side: the connection ends, which is all there is to do
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                if self.delay:
                    await asyncio.sleep(self.delay)
                if from_server and self.answers is not Answers.PASS:
                    self.lost += 1
                    if self.answers is Answers.CUT:
                        _reset(writer)
                        return
                    continue
                if self.torn > 0:
                    self.torn -= 1
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    await asyncio.sleep(0.01)  # a reset would take what still lies in our own buffers with it
                    _reset(writer)
                    return
                writer.write(data)
                await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection with a reset, as a killed machine's kernel or a firewall does, not with an orderly end."""
    with contextlib.suppress(OSError):  # it ended by itself just now
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
    writer.transport.abort()


@asynccontextmanager
async def proxying(port: int, host: str = "127.0.0.1", listen: int = 0) -> AsyncIterator[TcpProxy]:
    """A proxy to `host:port` on a free port of loopback (or on `listen`)."""
    proxy = TcpProxy(host, port)
    taking: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.take(reader, writer))
        taking.add(task)
        task.add_done_callback(taking.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", listen)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
        for task in taking:
            task.cancel()
        await asyncio.gather(*taking, return_exceptions=True)
