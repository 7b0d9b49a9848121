"""A new key for one writer: what it seals from now on; the old one verifies what was appended before its end."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fourgates.contract.errors import ConfigurationError
from fourgates.contract.seals import writer_of


def rotated(content: Mapping[str, Any], writer: str, retired_ms: int) -> dict[str, Any]:
    """A key file's content with a new key for `writer`; its present one ends at `retired_ms` of broker time.

    Every process has to know the new key before the writer itself starts with it, and the writer before the old one ends.
    Raises ConfigurationError where the file has no key of that writer that still serves.
    """
    seals: dict[str, dict[str, Any]] = {key_id: dict(entry) for key_id, entry in content["seals"].items()}
    numbers = {int(key_id.partition(":")[2]): key_id for key_id in seals if writer_of(key_id) == writer}
    serving = [key_id for key_id in numbers.values() if not (seals[key_id].get("retired") or "retired_ms" in seals[key_id])]
    if not serving:
        raise ConfigurationError(f"the key file has no key with which {writer!r} seals")
    for key_id in serving:
        seals[key_id]["retired_ms"] = retired_ms
    signed = "private" in seals[serving[0]]
    new = Ed25519PrivateKey.generate().private_bytes_raw().hex() if signed else secrets.token_hex(32)
    seals[f"{writer}:{max(numbers) + 1}"] = {"private" if signed else "secret": new}
    return {**content, "seals": seals}
