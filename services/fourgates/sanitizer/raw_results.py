"""Raw results: opened here and nowhere else, and their blobs removed once nobody needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fourgates.contract.parts import ResultBox
from fourgates.contract.ports import BlobStore
from fourgates.gates.result_box import open_result
from fourgates.gates.result_stream import SEALED_FRAME_BYTES, FrameOpener, stream_opener

_AT_ONCE = 16 * SEALED_FRAME_BYTES


class RawResults:
    """Opens what the executor encrypted to us."""

    def __init__(self, keys: Mapping[str, bytes], blobs: BlobStore) -> None:
        self._keys, self._blobs = keys, blobs

    async def open(self, box: ResultBox, tenant: str, call_id: str) -> Any:
        """The content. KeyError where its blob is gone; UnreadableResult where the box does not open."""
        if box.blob_ref:
            box = dataclasses.replace(box, ciphertext=await self._blobs.get(tenant, box.blob_ref))
        return open_result(box, self._keys, call_id)

    async def stream(self, box: ResultBox, tenant: str, call_id: str) -> AsyncIterator[bytes]:
        """The pieces of a streamed content. Raises as `open`, also while it is read."""
        opener = stream_opener(box, self._keys, call_id)
        size = (await self._blobs.info(tenant, box.blob_ref)).size
        return self._pieces(box, tenant, opener, size)

    async def discard(self, box: ResultBox, tenant: str) -> None:
        """Removes the raw blob, if there is one. Only after the answer is acknowledged: it cannot be made again."""
        if box.blob_ref:
            await self._blobs.delete(tenant, box.blob_ref)

    async def _pieces(self, box: ResultBox, tenant: str, opener: FrameOpener, size: int) -> AsyncIterator[bytes]:
        for start in range(0, size, _AT_ONCE):
            sealed = await self._blobs.read(tenant, box.blob_ref, start, _AT_ONCE)
            for at in range(0, len(sealed), SEALED_FRAME_BYTES):
                frame = sealed[at : at + SEALED_FRAME_BYTES]
                yield opener.open(frame, last=start + at + len(frame) >= size)
