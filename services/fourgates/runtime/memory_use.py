"""Memory that a process has taken for a while and does not need any more."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Returns what is free to the system. To be called after a state was loaded: most of what was read for it is gone by then.

    Takes some hundredths of a second. Without glibc only the collector runs.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
