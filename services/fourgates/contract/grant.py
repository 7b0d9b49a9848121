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
MAX_GRANT_CHARS = 24_576


@dataclass(frozen=True, slots=True)
class Grant:
    """What only the validator reads: the caller's bearer token and the key that seals the run's requests."""

    token: str = field(repr=False)
    run_key: bytes = field(repr=False)
    agent_token: str = field(default="", repr=False)
    """The agent's own credential, where the caller's token does not name the agent."""


def encrypt_grant(grant: Grant, validator_public: dict[str, Any]) -> str:
    """Compact JWE (ECDH-ES on P-256, A256GCM) to the validator's public JWK."""
    key = ECKey.import_key(validator_public)
    header = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": str(validator_public.get("kid", ""))}
    parts = {"token": grant.token, "run_key": grant.run_key.hex()}
    plain = json.dumps(parts | ({"agent_token": grant.agent_token} if grant.agent_token else {})).encode()
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
        token, agent_token = str(parts["token"]), str(parts.get("agent_token", ""))
        return Grant(token, bytes.fromhex(parts["run_key"]), agent_token)
    except (JoseError, ValueError, KeyError, TypeError, AttributeError) as fault:
        raise Poison("bad_grant", "the grant cannot be read by this validator") from fault
