"""How a raw result leaves the executor: encrypted to the sanitizer, in the record or, if large, by reference."""

from __future__ import annotations

import dataclasses
from typing import Any

from fourgates.contract.parts import Call, ResultBox
from fourgates.contract.ports import BlobOwner, BlobStore
from fourgates.executor.streams import SealedStream
from fourgates.gates.result_box import seal_result
from fourgates.gates.result_stream import box_stream


class ResultBoxes:
    """Boxes results with the sanitizer's key."""

    def __init__(self, key_id: str, key: bytes, blobs: BlobStore, inline_bytes: int) -> None:
        self._key_id, self._key, self._blobs, self._inline = key_id, key, blobs, inline_bytes

    async def box(self, call: Call, content: Any) -> ResultBox | None:
        """The box, or None where there is nothing to tell. A ciphertext beyond the inline limit goes to the blob store."""
        if content is None:
            return None
        owner = BlobOwner(call.principal.subject, call.run_id)
        if isinstance(content, SealedStream):
            ref = await self._blobs.put_stream(call.principal.tenant, content.read(), owner)
            return box_stream(content.key, content.size, ref, self._key_id, self._key, call.call_id)
        box = seal_result(content, self._key_id, self._key, call.call_id)
        if len(box.ciphertext) <= self._inline:
            return box
        ref = await self._blobs.put(call.principal.tenant, box.ciphertext, owner)
        return dataclasses.replace(box, ciphertext=b"", blob_ref=ref)
