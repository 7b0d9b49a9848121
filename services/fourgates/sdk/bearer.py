"""The run's credential: the caller's token, and the grant and run key that stand for it in records."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fourgates.contract.claims import acting, principal_of, unproven_claims
from fourgates.contract.grant import Grant, encrypt_grant
from fourgates.contract.parts import Principal
from fourgates.contract.ports import Signer
from fourgates.contract.seals import RUN_KEY_ID, HmacSigner

TokenSource: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A bearer token, or what gives the present one: a function that renews it in time."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What one token gives a run."""

    principal: Principal
    grant: str
    signer: Signer = field(repr=False)


class Bearer:
    """Gives the run's credential; the grant is made once for each token, never once for each call."""

    def __init__(self, source: TokenSource, validator_public: Mapping[str, Any], agent: TokenSource | None = None) -> None:
        self._source, self._agent, self._validator_public = source, agent, dict(validator_public)
        self._tokens = ("", "")
        self._credential: Credential | None = None

    async def credential(self) -> Credential:
        """Raises ValueError where a token cannot be read, or where a renewed one speaks for somebody else."""
        tokens = await _present(self._source), await _present(self._agent) if self._agent is not None else ""
        if self._credential is None or tokens != self._tokens:
            self._credential, self._tokens = self._made(*tokens), tokens
        return self._credential

    def _made(self, token: str, agent_token: str) -> Credential:
        try:
            principal = principal_of(unproven_claims(token))
            if agent_token:
                principal = acting(principal, principal_of(unproven_claims(agent_token)))
        except ValueError as fault:
            raise ValueError(f"principal: the token cannot be used ({fault})") from None
        if self._credential is not None and _identity(principal) != _identity(self._credential.principal):
            raise ValueError("principal: the renewed token speaks for another principal; begin a new run for it")
        run_key = secrets.token_bytes(32)
        grant = encrypt_grant(Grant(token, run_key, agent_token), self._validator_public)
        return Credential(principal, grant, HmacSigner(RUN_KEY_ID, run_key))


async def _present(source: TokenSource) -> str:
    token = source if isinstance(source, str) else source()
    if inspect.isawaitable(token):
        token = await token
    assert isinstance(token, str)
    return token


def _identity(principal: Principal) -> tuple[str, str, str, str]:
    """What a call_id is derived from."""
    return principal.issuer, principal.tenant, principal.subject, principal.agent
