"""A raw result that does not fit into memory on its way to the sanitizer: frames under a key of its own, which the box brings.

Each frame is AES-GCM over 64 KiB with its number as nonce (the key is never used for another stream) and says whether it is
the last, so that frames can be neither lost, moved nor cut off unnoticed.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fourgates.contract.ids import length_prefixed
from fourgates.contract.parts import ResultBox
from fourgates.gates.result_box import UnreadableResult

FRAME_BYTES = 65_536
SEALED_FRAME_BYTES = FRAME_BYTES + 16
_KEY_BYTES, _NONCE_BYTES = 32, 12
_MORE, _LAST = b"more", b"last"


class FrameSealer:
    """Seals the frames of one stream, in order."""

    def __init__(self) -> None:
        self.key = secrets.token_bytes(_KEY_BYTES)
        self._cipher, self._number = AESGCM(self.key), 0

    def seal(self, frame: bytes, *, last: bool = False) -> bytes:
        """`frame` has FRAME_BYTES, the last one at most so many."""
        sealed = self._cipher.encrypt(_nonce(self._number), frame, _LAST if last else _MORE)
        self._number += 1
        return sealed


class FrameOpener:
    """Opens them again. Raises UnreadableResult for a frame that is not the next one."""

    def __init__(self, key: bytes) -> None:
        self._cipher, self._number = AESGCM(key), 0

    def open(self, sealed: bytes, *, last: bool) -> bytes:
        try:
            frame = self._cipher.decrypt(_nonce(self._number), sealed, _LAST if last else _MORE)
        except InvalidTag:
            raise UnreadableResult("a frame of the stream does not open") from None
        self._number += 1
        return frame


def box_stream(stream_key: bytes, size: int, blob_ref: str, key_id: str, key: bytes, call_id: str) -> ResultBox:
    """The box of a stream whose frames lie under `blob_ref`: it brings their key, for the sanitizer only."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, stream_key, _bound_to(key_id, call_id, blob_ref))
    return ResultBox(key_id=key_id, nonce=nonce, ciphertext=ciphertext, blob_ref=blob_ref, size=size)


def is_stream(box: ResultBox) -> bool:
    """Whether frames lie under its reference, rather than its own ciphertext."""
    return bool(box.blob_ref and box.ciphertext)


def stream_opener(box: ResultBox, keys: Mapping[str, bytes], call_id: str) -> FrameOpener:
    """Opens the frames of the box. Raises UnreadableResult."""
    key = keys.get(box.key_id)
    if key is None:
        raise UnreadableResult(f"no result key {box.key_id!r}")
    try:
        return FrameOpener(AESGCM(key).decrypt(box.nonce, box.ciphertext, _bound_to(box.key_id, call_id, box.blob_ref)))
    except (InvalidTag, ValueError) as fault:
        raise UnreadableResult(type(fault).__name__) from None


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_BYTES, "big")


def _bound_to(key_id: str, call_id: str, blob_ref: str) -> bytes:
    return length_prefixed(("fourgates.result.stream.v1", key_id, call_id, blob_ref))
