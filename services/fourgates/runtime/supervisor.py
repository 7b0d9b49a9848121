"""Runs the pipeline's processes on one machine: starts them, watches them, restarts with backoff, ends everything properly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import httpx

from .children import end_group, signal_group, spawn

RESTART_BASE, RESTART_CAP = 0.5, 30.0
STABLE_SECONDS = 60.0
"""A process that ran so long starts again without counting its earlier falls."""
USAGE_ERROR = 2
"""The exit code of a process that was refused at start: it is configured wrongly, so starting it again cannot help."""


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process: its command, and where it says that it is ready."""

    name: str
    argv: Sequence[str]
    ready_url: str = ""
    env: Mapping[str, str] | None = None
    drain: float = 20.0
    """Seconds between SIGTERM and SIGKILL."""


class Condition(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"
    ENDED = "ended"


@dataclass(slots=True)
class Watched:
    """What is known about one process."""

    spec: ProcessSpec
    log: Path
    condition: Condition = Condition.STARTING
    child: subprocess.Popen[bytes] | None = None
    restarts: int = 0
    last_exit: int | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pid(self) -> int | None:
        return self.child.pid if self.child is not None and self.child.poll() is None else None

    def last_words(self) -> str:
        """The last line of its log, for one clear sentence about why it ended."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except FileNotFoundError:
            return ""
        return lines[-1] if lines else ""


class ProcessFailed(Exception):
    """A process was refused at start or does not come up; the sentence says which and its last words."""


class Supervisor:
    """Starts all specs at once, in the running loop's thread, and keeps them up until `stop`."""

    def __init__(
        self, specs: Sequence[ProcessSpec], log_folder: Path, on_change: Callable[[Watched], None] = lambda watched: None
    ) -> None:
        self._on_change = on_change
        self.watched = {spec.name: Watched(spec, log_folder / f"{spec.name}.log") for spec in specs}
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._failed = asyncio.Event()

    async def start(self) -> None:
        for watched in self.watched.values():
            self._tasks.append(asyncio.create_task(self._keep(watched)))

    async def ready(self, seconds: float) -> None:
        """Returns once every process says that it is ready. ProcessFailed names the first that does not."""
        failed = asyncio.create_task(self._failed.wait())
        everybody = asyncio.create_task(self._all_ready())
        try:
            await asyncio.wait((everybody, failed), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everybody.cancel()
            failed.cancel()
        for watched in self.watched.values():
            if not watched.ready.is_set() or watched.condition is Condition.FAILED:
                state = f"exited with {watched.last_exit}" if watched.last_exit is not None else "is not ready"
                raise ProcessFailed(f"{watched.spec.name} {state} (log: {watched.log}): {watched.last_words()}")

    async def _all_ready(self) -> bool:
        for watched in self.watched.values():
            await watched.ready.wait()
        return True

    async def stop(self) -> None:
        """Ends all processes, SIGTERM first, all at the same time; returns once they are gone."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        running = [w for w in self.watched.values() if w.child is not None]
        await asyncio.gather(*(asyncio.to_thread(end_group, w.child, w.spec.drain) for w in running if w.child is not None))
        for watched in running:
            self._change(watched, Condition.ENDED)

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to one process and whatever it started; fault tests kill and stop with it."""
        child = self.watched[name].child
        if child is not None:
            signal_group(child, signal.Signals(number))

    async def _keep(self, watched: Watched) -> None:
        loop = asyncio.get_running_loop()
        falls = 0
        while True:
            started = loop.time()
            watched.child = spawn(list(watched.spec.argv), watched.log, env=watched.spec.env)
            self._change(watched, Condition.STARTING)
            until_ready = asyncio.create_task(self._until_ready(watched))
            try:
                watched.last_exit = await _ended(watched.child)
            finally:
                until_ready.cancel()
            watched.ready.clear()
            if watched.last_exit == USAGE_ERROR:
                self._change(watched, Condition.FAILED)
                self._failed.set()
                return
            falls = 1 if loop.time() - started > STABLE_SECONDS else falls + 1
            watched.restarts += 1
            self._change(watched, Condition.RESTARTING)
            await asyncio.sleep(min(RESTART_CAP, RESTART_BASE * 2 ** (falls - 1)))

    async def _until_ready(self, watched: Watched) -> None:
        if watched.spec.ready_url:
            async with httpx.AsyncClient(timeout=2.0) as client:
                while not await _answers(client, watched.spec.ready_url):  # noqa: ASYNC110 - nothing else tells of a process
                    await asyncio.sleep(0.1)
        watched.ready.set()
        self._change(watched, Condition.READY)

    def _change(self, watched: Watched, condition: Condition) -> None:
        watched.condition = condition
        self._on_change(watched)


async def _ended(child: subprocess.Popen[bytes]) -> int:
    """The exit code, as soon as the process has ended (a signal's number is negative)."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    handle = os.pidfd_open(child.pid)

    def reap() -> None:
        if not ended.done():
            ended.set_result(child.wait())

    loop.add_reader(handle, reap)
    try:
        return await ended
    finally:
        loop.remove_reader(handle)
        os.close(handle)


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == 200
    except httpx.HTTPError:
        return False
