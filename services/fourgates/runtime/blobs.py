"""Large bytes beside the log: in a folder of this machine, in an S3-compatible store, or in memory.

Below a tenant's folder lie the bytes under their sha256, and beside each an empty object for every owner,
`<ref>.owners/<subject>.<run>` (both digests): who may read them, and what is to go when a subject is erased.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO

from fourgates.contract.errors import OverQuota
from fourgates.contract.ports import BlobInfo, BlobOwner
from fourgates.runtime.blob_names import OWNERS, REF, by_blob, folder_of, key_of, mark_of, marks_of, of_subject, ref_of
from fourgates.runtime.blob_objects import FolderObjects, MemoryObjects, Objects

_COUNTED_FOR_S = 60.0
"""A tenant's usage is counted anew after so long: other processes write too."""
_IN_MEMORY = 1 << 20


class Blobs:
    """The store over any place for objects. `quota` is bytes a tenant; 0 for no bound.

    The bound is counted by each process and may be passed by what others write within a minute.
    """

    def __init__(self, objects: Objects, quota: int = 0) -> None:
        self._objects, self._quota = objects, quota
        self._usage: dict[str, tuple[int, float]] = {}

    async def put(self, tenant: str, data: bytes, owner: BlobOwner | None = None) -> str:
        """See BlobStore."""
        return await self._store(tenant, ref_of(data), len(data), bytes(data), owner)

    async def put_stream(self, tenant: str, chunks: AsyncIterator[bytes], owner: BlobOwner | None = None) -> str:
        """See BlobStore."""
        digest, size = hashlib.sha256(), 0
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as spool:
            async for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                await asyncio.to_thread(spool.write, chunk)
            spool.seek(0)
            return await self._store(tenant, digest.hexdigest(), size, spool, owner)

    async def get(self, tenant: str, ref: str) -> bytes:
        """See BlobStore."""
        data = await self._objects.get(key_of(tenant, ref))
        if ref_of(data) != ref:
            raise KeyError(ref)
        return data

    async def read(self, tenant: str, ref: str, start: int, size: int) -> bytes:
        """See BlobStore."""
        about = await self.info(tenant, ref)
        size = max(0, min(size, about.size - start))
        return await self._objects.get(key_of(tenant, ref), start, size) if size else b""

    async def info(self, tenant: str, ref: str) -> BlobInfo:
        """See BlobStore."""
        found = await self._objects.head(key_of(tenant, ref))
        if found is None:
            raise KeyError(ref)
        return BlobInfo(found.size, found.stored_ms)

    async def owned(self, tenant: str, ref: str, owner: BlobOwner) -> bool:
        """See BlobStore."""
        if not REF.fullmatch(ref):
            return False
        if owner.run_id:
            return await self._objects.head(mark_of(tenant, ref, owner)) is not None
        return bool(of_subject(await self._objects.list(marks_of(tenant, ref)), owner.subject))

    async def delete(self, tenant: str, ref: str) -> None:
        """See BlobStore."""
        if not REF.fullmatch(ref):
            return
        await self._objects.delete(key_of(tenant, ref))
        for mark in await self._objects.list(marks_of(tenant, ref)):
            await self._objects.delete(mark.key)

    async def erase(self, tenant: str, subject: str) -> int:
        """See BlobStore."""
        removed = 0
        for key, (_, marks) in by_blob(await self._objects.list(f"{folder_of(tenant)}/")).items():
            own = of_subject(marks, subject)
            for mark in own:
                await self._objects.delete(mark.key)
            if own and len(own) == len(marks):
                await self._remove_unowned(key)
                removed += 1
        return removed

    async def expire(self, before_ms: int) -> int:
        """See BlobStore."""
        removed = 0
        for key, (blob, marks) in by_blob(await self._objects.list("")).items():
            newest = max(found.stored_ms for found in (blob, *marks) if found is not None)
            if newest < before_ms:
                await self._objects.delete(key)
                for mark in marks:
                    await self._objects.delete(mark.key)
                removed += blob is not None
        return removed

    async def _store(self, tenant: str, ref: str, size: int, content: bytes | IO[bytes], owner: BlobOwner | None) -> str:
        key = key_of(tenant, ref)
        if self._quota and await self._used(tenant) + size > self._quota and await self._objects.head(key) is None:
            raise OverQuota(f"{self._quota} bytes a tenant")
        if owner is not None:
            # Before the bytes: an erasure that runs meanwhile must see that they have another owner.
            await self._objects.put(mark_of(tenant, ref, owner), b"")
        if isinstance(content, bytes) and await self._is_there(key, content):
            return ref
        await self._objects.put(key, content)
        if tenant in self._usage:
            self._usage[tenant] = self._usage[tenant][0] + size, self._usage[tenant][1]
        return ref

    async def _is_there(self, key: str, data: bytes) -> bool:
        try:
            return await self._objects.get(key) == data
        except KeyError:
            return False

    async def _remove_unowned(self, key: str) -> None:
        """Removes bytes whose last owner has gone, and puts them back where one came meanwhile."""
        try:
            data = await self._objects.get(key)
        except KeyError:
            return
        await self._objects.delete(key)
        if await self._objects.list(f"{key}{OWNERS}"):
            await self._objects.put(key, data)

    async def _used(self, tenant: str) -> int:
        counted = self._usage.get(tenant)
        if counted is None or time.monotonic() - counted[1] > _COUNTED_FOR_S:
            size = sum(found.size for found in await self._objects.list(f"{folder_of(tenant)}/"))
            counted = self._usage[tenant] = size, time.monotonic()
        return counted[0]


class LocalBlobStore(Blobs):
    """A folder: one below it for each tenant, files named by their content.

    What `put` has returned for is on disk. A file whose bytes no longer fit its name counts as missing.
    """

    def __init__(self, folder: Path, quota: int = 0) -> None:
        super().__init__(FolderObjects(folder), quota)


class MemoryBlobStore(Blobs):
    """The same in this process, for tests and the in-process pipeline."""

    def __init__(self, quota: int = 0) -> None:
        self._memory = MemoryObjects()
        super().__init__(self._memory, quota)

    def contents(self) -> list[bytes]:
        """All stored bytes, for tests."""
        return [data for key, (data, _) in self._memory.held.items() if OWNERS not in key]

    def __len__(self) -> int:
        return len(self.contents())


def s3_blob_store(url: str, access: Mapping[str, str], quota: int = 0) -> Blobs:
    """A bucket of an S3-compatible store; see `S3Objects.open` for the access."""
    from fourgates.runtime.s3 import S3Objects

    return Blobs(S3Objects.open(url, **access), quota)
