"""The name of a build, as far as it decides what a row looks like."""

from __future__ import annotations

import hashlib
import hmac
from functools import cache
from importlib.resources import files

_ROOMS = ("fourgates.contract", "fourgates.gates", "fourgates.audit")
"""Whose code takes part in making a row: decoding, redaction, columns."""


def build_digest(key: bytes, kinds: str) -> str:
    """16 hex digits: equal where code, key and the kinds of personal data to redact are. `kinds` is any text that names them."""
    return hmac.digest(key, kinds.encode() + _code(), "sha256").hex()[:16]


@cache
def _code() -> bytes:
    digest = hashlib.sha256()
    for room in _ROOMS:
        for source in sorted((one for one in files(room).iterdir() if one.name.endswith(".py")), key=lambda one: one.name):
            digest.update(source.name.encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    return digest.digest()
