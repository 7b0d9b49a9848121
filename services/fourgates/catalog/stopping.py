"""How a running tool learns that its time is over or that nobody waits for it any more."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator


class Stopped(Exception):
    """Raised by `Stopping.check` inside a tool that was asked to stop."""


class Stopping:
    """The wish that one attempt ends. Threads ask it; a database cursor or a process hangs its own end on it.

    An async function needs it rarely, since it is cancelled.
    """

    __slots__ = ("_calls", "_ends", "_lock", "_wish")

    def __init__(self, seconds: float | None = None) -> None:
        self._wish = threading.Event()
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []
        self._ends = None if seconds is None else time.monotonic() + seconds

    @property
    def requested(self) -> bool:
        """True once the attempt should end."""
        return self._wish.is_set()

    def seconds_left(self) -> float:
        """Seconds until this attempt's end, never below 0; infinite where it has none."""
        return float("inf") if self._ends is None else max(0.0, self._ends - time.monotonic())

    def wait(self, seconds: float | None = None) -> bool:
        """For threads, in place of `time.sleep`: returns True as soon as the attempt should end, False after `seconds`."""
        return self._wish.wait(seconds)

    def check(self) -> None:
        """Raises Stopped once the attempt should end. Call it between two steps that belong to no transaction."""
        if self.requested:
            raise Stopped

    @contextlib.contextmanager
    def calling(self, end: Callable[[], object]) -> Iterator[None]:
        """Calls `end` (a cursor's interrupt, a connection's close) if the wish comes meanwhile; at once where it has come.

        `end` runs in another thread than the body and must be safe there.
        """
        with self._lock:
            self._calls.append(end)
            late = self.requested
        try:
            if late:
                end()
            yield
        finally:
            with self._lock:
                self._calls.remove(end)

    def request(self) -> None:
        """The runtime's: the attempt should end now. A second wish changes nothing."""
        with self._lock:
            if self._wish.is_set():
                return
            self._wish.set()
            for end in self._calls:  # under the lock: nobody closes what is being interrupted
                with contextlib.suppress(Exception):  # whatever it is, the attempt is given up all the same
                    end()

    def lasts(self, seconds: float) -> None:
        """The runtime's: from now on there are so many seconds."""
        self._ends = time.monotonic() + seconds
