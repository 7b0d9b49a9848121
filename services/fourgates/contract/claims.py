"""Which claims of a token say who asks. The host and the validator read them alike, so both derive the same call_id."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from .parts import Principal

MAX_TOKEN_CHARS = 8_192


def principal_of(claims: Mapping[str, Any]) -> Principal:
    """The principal of a token's claims: iss, sub, tenant, groups, person (default sub), act.sub as the agent, service.

    Raises ValueError with a short stable word where a claim is missing or of another type. Proves nothing by itself.
    """
    subject = _text(claims, "sub")
    act = claims.get("act", {})
    if not isinstance(act, Mapping) or (act and not _is_text(act.get("sub"))):
        raise ValueError("bad_claim_act")
    groups = claims.get("groups", [])
    if not isinstance(groups, list) or not all(map(_is_text, groups)):
        raise ValueError("bad_claim_groups")
    service = claims.get("service", False)
    if not isinstance(service, bool):
        raise ValueError("bad_claim_service")
    person = _text(claims, "person") if "person" in claims else subject
    return Principal(
        issuer=_text(claims, "iss"), subject=subject, tenant=_text(claims, "tenant"), person=person,
        agent=act.get("sub", ""), groups=tuple(groups), service=service,
    )  # fmt: skip


def acting(user: Principal, agent: Principal) -> Principal:
    """The user, for whom an agent acts that has shown its own credential: a service account of the same tenant.

    Raises ValueError with a short stable word where these two do not belong together.
    """
    if not agent.service or agent.agent:
        raise ValueError("agent_no_service_account")  # a person's token must not make somebody an agent
    if agent.tenant != user.tenant:
        raise ValueError("agent_of_another_tenant")
    if user.agent not in ("", agent.subject):
        raise ValueError("agent_differs")
    return dataclasses.replace(user, agent=agent.subject)


def unproven_claims(token: str) -> dict[str, Any]:
    """The claims inside a JWT without looking at its signature: for its own holder, and to choose the issuer's keys.

    Raises ValueError(`token_unreadable`) for anything that is not a JWT. The token is never part of the message.
    """
    parts = token.split(".")
    if len(token) > MAX_TOKEN_CHARS or len(parts) != 3:
        raise ValueError("token_unreadable")
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise ValueError("token_unreadable")
    return claims


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not _is_text(value):
        raise ValueError(f"bad_claim_{name}" if name in claims else f"missing_claim_{name}")
    return str(value)
