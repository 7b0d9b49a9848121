"""The walls round a command: bubblewrap with a small read-only root, no network, no inherited environment, and limits."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fourgates.contract.errors import ConfigurationError

WORK: Final = "/work"
"""Where the workspace lies for the command."""
NOBODY: Final = 65_534
PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TMP, _SHM = "/tmp", "/dev/shm"  # noqa: S108 - inside, each command has its own
_ROOT: Final = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM: Final = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
_NEEDED: Final = ("bwrap", "setpriv", "unshare", "prlimit")
_HOW: Final = "install bubblewrap and util-linux (`make system`); a command never runs without its sandbox"


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """What a command may see and use. It sees /usr and its libraries, read-only, and nothing else of this machine.

    Limits hold for each process (memory, cpu, open files, size of a file) and for all of them (their number, /tmp).
    """

    reads: tuple[Path, ...] = ()
    """Further files and folders that it may read, at the same place."""
    workspace: Path | None = None
    """A folder that it finds as /work and starts in."""
    writable: bool = False
    """Whether it may write there."""
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = 512 * 2**20
    cpu_s: int = 10
    open_files: int = 64
    processes: int = 32
    file_bytes: int = 64 * 2**20
    tmp_bytes: int = 64 * 2**20

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "cpu_s", "open_files", "processes", "file_bytes", "tmp_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"sandbox: {name} must be 1 at least, nothing would ever run")
        if self.writable and self.workspace is None:
            raise ConfigurationError("sandbox: writable says that the workspace may be written to; name a workspace")
        for path in (*self.reads, *filter(None, [self.workspace])):
            if not path.is_absolute():
                raise ConfigurationError(f"sandbox: {path} is not absolute; where it lies would depend on who starts the worker")

    def words(self) -> list[Any]:
        """As part of the tool's version."""
        return [
            [str(path) for path in self.reads], str(self.workspace or ""), self.writable, dict(self.environment),
            self.memory_bytes, self.cpu_s, self.open_files, self.processes, self.file_bytes, self.tmp_bytes,
        ]  # fmt: skip

    def check(self) -> None:
        """Raises ConfigurationError where this machine cannot hold a command in."""
        if sys.platform != "linux":
            raise ConfigurationError(f"sandbox: {sys.platform} has no namespaces; commands run on Linux only")
        if missing := [name for name in _NEEDED if shutil.which(name, path=PATH) is None]:
            raise ConfigurationError(f"sandbox: {', '.join(missing)} is missing; {_HOW}")
        for path in (*self.reads, *filter(None, [self.workspace])):
            if not path.exists():
                raise ConfigurationError(f"sandbox: {path} does not exist")

    def wrapped(self, argv: list[str], status: int) -> list[str]:
        """The command line that runs `argv` inside; bubblewrap tells on the file descriptor `status` how it went."""
        root = os.geteuid() == 0
        return [
            "/usr/bin/bwrap", "--json-status-fd", str(status), "--die-with-parent", "--clearenv",
            *(_AS_ROOT if root else _AS_USER), *self._view(), "--remount-ro", "/", "--",
            *(_DROP if root else ()), *self._limits(), "--", *argv,
        ]  # fmt: skip

    def _view(self) -> list[str]:
        out = ["--ro-bind", "/usr", "/usr"]
        for name in _ROOT:
            if Path(name).is_symlink():
                out += ["--symlink", str(Path(name).readlink()), name]
            else:
                out += ["--ro-bind-try", name, name]
        out += ["--proc", "/proc", "--dev", "/dev", "--size", "4096", "--tmpfs", _SHM, "--remount-ro", _SHM]
        out += ["--remount-ro", "/dev", "--perms", "1777", "--size", str(self.tmp_bytes), "--tmpfs", _TMP]
        for name in _parents((*_SYSTEM, *map(str, self.reads))):
            out += ["--perms", "0755", "--dir", name]  # else only root could enter what bubblewrap makes on the way
        for name in (*_SYSTEM, *map(str, self.reads)):
            out += ["--ro-bind-try" if name in _SYSTEM else "--ro-bind", name, name]
        if self.workspace is not None:
            out += ["--bind" if self.writable else "--ro-bind", str(self.workspace), WORK]
        out += ["--chdir", WORK if self.workspace is not None else _TMP]
        for name, value in {"PATH": PATH, "HOME": _TMP, "LANG": "C.UTF-8", **self.environment}.items():
            out += ["--setenv", name, value]
        return out

    def _limits(self) -> list[str]:
        return [
            "/usr/bin/prlimit", f"--as={self.memory_bytes}", f"--cpu={self.cpu_s}:{self.cpu_s + 1}", "--core=0",
            f"--nofile={self.open_files}", f"--nproc={self.processes}", f"--fsize={self.file_bytes}",
        ]  # fmt: skip


def _parents(paths: tuple[str, ...]) -> list[str]:
    """Every folder above them that is not there by itself, from the top down."""
    above = {str(parent) for path in paths for parent in Path(path).parents}
    there = ("/usr", "/proc", "/dev")
    return sorted(name for name in above if name not in ("/", _TMP) and not any(f"{name}/".startswith(f"{at}/") for at in there))


_AS_USER: Final = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--uid", str(NOBODY), "--gid", str(NOBODY),
)  # fmt: skip
_AS_ROOT: Final = (
    "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL",
    "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP",
)  # fmt: skip
_DROP: Final = (
    "/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--bounding-set=-all", "--",
    "/usr/bin/unshare", "--user", "--map-current-user", "--",
)  # fmt: skip
"""Started by root, the command runs as nobody, in a user namespace of its own: only there its number of processes is counted
apart from everybody else's."""
