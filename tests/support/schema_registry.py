"""A small schema registry that speaks Confluent's HTTP API on loopback: what the tests of HttpRegistry run against."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.registry import require_compatible


class Registry:
    """Subjects with versions, ids shared by equal schemas, and a compatibility level per subject."""

    def __init__(self, *, level_needs_subject: bool = False) -> None:
        self.ids: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.levels: dict[str, str] = {}
        self.requests: list[str] = []
        self.level_needs_subject = level_needs_subject
        self.status = 200
        self.url = ""

    def register(self, subject: str, schema: str) -> int | None:
        """The id, or None where the schema does not fit the subject's earlier ones."""
        versions = self.subjects.setdefault(subject, [])
        if schema not in self.ids:
            self.ids.append(schema)
        number = self.ids.index(schema) + 1
        if number not in versions:
            if self.levels.get(subject) == "FULL_TRANSITIVE":
                try:
                    require_compatible(subject, [json.loads(self.ids[n - 1]) for n in (*versions, number)])
                except ConfigurationError:
                    return None
            versions.append(number)
        return number

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        self.requests.append(f"{method} {path}")
        if self.status != 200:
            return self.status, {}
        match method, path.strip("/").split("/"):
            case "PUT", ["config", subject]:
                if self.level_needs_subject and subject not in self.subjects:
                    return 404, {"error_code": 40401}
                self.levels[subject] = body["compatibility"]
                return 200, body
            case "POST", ["subjects", subject, "versions"]:
                number = self.register(subject, body["schema"])
                return (409, {"error_code": 409}) if number is None else (200, {"id": number})
            case "GET", ["schemas", "ids", text, *rest] if 0 < int(text) <= len(self.ids):
                if rest == ["versions"]:
                    held = [s for s, numbers in self.subjects.items() if int(text) in numbers]
                    return 200, [{"subject": s, "version": self.subjects[s].index(int(text)) + 1} for s in held]
                return 200, {"schema": self.ids[int(text) - 1]}
        return 404, {"error_code": 40403}


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """Serves the registry on a free loopback port and sets its `url`."""

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            status, answer = registry.answer(self.command, self.path, json.loads(self.rfile.read(size) or b"{}"))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = _serve

        def log_message(self, format: str, *args: Any) -> None:
            """A test's output is no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
