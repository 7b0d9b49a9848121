"""The run's grant: {token, run key} encrypted to the validator, so that no usable token lies in a record."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

from joserfc import jwe
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from .errors import Poison

_ALGORITHMS = ["ECDH-ES", "A256GCM"]
MAX_GRANT_CHARS = 16_384


@dataclass(frozen=True, slots=True)
class Grant:
    """What only the validator reads: the caller's bearer token and the key that seals the run's requests."""

    token: str = field(repr=False)
    run_key: bytes = field(repr=False)


def encrypt_grant(grant: Grant, validator_public: dict[str, Any]) -> str:
    """Compact JWE (ECDH-ES on P-256, A256GCM) to the validator's public JWK."""
    key = ECKey.import_key(validator_public)
    header = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": str(validator_public.get("kid", ""))}
    plain = json.dumps({"token": grant.token, "run_key": grant.run_key.hex()}).encode()
    return jwe.encrypt_compact(header, plain, key, algorithms=_ALGORITHMS)


def key_id_of(text: str) -> str:
    """The key id that a grant's header names; empty where it cannot be read."""
    try:
        return str(json.loads(base64.urlsafe_b64decode(text[: text.index(".")] + "=="))["kid"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def decrypt_grant(text: str, validator_private: dict[str, Any]) -> Grant:
    """The grant, or Poison(`bad_grant`): what nobody can read proves nothing."""
    if len(text) > MAX_GRANT_CHARS:
        raise Poison("bad_grant", "the grant is too long")
    try:
        plain = jwe.decrypt_compact(text, ECKey.import_key(validator_private), algorithms=_ALGORITHMS).plaintext
        parts = json.loads(plain or b"")
        return Grant(token=str(parts["token"]), run_key=bytes.fromhex(parts["run_key"]))
    except (JoseError, ValueError, KeyError, TypeError) as fault:
        raise Poison("bad_grant", "the grant cannot be read by this validator") from fault
