"""The payment provider: a process of its own that refunds once per idempotency key, and can lose an answer on demand.

It keeps its own books, so that what really happened can be counted outside the pipeline. Everything under /control is for the
story and the tests: a real provider has no such doors, it just does these things.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fourgates.demo.books import Answer, Books

_LARGEST_BODY = 65_536


@dataclass(slots=True)
class Faults:
    """What goes wrong with the next refunds, each counted down."""

    lose: int = 0
    """Commit, then hang up without an answer."""
    fail: int = 0
    """Answer 503 before anything is committed."""
    delay: int = 0
    """Commit, then answer late."""
    seconds: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, name: str, count: int, seconds: float) -> None:
        with self._lock:
            setattr(self, name, count)
            self.seconds = seconds if name == "delay" else self.seconds

    def take(self, name: str) -> bool:
        """True for each of the next so many refunds."""
        with self._lock:
            left: int = getattr(self, name)
            setattr(self, name, max(0, left - 1))
            return left > 0


class Provider(ThreadingHTTPServer):
    """Serves the books on a loopback port until it is shut down."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, books: Books, port: int) -> None:
        self.books, self.faults = books, Faults()
        self.ending = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def shutdown(self) -> None:
        """Ends at once, also where an answer is being delayed."""
        self.ending.set()
        super().shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: Provider
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write an answer: small ones would wait for the other side's delayed acknowledgement
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        books = self.server.books
        match self.path.strip("/").split("/"):
            case ["ready"]:
                self._answer(Answer(200, {"ready": True}))
            case ["refunds"]:
                self._answer(Answer(200, {"refunds": books.refunds()}))
            case ["refunds", key]:
                self._answer(books.refund_of(key))
            case ["charges", charge]:
                self._answer(books.charge(charge))
            case ["requests"]:
                self._answer(Answer(200, {"requests": books.requests()}))
            case _:
                self._answer(Answer(404, {"error": "no_such_path"}))

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            self._answer(Answer(422, {"error": "malformed"}))
            return
        match self.path.strip("/").split("/"):
            case ["refunds"]:
                self._refund(body)
            case ["control", ("lose-next" | "fail-next" | "delay-next") as which]:
                count, seconds = body.get("count", 1), body.get("seconds", 0)
                if not isinstance(count, int) or count < 0 or not isinstance(seconds, int | float) or not 0 <= seconds <= 60:
                    self._answer(Answer(422, {"error": "malformed"}))
                    return
                self.server.faults.arm(which.removesuffix("-next"), count, float(seconds))
                self._answer(Answer(200, {which: count}))
            case _:
                self._answer(Answer(404, {"error": "no_such_path"}))

    def _refund(self, body: dict[str, Any]) -> None:
        books, faults = self.server.books, self.server.faults
        key = self.headers.get("Idempotency-Key", "")
        if faults.take("fail"):
            books.note(key, "failed")
            self._answer(Answer(503, {"error": "unavailable"}))
            return
        answer = books.refund(key, body)
        lose, delay = faults.take("lose"), faults.take("delay")
        books.note(key, "lost" if lose else "delayed" if delay else f"answered_{answer.status}")
        if delay:
            self.server.ending.wait(faults.seconds)
        if lose:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(answer)

    def _body(self) -> dict[str, Any] | None:
        try:
            length = int(self.headers.get("Content-Length", "0"))
            body = json.loads(self.rfile.read(length)) if 0 < length <= _LARGEST_BODY else {}
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def _answer(self, answer: Answer) -> None:
        data = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """The books note every request; a second log would say less."""


def main() -> None:
    """`python -m fourgates.demo.provider --books FILE --port N`: serves until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description="the demo's payment provider")
    parser.add_argument("--books", type=Path, required=True, help="its SQLite file")
    parser.add_argument("--port", type=int, default=0, help="loopback port; 0: any free one, which is printed")
    said = parser.parse_args()
    provider = Provider(Books(said.books), said.port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: provider.ending.set())
    serving = threading.Thread(target=provider.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    serving.start()
    print(json.dumps({"url": provider.url, "at_ms": time.time_ns() // 1_000_000}), flush=True)
    provider.ending.wait()
    provider.shutdown()
    provider.server_close()


if __name__ == "__main__":
    main()
