"""RFC 8785 canonical JSON and the digests that are taken over it."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value. Raises `rfc8785.CanonicalizationError` for what JSON cannot carry exactly."""
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """sha256 over the canonical form, 64 lower-case hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """sha256 over bytes that are already in their only form."""
    return hashlib.sha256(data).hexdigest()
