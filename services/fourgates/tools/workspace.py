"""Files below one folder and nowhere else: the kernel keeps every path inside (openat2, RESOLVE_BENEATH)."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from pathlib import Path

from fourgates.catalog import ToolError, ToolErrorKind
from fourgates.contract.errors import ConfigurationError

_SYS_OPENAT2 = 437  # one number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_TRIES = 16
"""A rename beside us may make the kernel unsure (EAGAIN); it is asked so often, then the path counts as outside."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Workspace:
    """Reads regular files below `root`. Links are followed as long as they stay inside; races cannot lead out.

    Raises ConfigurationError where the folder is missing, or the kernel has no openat2 (Linux before 5.6, other systems, some
    sandboxes): there would be no boundary.
    """

    def __init__(self, root: Path) -> None:
        try:
            self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as fault:
            raise ConfigurationError(f"workspace {root}: {fault.strerror}; name an existing folder") from fault
        self._openat2 = _openat2_function()
        try:
            os.close(self._open("."))
        except OSError as fault:
            os.close(self._root)
            reason = f"this system has no openat2 ({fault.strerror})"
            raise ConfigurationError(f"workspace {root}: {reason}; use Linux 5.6 or later") from fault

    def read(self, path: str, limit: int = 1_000_000) -> bytes:
        """The file's bytes. Raises ToolError, which a model may read, for anything that is not a readable file inside."""
        if "\0" in path:
            raise _outside()
        try:
            handle = self._open(path)
        except OSError as fault:
            raise _told(fault) from fault
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise ToolError("not_a_file", "The path is not a regular file.", ToolErrorKind.INVALID, not_executed=True)
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read(limit + 1)
        finally:
            os.close(handle)
        if len(data) > limit:
            raise ToolError("file_too_large", f"The file is larger than {limit} bytes.", not_executed=True)
        return data

    def read_text(self, path: str, limit: int = 1_000_000) -> str:
        """The file as UTF-8 text."""
        try:
            return self.read(path, limit).decode()
        except UnicodeDecodeError as fault:
            raise ToolError("not_text", "The file is not UTF-8 text.", not_executed=True) from fault

    def close(self) -> None:
        """Forgets the folder."""
        os.close(self._root)

    def _open(self, path: str) -> int:
        # O_NONBLOCK: opening a FIFO or a device must not wait; O_NOCTTY: nor take over a terminal.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
        for _ in range(_TRIES):
            handle = self._openat2(_SYS_OPENAT2, self._root, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
            if handle >= 0:
                return int(handle)
            fault = ctypes.get_errno()
            if fault not in (errno.EAGAIN, errno.EINTR):
                raise OSError(fault, os.strerror(fault))
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _openat2_function() -> ctypes._NamedFuncPointer:
    if sys.platform != "linux":
        raise ConfigurationError(f"workspace: {sys.platform} has no openat2; use Linux 5.6 or later")
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)
    return syscall


def _outside() -> ToolError:
    return ToolError("outside_workspace", "The path leads outside the workspace.", ToolErrorKind.INVALID, not_executed=True)


def _told(fault: OSError) -> ToolError:
    """What a model may know of it: never where the workspace lies, nor what the system says."""
    if fault.errno in (errno.EXDEV, errno.ELOOP):
        return _outside()
    if fault.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return ToolError("file_not_found", "There is no such file.", ToolErrorKind.INVALID, not_executed=True)
    if fault.errno == errno.ENXIO:  # a socket, or a FIFO that nobody writes to
        return ToolError("not_a_file", "The path is not a regular file.", ToolErrorKind.INVALID, not_executed=True)
    return ToolError("file_unreadable", "The file cannot be read.", not_executed=True)
