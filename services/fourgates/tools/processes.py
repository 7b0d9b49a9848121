"""One sandboxed process from its start to the end of everything that it started, whatever happens to who waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fourgates.tools.sandbox import Sandbox

TERM_SECONDS = 1.0
"""Between the wish to end (SIGTERM) and the end (SIGKILL)."""
_STDERR_BYTES = 4_096
_CHUNK = 65_536


class NeverStarted(Exception):
    """The sandbox could not be built: the command was not run. The text is for operators."""


class TooMuchOutput(Exception):
    """More than the limit; the command was ended."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended by itself."""

    exit_code: int
    """128 + the signal where one ended it."""
    stdout: bytes
    stderr: bytes
    """The first few KiB, for operators; never for a model."""


async def run_sandboxed(sandbox: Sandbox, argv: list[str], stdin: bytes, output_bytes: int) -> Ran:
    """Runs `argv` inside; on every way out, cancellation too, nothing of it is left running.

    Raises NeverStarted, TooMuchOutput. The end may outlast a cancellation by TERM_SECONDS, in a task of its own.
    """
    told, tells = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *sandbox.wrapped(argv, tells), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, pass_fds=(tells,), start_new_session=True, env={},
        )  # fmt: skip
    except (OSError, ValueError) as fault:
        os.close(told)
        raise NeverStarted(type(fault).__name__) from fault
    finally:
        os.close(tells)
    sandboxed = _Sandboxed(process, told)
    try:
        return await sandboxed.finished(stdin, output_bytes)
    finally:
        await asyncio.shield(_kept(asyncio.ensure_future(sandboxed.ended())))


class _Sandboxed:
    def __init__(self, process: asyncio.subprocess.Process, told: int) -> None:
        self._process, self._told = process, told
        self._status = b""
        os.set_blocking(told, False)

    async def finished(self, stdin: bytes, output_bytes: int) -> Ran:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        reading = [
            asyncio.ensure_future(_feed(process.stdin, stdin)),
            asyncio.ensure_future(_up_to(process.stdout, output_bytes)),
            asyncio.ensure_future(_first(process.stderr, _STDERR_BYTES)),
        ]
        try:
            await asyncio.gather(*reading)
            await process.wait()
        finally:
            for task in reading:
                task.cancel()
        code = next((said["exit-code"] for said in self._says() if "exit-code" in said), None)
        stderr: bytes = reading[2].result() or b""
        if code is None and process.returncode == 1:  # bubblewrap says a code for everything that it has started
            raise NeverStarted(stderr.decode(errors="replace").strip())
        if code is None:
            raise ConnectionResetError("the sandbox was ended from outside")
        return Ran(int(code), reading[1].result() or b"", stderr)

    async def ended(self) -> None:
        """Everything inside is asked to end, then ended; returns when it is gone."""
        try:
            if self._process.returncode is None:
                self._signal_all(signal.SIGTERM)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._process.wait(), TERM_SECONDS)
            if self._process.returncode is None:
                self._signal_all(signal.SIGKILL)
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
        finally:
            os.close(self._told)

    def _says(self) -> Iterator[dict[str, int]]:
        """What bubblewrap has told so far, a JSON object a line."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._told, _CHUNK):
                self._status += chunk
        for line in self._status.splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def _signal_all(self, number: signal.Signals) -> None:
        """Reaches every process in the sandbox's own process namespace, also those that left their group or their parent.

        SIGKILL goes to its first one: the kernel then ends all others.
        """
        said: dict[str, int] = {}
        for more in self._says():
            said |= more
        first, namespace = said.get("child-pid"), said.get("pid-namespace")
        if first is None or namespace is None:
            return
        for pid in (first,) if number is signal.SIGKILL else _members(namespace, first):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                handle = os.pidfd_open(pid)
                try:
                    if _namespace(pid) == namespace:  # looked at after it is held: the number may have become another's
                        signal.pidfd_send_signal(handle, number)
                finally:
                    os.close(handle)


def _members(namespace: int, first: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != first and _namespace(int(entry.name)) == namespace:
            yield int(entry.name)


def _namespace(pid: int) -> int | None:
    try:
        return (Path("/proc") / str(pid) / "ns" / "pid").stat().st_ino
    except OSError:
        return None


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with contextlib.suppress(ConnectionError):  # it need not read, and may be gone already
        if not pipe.is_closing():
            pipe.write(data)
            await pipe.drain()
    pipe.close()


async def _up_to(pipe: asyncio.StreamReader, limit: int) -> bytes:
    out = bytearray()
    while chunk := await pipe.read(_CHUNK):
        out += chunk
        if len(out) > limit:
            raise TooMuchOutput
    return bytes(out)


async def _first(pipe: asyncio.StreamReader, limit: int) -> bytes:
    out = bytearray()
    while chunk := await pipe.read(_CHUNK):
        out += chunk[: limit - len(out)]
    return bytes(out)


_ending: set[asyncio.Task[None]] = set()


def _kept(task: asyncio.Task[None]) -> asyncio.Task[None]:
    """A task that nobody waits for any more must still be held by somebody."""
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    return task
