"""Large bytes beside the log: in a folder of this machine, or in memory. A reference is the sha256 of the bytes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import tempfile
from pathlib import Path

from fourgates.contract.errors import Transient

_REF = re.compile(r"[0-9a-f]{64}")
_UNSAFE = re.compile(r"[^a-z0-9]+")


def _ref_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(tenant: str) -> str:
    if not tenant:
        raise ValueError("a blob belongs to a tenant")
    return tenant


class LocalBlobStore:
    """A folder: one below it for each tenant, files named by their content.

    What `put` has returned for is on disk. A file whose bytes no longer fit its name counts as missing. Raises Transient where
    the disk refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def put(self, tenant: str, data: bytes) -> str:
        """Stores `data`; the same bytes again change nothing."""
        return await asyncio.to_thread(self._put, _checked(tenant), data)

    async def get(self, tenant: str, ref: str) -> bytes:
        """The bytes. KeyError where that tenant has none under `ref`."""
        return await asyncio.to_thread(self._get, _checked(tenant), ref)

    async def delete(self, tenant: str, ref: str) -> None:
        """Removes them; nothing happens where there are none."""
        await asyncio.to_thread(self._delete, _checked(tenant), ref)

    def _put(self, tenant: str, data: bytes) -> str:
        ref = _ref_of(data)
        path = self._path(tenant, ref)
        try:
            if self._read(path) == data:
                return ref
            made = [parent for parent in (path.parent, path.parent.parent, self._folder) if not parent.exists()]
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_whole(path, data)
            for folder in (path.parent, *(parent.parent for parent in made)):
                _sync_folder(folder)
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault
        return ref

    def _get(self, tenant: str, ref: str) -> bytes:
        if not _REF.fullmatch(ref):
            raise KeyError(ref)
        data = self._read(self._path(tenant, ref))
        if data is None or _ref_of(data) != ref:
            raise KeyError(ref)
        return data

    def _delete(self, tenant: str, ref: str) -> None:
        if not _REF.fullmatch(ref):
            return
        try:
            self._path(tenant, ref).unlink(missing_ok=True)
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault

    def _read(self, path: Path) -> bytes | None:
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise Transient(f"blob store: {fault.strerror}") from fault

    def _path(self, tenant: str, ref: str) -> Path:
        # The digest makes the name safe and one tenant's own, also where file names ignore case; the words are for people.
        words = _UNSAFE.sub("-", tenant.lower())[:32].strip("-")
        return self._folder / f"{words}-{_ref_of(tenant.encode())[:32]}" / ref[:2] / ref


class MemoryBlobStore:
    """The same in this process, for tests and the in-process pipeline."""

    def __init__(self) -> None:
        self._blobs: dict[tuple[str, str], bytes] = {}

    async def put(self, tenant: str, data: bytes) -> str:
        ref = _ref_of(data)
        self._blobs[_checked(tenant), ref] = bytes(data)
        return ref

    async def get(self, tenant: str, ref: str) -> bytes:
        return self._blobs[_checked(tenant), ref]

    async def delete(self, tenant: str, ref: str) -> None:
        self._blobs.pop((_checked(tenant), ref), None)

    def __len__(self) -> int:
        return len(self._blobs)


def _write_whole(path: Path, data: bytes) -> None:
    """A reader sees the whole file or none, also after a crash."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
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
