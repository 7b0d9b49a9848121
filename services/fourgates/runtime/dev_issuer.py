"""An issuer of tokens for development and tests. Refused outside `environment=development` (`keys.require_development`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from joserfc import jwt
from joserfc.jwk import OKPKey

from fourgates.gates.identity import AUDIENCE, FixedKeys, IssuerConfig

DEV_ISSUER = "https://issuer.fourgates.invalid/dev"
_ALGORITHM = "Ed25519"


def wall_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class DevIssuer:
    """Signs tokens with an Ed25519 key and says how they are verified."""

    def __init__(self, private_jwk: Mapping[str, Any], now_ms: Callable[[], int] = wall_ms) -> None:
        self._key = OKPKey.import_key(dict(private_jwk))
        self._kid = str(private_jwk["kid"])
        self._now_ms = now_ms

    name = DEV_ISSUER

    def token(
        self,
        subject: str,
        tenant: str,
        groups: Sequence[str] = (),
        agent: str = "",
        person: str = "",
        audience: str = AUDIENCE,
        ttl_s: float = 3600,
        service: bool = False,
        now_ms: int | None = None,
    ) -> str:
        """A signed JWT, valid from now on for `ttl_s` seconds. `now_ms` is for tests whose clock is not the wall's."""
        now = (self._now_ms() if now_ms is None else now_ms) / 1000
        claims: dict[str, Any] = {
            "iss": self.name, "aud": audience, "sub": subject, "tenant": tenant, "groups": list(groups),
            "iat": now, "nbf": now, "exp": now + ttl_s, "auth_time": now,
        }  # fmt: skip
        if agent:
            claims["act"] = {"sub": agent}
        if person:
            claims["person"] = person
        if service:
            claims["service"] = True
        return jwt.encode({"alg": _ALGORITHM, "kid": self._kid}, claims, self._key, algorithms=[_ALGORITHM])

    def jwks(self) -> dict[str, Any]:
        """The public key set."""
        public = self._key.as_dict(private=False)
        return {"keys": [{**public, "kid": self._kid, "use": "sig", "alg": _ALGORITHM}]}

    def trust(self, audience: str = AUDIENCE) -> dict[str, IssuerConfig]:
        """What a TokenVerifier needs to accept this issuer's tokens of that audience."""
        config = IssuerConfig(keys=FixedKeys(self.jwks()), audience=audience, algorithms=frozenset({_ALGORITHM}))
        return {self.name: config}
