"""A raw result on its way from the executor to the sanitizer: encrypted, bound to its call, so that no log holds it readable."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pydantic_core import to_jsonable_python

from fourgates.contract.ids import length_prefixed
from fourgates.contract.parts import ResultBox

INLINE_BYTES = 262_144
"""A ciphertext beyond this travels by reference: the executor stores it and sets `blob_ref`."""
_NONCE_BYTES = 12


class UnreadableResult(Exception):
    """The box does not open: an unknown key, another call's box, damaged bytes."""


def seal_result(content: Any, key_id: str, key: bytes, call_id: str) -> ResultBox:
    """Encrypts a result for the call. `key` has 32 bytes.

    The content is a JSON value; what else a tool returns (times, decimals, models, bytes) becomes its JSON form, and what has
    none its type's name: a tool that has committed must not fail for the form of its answer. The ciphertext is inside whatever
    its size; see `INLINE_BYTES`.
    """
    plain = _json(content).encode()
    nonce = secrets.token_bytes(_NONCE_BYTES)
    ciphertext = AESGCM(key).encrypt(nonce, plain, _bound_to(key_id, call_id))
    return ResultBox(key_id=key_id, nonce=nonce, ciphertext=ciphertext, size=len(plain))


def open_result(box: ResultBox, keys: Mapping[str, bytes], call_id: str) -> Any:
    """The content of a box whose ciphertext is inside (of one by reference: put back by who fetched it).

    Raises UnreadableResult.
    """
    key = keys.get(box.key_id)
    if key is None:
        raise UnreadableResult(f"no result key {box.key_id!r}")
    try:
        return json.loads(AESGCM(key).decrypt(box.nonce, box.ciphertext, _bound_to(box.key_id, call_id)))
    except (InvalidTag, ValueError, RecursionError) as fault:
        raise UnreadableResult(type(fault).__name__) from None


def _bound_to(key_id: str, call_id: str) -> bytes:
    return length_prefixed(("fourgates.result.v1", key_id, call_id))


def _json(content: Any) -> str:
    try:
        return json.dumps(to_jsonable_python(content, bytes_mode="utf8", fallback=_named))
    except (ValueError, TypeError, RecursionError):  # bytes that are no text, cycles, too deep
        return _plain_json(content)


def _plain_json(content: Any) -> str:
    try:
        return json.dumps(content, default=_named, skipkeys=True)
    except (ValueError, TypeError, RecursionError):
        return json.dumps(_named(content))


def _named(value: Any) -> str:
    return f"<{type(value).__name__}>"
