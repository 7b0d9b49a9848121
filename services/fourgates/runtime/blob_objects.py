"""Named bytes in a folder or in memory: what the blob store is built on."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from fourgates.contract.errors import Transient


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a listing tells of it."""

    key: str
    size: int
    stored_ms: int


class Objects(Protocol):
    """Keys are `folder/name` or `folder/name/name`, of safe characters. Every method raises Transient where the place does not
    answer."""

    async def put(self, key: str, content: bytes | IO[bytes]) -> None:
        """A reader sees the whole object or none; what this has returned for survives a crash."""

    async def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes, or `size` of them from `start` on. KeyError where there is no such object."""

    async def head(self, key: str) -> Found | None:
        """What there is under the key."""

    async def delete(self, key: str) -> None:
        """Nothing happens where there is none."""

    async def list(self, folder: str) -> list[Found]:
        """The objects whose keys begin with `folder`, which ends in a slash; all of them for an empty one."""


class FolderObjects:
    """A folder of this machine, readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, key: str, content: bytes | IO[bytes]) -> None:
        await asyncio.to_thread(self._put, self._path(key), content)

    async def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        return await asyncio.to_thread(self._get, self._path(key), start, size)

    async def head(self, key: str) -> Found | None:
        return await asyncio.to_thread(self._head, key)

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._delete, self._path(key))

    async def list(self, folder: str) -> list[Found]:
        return await asyncio.to_thread(lambda: sorted(self._list(folder), key=lambda found: found.key))

    def _path(self, key: str) -> Path:
        tenant, name, *rest = key.split("/")
        return self._folder.joinpath(tenant, name[:2], name, *rest)

    def _put(self, path: Path, content: bytes | IO[bytes]) -> None:
        try:
            above = (path.parent, *path.parent.relative_to(self._folder).parents)
            made = [parent for parent in (self._folder / part for part in above) if not parent.exists()]
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_whole(path, content)
            for folder in (path.parent, *(parent.parent for parent in made)):
                _sync_folder(folder)
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault

    def _get(self, path: Path, start: int, size: int | None) -> bytes:
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read() if size is None else file.read(size)
        except FileNotFoundError:
            raise KeyError(path.name) from None
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault

    def _head(self, key: str) -> Found | None:
        try:
            about = self._path(key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault
        return Found(key, about.st_size, about.st_mtime_ns // 1_000_000)

    def _delete(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
            with suppress(OSError):  # not empty: somebody else's are there
                path.parent.rmdir()
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault

    def _list(self, folder: str) -> Iterator[Found]:
        parts = [part for part in folder.split("/") if part]
        where = self._folder.joinpath(*(parts if len(parts) < 2 else (parts[0], parts[1][:2], *parts[1:])))
        try:
            for path in where.rglob("*"):
                if path.is_file() and not path.name.startswith("."):
                    tenant, _, *names = path.relative_to(self._folder).parts
                    if (found := self._head("/".join((tenant, *names)))) is not None:
                        yield found
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault


class MemoryObjects:
    """The same in this process, for tests and the in-process pipeline."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[bytes, int]] = {}

    async def put(self, key: str, content: bytes | IO[bytes]) -> None:
        self.held[key] = (content if isinstance(content, bytes) else content.read(), time.time_ns() // 1_000_000)

    async def get(self, key: str, start: int = 0, size: int | None = None) -> bytes:
        data = self.held[key][0]
        return data[start:] if size is None else data[start : start + size]

    async def head(self, key: str) -> Found | None:
        held = self.held.get(key)
        return None if held is None else Found(key, len(held[0]), held[1])

    async def delete(self, key: str) -> None:
        self.held.pop(key, None)

    async def list(self, folder: str) -> list[Found]:
        return [Found(key, len(data), at) for key, (data, at) in sorted(self.held.items()) if key.startswith(folder)]


def _write_whole(path: Path, content: bytes | IO[bytes]) -> None:
    """A reader sees the whole file or none, also after a crash."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as out:
            if isinstance(content, bytes):
                out.write(content)
            else:
                shutil.copyfileobj(content, out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Makes names in `folder` durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
