"""The supervisor on real child processes: readiness, restart with backoff, refusal at start, a proper end."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from fourgates.runtime.supervisor import Condition, ProcessFailed, ProcessSpec, Supervisor, Watched


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


SLEEPER = python("import time; time.sleep(600)")


async def test_a_killed_process_is_started_again_and_all_end_together(tmp_path: Path) -> None:
    """S3: kill -9 brings a new process; stop leaves none."""
    again = asyncio.Event()

    def changed(watched: Watched) -> None:
        if watched.restarts and watched.condition is Condition.READY:
            again.set()

    supervisor = Supervisor([ProcessSpec("one", SLEEPER), ProcessSpec("two", SLEEPER)], tmp_path, changed)
    await supervisor.start()
    try:
        await supervisor.ready(10)
        first = supervisor.watched["one"].pid
        supervisor.signal("one", signal.SIGKILL)
        await asyncio.wait_for(again.wait(), 10)
        assert supervisor.watched["one"].pid not in (None, first)
        assert supervisor.watched["one"].last_exit == -signal.SIGKILL
    finally:
        await supervisor.stop()
    assert [w.pid for w in supervisor.watched.values()] == [None, None]


async def test_a_process_that_is_refused_at_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    """S3: exit 2 is a wrong setting; starting again cannot help."""
    refused = ProcessSpec("picky", python("import sys; print('setting x: must be a number'); sys.exit(2)"), "http://127.0.0.1:9/")
    supervisor = Supervisor([refused], tmp_path)
    await supervisor.start()
    try:
        with pytest.raises(ProcessFailed, match=r"picky exited with 2 .*setting x: must be a number"):
            await supervisor.ready(10)
        assert supervisor.watched["picky"].restarts == 0
    finally:
        await supervisor.stop()
