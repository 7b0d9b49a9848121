"""Files below one folder and nowhere else: the kernel keeps every path inside (openat2, RESOLVE_BENEATH)."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fourgates.catalog import ToolError, ToolErrorKind
from fourgates.contract.errors import ConfigurationError

_SYS_OPENAT2 = 437  # one number on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08
_TRIES = 16
"""A rename beside us may make the kernel unsure (EAGAIN); it is asked so often, then the path counts as outside."""


_READING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Opening must not wait, nor take over a terminal."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class Workspace:
    """Reads, lists and writes below `root`. Links are followed as long as they stay inside; races cannot lead out.

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
        with self._held(path, os.O_PATH) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise _not_a_file()
            try:  # only now is it opened: opening a device can do something
                handle = os.open(f"/proc/self/fd/{place}", _READING)
            except OSError as fault:
                raise _told(fault) from fault
            with os.fdopen(handle, "rb") as file:
                data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError("file_too_large", f"The file is larger than {limit} bytes.", not_executed=True)
        return data

    def read_text(self, path: str, limit: int = 1_000_000) -> str:
        """The file as UTF-8 text."""
        try:
            return self.read(path, limit).decode()
        except UnicodeDecodeError as fault:
            raise ToolError("not_text", "The file is not UTF-8 text.", not_executed=True) from fault

    def names(self, path: str = ".", limit: int = 1_000) -> list[str]:
        """What lies in a folder, sorted, folders with a `/` behind; at most `limit`. Raises ToolError as `read`."""
        with self._held(path, _READING | os.O_DIRECTORY) as folder, os.scandir(folder) as entries:
            found = sorted(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else "") for entry in entries)
        if len(found) > limit:
            raise ToolError("folder_too_large", f"The folder holds more than {limit} entries.", not_executed=True)
        return found

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        """The file is there whole or not at all, also after a crash; a link of that name is replaced, never followed.

        `new`: only where nothing has that name yet. Folders on the way must exist. Raises ToolError, with nothing written.
        """
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            raise _not_a_file()
        with self._held(above or ("/" if path.startswith("/") else "."), _READING | os.O_DIRECTORY, name) as folder:
            own = f".fourgates-{secrets.token_hex(8)}"
            try:
                handle = os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(handle)
                if new:
                    os.link(own, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                    os.unlink(own, dir_fd=folder)
                else:
                    os.rename(own, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as fault:
                _remove(own, folder)
                raise _told(fault) from fault
            os.fsync(folder)

    def close(self) -> None:
        """Forgets the folder."""
        os.close(self._root)

    @contextmanager
    def _held(self, path: str, flags: int, name: str = "") -> Iterator[int]:
        """The place as the kernel found it, inside, until the block ends. Raises ToolError."""
        try:
            if b"\0" in os.fsencode(path + name):
                raise _outside()
            handle = self._open(path, flags)
        except OSError as fault:
            raise _told(fault) from fault
        except UnicodeEncodeError as fault:  # a lone surrogate is no file's name
            raise _told(FileNotFoundError(errno.ENOENT, "no such name")) from fault
        try:
            yield handle
        finally:
            os.close(handle)

    def _open(self, path: str, flags: int = os.O_PATH) -> int:
        how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
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


def _not_a_file() -> ToolError:
    return ToolError("not_a_file", "The path is not a regular file.", ToolErrorKind.INVALID, not_executed=True)


def _remove(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return  # it was never made, or has got its own name already


def _told(fault: OSError) -> ToolError:
    """What a model may know of it: never where the workspace lies, nor what the system says."""
    if fault.errno in (errno.EXDEV, errno.ELOOP):
        return _outside()
    if fault.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return ToolError("file_not_found", "There is no such file.", ToolErrorKind.INVALID, not_executed=True)
    if fault.errno in (errno.ENXIO, errno.EISDIR, errno.ENOTEMPTY):
        return _not_a_file()
    if fault.errno == errno.EEXIST:
        return ToolError("file_exists", "There is such a file already.", ToolErrorKind.INVALID, not_executed=True)
    if fault.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ToolError("no_space", "There is no space for it.", not_executed=True)
    return ToolError("file_unreadable", "The file cannot be read or written.", not_executed=True)
