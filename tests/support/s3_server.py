"""A real S3 server of this machine for the tests: versitygw over a folder. `make system` builds it with Go."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

_ROOT = Path(__file__).parents[2]
_STARTS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it listens, and the keys of its only account."""

    endpoint: str
    folder: Path
    access_key_id: str = "fourgates"
    secret_access_key: str = "fourgates-tests"

    def make_bucket(self, name: str) -> str:
        """Its URL."""
        (self.folder / name).mkdir()
        return f"s3://{name}"

    @property
    def access(self) -> dict[str, str]:
        return {"endpoint": self.endpoint, "access_key_id": self.access_key_id, "secret_access_key": self.secret_access_key}


def versitygw() -> str:
    """The server's program; a skip that names it where it is missing, a failure in CI."""
    found = shutil.which("versitygw", path=f"{_ROOT / 'build' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("versitygw is missing: `make system` builds it")
        pytest.skip("versitygw is missing: `make system` builds it")
    return found


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """The server, listening on a free port of loopback until the end of the block."""
    program = versitygw()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = folder / "s3"
    data.mkdir()
    server = S3Server(f"http://127.0.0.1:{port}", data)
    with (folder / "versitygw.log").open("wb") as log:
        running = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{port}", "--access", server.access_key_id, "--secret", server.secret_access_key,
             "posix", str(data)], stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await(server.endpoint, running, folder / "versitygw.log")
        yield server
    finally:
        running.terminate()
        running.wait(timeout=10)


def _await(endpoint: str, running: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _STARTS_WITHIN_S
    while time.monotonic() < until:
        if running.poll() is not None:
            break
        try:
            httpx.get(endpoint, timeout=1)
        except httpx.HTTPError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"the S3 server did not start: {log.read_text(errors='replace')[-500:]}")
