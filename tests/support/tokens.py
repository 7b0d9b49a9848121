"""Tokens and sealed requests for the tests of identity: one keyring, one development issuer, a time that stands still."""

from __future__ import annotations

import base64
import dataclasses
import json
from functools import cache
from typing import Any

from fourgates.contract.events import CallRequested
from fourgates.contract.grant import Grant, encrypt_grant
from fourgates.contract.ports import Position, Received
from fourgates.contract.seals import HmacSigner, RecordWriter
from fourgates.runtime.keys import Keyring, new_development_content
from support.records import codec
from support.samples import REQUESTED

NOW_MS = 1_800_000_000_000
RUN_KEY = b"r" * 32


@cache
def keyring() -> Keyring:
    return Keyring(new_development_content())


def token(**changes: Any) -> str:
    """A token of the development issuer, issued at NOW_MS."""
    return keyring().issuer.token(**{"subject": "anna", "tenant": "acme", "now_ms": NOW_MS, **changes})


def sealed(request: CallRequested = REQUESTED, *, run_key: bytes = RUN_KEY, key_id: str = "run", bearer: str = "") -> Received:
    """The request as a broker gives it: with a grant of its own unless it has one, sealed by the run key."""
    if request.grant == REQUESTED.grant:
        grant = encrypt_grant(Grant(bearer or token(), RUN_KEY), keyring().validator_public())
        request = dataclasses.replace(request, grant=grant)
    topic, key, value = RecordWriter(codec(), HmacSigner(key_id, run_key)).encode(request)
    return Received(Position(topic, 0, 0), NOW_MS, key, value)


def forged(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """A JWT with any content and any signature."""

    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    return ".".join((part(json.dumps(header).encode()), part(json.dumps(claims).encode()), part(signature)))
