"""Sign-in at an OpenID provider: authorization code flow with PKCE, state and nonce, bound to the browser that began it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fourgates.contract.claims import unproven_claims
from fourgates.contract.codes import Code
from fourgates.contract.ports import Clock
from fourgates.gates.identity import CLOCK_SKEW_MS, ProvenToken
from fourgates.gates.refusal import Refusal

BEGUN_MS = 600_000
"""How long a sign-in may take."""
MOST_BEGUN = 10_000


class Redeemed(Protocol):
    """What the provider gave for a code."""

    @property
    def id_token(self) -> str: ...

    @property
    def access_token(self) -> str: ...


class Provider(Protocol):
    """An OpenID provider and our client there. Everything raises Transient while it does not answer."""

    issuer: str
    client_id: str

    async def address(self, parameters: Mapping[str, str]) -> str:
        """Where the browser goes to sign in."""

    async def redeem(self, code: str, verifier: str, redirect_uri: str) -> Redeemed | Refusal:
        """The tokens for a code."""

    async def prove(self, id_token: str) -> ProvenToken | Refusal:
        """Signature, issuer, audience and claims of an ID token; its time is looked at later."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that the provider has not answered yet."""

    binding: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    redirect_uri: str
    goal: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """Somebody has signed in."""

    proven: ProvenToken
    tokens: Redeemed
    goal: str
    """The page they wanted to see."""


class CodeFlow:
    """Begins sign-ins and ends them. Each state serves once, in the browser that began it, within ten minutes."""

    def __init__(self, provider: Provider, clock: Clock, recent_s: float | None = None) -> None:
        self._provider, self._clock, self._recent_s = provider, clock, recent_s
        self._begun: dict[str, Begun] = {}

    async def begin(self, binding: str, redirect_uri: str, goal: str) -> str:
        """The provider's address for this browser. `binding` is a secret that only the browser repeats. Raises Transient."""
        now_ms = self._clock.now_ms()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        parameters = {
            "response_type": "code", "redirect_uri": redirect_uri, "state": state, "nonce": nonce,
            "code_challenge": challenge_of(verifier), "code_challenge_method": "S256",
        }  # fmt: skip
        if self._recent_s is not None:
            parameters["max_age"] = str(int(self._recent_s))
        address = await self._provider.address(parameters)
        for old in [state for state, begun in self._begun.items() if now_ms - begun.at_ms > BEGUN_MS]:
            del self._begun[old]
        while len(self._begun) >= MOST_BEGUN:  # the oldest gives way
            del self._begun[next(iter(self._begun))]
        self._begun[state] = Begun(binding, nonce, verifier, redirect_uri, goal, now_ms)
        return address

    async def end(self, binding: str, answer: Mapping[str, str]) -> Arrived | Refusal:
        """What the provider's answer, as the browser brought it, comes to. Raises Transient."""
        begun = self._begun.get(answer.get("state", ""))
        if begun is None or not binding or not hmac.compare_digest(begun.binding.encode(), binding.encode()):
            return _refused("unknown_state")
        del self._begun[answer["state"]]
        if self._clock.now_ms() - begun.at_ms > BEGUN_MS:
            return _refused("too_late")
        if answer.get("iss", self._provider.issuer) != self._provider.issuer:  # RFC 9207
            return _refused("other_issuer")
        if "error" in answer or not answer.get("code"):
            return _refused("refused_by_issuer")
        tokens = await self._provider.redeem(answer["code"], begun.verifier, begun.redirect_uri)
        if isinstance(tokens, Refusal):
            return tokens
        proven = await self._provider.prove(tokens.id_token)
        if isinstance(proven, Refusal):
            return proven
        why = self._objection(proven, unproven_claims(tokens.id_token), begun)  # proven by the line above
        return _refused(why) if why else Arrived(proven, tokens, begun.goal)

    def _objection(self, proven: ProvenToken, claims: Mapping[str, Any], begun: Begun) -> str:
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), begun.nonce.encode()):
            return "wrong_nonce"
        several = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else self._provider.client_id) != self._provider.client_id:
            return "other_client"
        if self._recent_s is None:
            return ""
        if proven.signed_in_ms is None:
            return "missing_claim_auth_time"
        age_ms = self._clock.now_ms() - proven.signed_in_ms
        return "" if -CLOCK_SKEW_MS <= age_ms <= self._recent_s * 1_000 + CLOCK_SKEW_MS else "not_recent"


def challenge_of(verifier: str) -> str:
    """S256 of RFC 7636."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _refused(reason: str) -> Refusal:
    return Refusal(Code.IDENTITY_INVALID, reason)
