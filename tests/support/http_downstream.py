"""An HTTP server for tests that says exactly what it is told to say, and sees when somebody hangs up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Say:
    """What is answered. `hang`: nothing, for ever; `cut`: hang up after so many bytes of the body."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    cut: int | None = None


class HttpDownstream:
    """`async with HttpDownstream() as there`: on loopback; `says` decides what a request is answered."""

    def __init__(self, says: Callable[[Seen], Say] = lambda seen: Say()) -> None:
        self.says = says
        self.seen: list[Seen] = []
        self.open = 0
        """Connections that somebody holds."""
        self.kept_waiting: list[Seen] = []
        """Requests whose client is kept waiting and has not left."""
        self.hung_up = asyncio.Event()
        """Set when a client leaves while it was kept waiting."""
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> HttpDownstream:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *fault: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while (seen := await _request(reader)) is not None:
                self.seen.append(seen)
                say = self.says(seen)
                if say.hang:
                    self.kept_waiting.append(seen)
                    await reader.read()
                    self.kept_waiting.remove(seen)
                    self.hung_up.set()
                    return
                raw = say.body if isinstance(say.body, bytes) else json.dumps(say.body).encode()
                headers = {"Content-Type": "application/json", "Content-Length": str(len(raw)), **say.headers}
                head = f"HTTP/1.1 {say.status} Said\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                writer.write(head.encode() + b"\r\n" + (raw if say.cut is None else raw[: say.cut]))
                await writer.drain()
                if say.cut is not None:
                    return
        except ConnectionError:
            self.hung_up.set()
        finally:
            self.open -= 1
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Seen(method, target, headers, await reader.readexactly(int(headers.get("content-length", "0"))))
