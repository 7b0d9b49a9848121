"""Child processes that never outlive this one, whatever ends it: ctrl-C, SIGTERM or kill -9."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> Callable[[], None] | None:
    """What the child does between fork and exec. Linux only: elsewhere a parent's kill -9 leaves its children running."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # loaded before the fork: nothing may be imported after it
    parent = os.getpid()

    def arm() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the line above
            os._exit(1)

    return arm


def spawn(
    argv: Sequence[str], log: Path, *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a child in a process group of its own, with its output appended to `log`.

    Its own group keeps a ctrl-C in the terminal from reaching it, so that children end in the order we choose. Call it from
    a thread that lives as long as the process (the main thread): Linux ends the child with the thread that started it.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - argv is ours, no shell
            list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=cwd, env=env,
            start_new_session=True, preexec_fn=_die_with_parent(),
        )  # fmt: skip


def signal_group(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Sends a signal to the child and to whatever it started. Nothing happens where they have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, number)


def end_group(child: subprocess.Popen[bytes], grace: float) -> int:
    """SIGTERM, then after `grace` seconds SIGKILL. Returns the exit code. Blocks: call it in a thread from async code."""
    if child.poll() is None:
        signal_group(child, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(grace)
    signal_group(child, signal.SIGKILL)
    return child.wait()
