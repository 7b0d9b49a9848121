"""The erasure's own door: loopback, and only with a word that the operator's key has sealed within the last minute."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fourgates.audit.door import LOOPBACK_HOSTS
from fourgates.audit.erasure import Eraser
from fourgates.audit.store import STORE_FAULTS
from fourgates.contract.errors import Transient
from fourgates.contract.ids import length_prefixed
from fourgates.contract.ports import Clock, Signer, Verifier
from fourgates.contract.seals import writer_of

PATH = "/erase"
_TAG = b"fourgates.erase.v1"
_FRESH_MS = 60_000
_BODY_BYTES = 16_384
_NAMES = ("tenant", "subject", "asked_by")


def operator_word(signer: Signer, body: bytes, now_ms: int) -> str:
    """The value of the Authorization header for this very body."""
    return f"Bearer {signer.key_id}.{now_ms}.{signer.sign(_sealed(body, now_ms)).hex()}"


def erasure_route(eraser: Eraser, verifier: Verifier, clock: Clock) -> Route:
    """POST {"tenant", "subject", "asked_by"}; answers with the receipt as JSON, or {"error": a sentence}."""

    async def answer(request: Request) -> Response:
        if request.url.hostname not in {host.strip("[]") for host in LOOPBACK_HOSTS}:
            return _refused("the Host header must name a loopback address", 403)
        body = await request.body() if int(request.headers.get("content-length", 0)) <= _BODY_BYTES else b""
        if not _is_operator(request.headers.get("authorization", ""), body, verifier, clock.now_ms()):
            return _refused("this needs the operator's word: a fresh seal of the operator's key over this request", 403)
        asked = _asked(body)
        if asked is None:
            return _refused("the body must be JSON with the texts tenant, subject and asked_by, none of them empty", 400)
        try:
            receipt = await eraser.erase(asked["tenant"], asked["subject"], asked["asked_by"])
        except (*STORE_FAULTS, Transient) as fault:
            return _refused(f"the erasure is not complete, ask for it again: {type(fault).__name__}", 503)
        return JSONResponse(dataclasses.asdict(receipt))

    return Route(PATH, answer, methods=["POST"])


def _is_operator(header: str, body: bytes, verifier: Verifier, now_ms: int) -> bool:
    scheme, _, value = header.partition(" ")
    key_id, _, rest = value.partition(".")
    said, _, mac = rest.partition(".")
    if (
        scheme.lower() != "bearer"
        or writer_of(key_id) != "operator"
        or not (said.isascii() and said.isdigit() and len(said) < 16)
    ):
        return False
    try:
        sealed = bytes.fromhex(mac)
    except ValueError:
        return False
    fresh = abs(now_ms - int(said)) <= _FRESH_MS
    return verifier.verify(key_id, _sealed(body, int(said)), sealed, now_ms) and fresh


def _sealed(body: bytes, now_ms: int) -> bytes:
    return length_prefixed((_TAG, body, str(now_ms)))


def _asked(body: bytes) -> Mapping[str, str] | None:
    try:
        said: Any = json.loads(body)
    except ValueError:
        return None
    if not isinstance(said, dict) or set(said) != set(_NAMES):
        return None
    return said if all(isinstance(said[name], str) and said[name] for name in _NAMES) else None


def _refused(why: str, status: int) -> Response:
    return JSONResponse({"error": why}, status)
