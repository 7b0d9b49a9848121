"""Raw results: opened here and nowhere else, and their blobs removed once nobody needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fourgates.contract.parts import ResultBox
from fourgates.contract.ports import BlobStore
from fourgates.gates.result_box import open_result


class RawResults:
    """Opens what the executor encrypted to us."""

    def __init__(self, keys: Mapping[str, bytes], blobs: BlobStore) -> None:
        self._keys, self._blobs = keys, blobs

    async def open(self, box: ResultBox, tenant: str, call_id: str) -> Any:
        """The content. KeyError where its blob is gone; UnreadableResult where the box does not open."""
        if box.blob_ref:
            box = dataclasses.replace(box, ciphertext=await self._blobs.get(tenant, box.blob_ref))
        return open_result(box, self._keys, call_id)

    async def discard(self, box: ResultBox, tenant: str) -> None:
        """Removes the raw blob, if there is one. Only after the answer is acknowledged: it cannot be made again."""
        if box.blob_ref:
            await self._blobs.delete(tenant, box.blob_ref)
