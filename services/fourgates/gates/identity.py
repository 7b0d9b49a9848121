"""Who asks: verifies the caller's token, opens the run's grant and checks that the request was sealed by the run's key.

What nobody proved is Poison and answers nobody. A proven request whose token does not count is refused (`identity_invalid`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry

from fourgates.contract.claims import acting, principal_of, unproven_claims
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Poison, Transient
from fourgates.contract.events import CallRequested
from fourgates.contract.grant import Grant, decrypt_grant, key_id_of
from fourgates.contract.parts import Principal
from fourgates.contract.seals import RUN_KEY_ID, hmac_fits, record_bytes
from fourgates.contract.topology import CALLS_REQUESTED

from .refusal import Refusal

AUDIENCE = "fourgates"
"""Of tokens that ask for calls."""
APPROVALS_AUDIENCE = "fourgates-approvals"
"""Of tokens that decide on them: one kind of token never serves for the other."""
CLOCK_SKEW_MS = 30_000
CACHE_MS = 60_000
"""How long a verified token is believed without looking at the issuer's keys again."""
CACHED_GRANTS = 4_096
MAC_BYTES = 32
PUBLIC_KEY_ALGORITHMS = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)


class KeySource(Protocol):
    """Where an issuer's public keys come from."""

    def jwks(self) -> Mapping[str, Any]:
        """The JWK set as it is known now."""

    def missing(self, kid: str) -> bool:
        """A token names a key that the set lacks: True where a newer set is being fetched and asking again may help."""


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """A JWK set from a key file, or a development issuer's."""

    keys: Mapping[str, Any]

    def jwks(self) -> Mapping[str, Any]:
        return self.keys

    def missing(self, kid: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class IssuerConfig:
    """One trusted issuer: its keys, and what its tokens must say. Algorithms are pinned; shared secrets are not allowed."""

    keys: KeySource = field(repr=False)
    audience: str = AUDIENCE
    algorithms: frozenset[str] = frozenset({"RS256", "ES256", "Ed25519"})

    def __post_init__(self) -> None:
        wrong = sorted(self.algorithms - PUBLIC_KEY_ALGORITHMS)
        if wrong or not self.algorithms:
            raise ConfigurationError(
                f"issuer algorithms: {', '.join(wrong) or 'none given'}; allowed are {', '.join(sorted(PUBLIC_KEY_ALGORITHMS))}"
            )
        if not self.audience:
            raise ConfigurationError("issuer audience: empty; name the audience that its tokens carry")


@dataclass(frozen=True, slots=True)
class ProvenToken:
    """What a token with a good signature says; whether it counts depends on the time."""

    principal: Principal
    from_ms: int
    until_ms: int
    signed_in_ms: int | None = None
    """When the person last proved who they are (`auth_time`); None where the token does not say."""

    def at(self, at_ms: int) -> Principal | Refusal:
        """The principal, where the token was valid at `at_ms` (the record's append time)."""
        if at_ms >= self.until_ms + CLOCK_SKEW_MS:
            return _refused("token_expired")
        if at_ms < self.from_ms - CLOCK_SKEW_MS:
            return _refused("token_not_yet_valid")
        return self.principal


class TokenVerifier:
    """Verifies tokens of the trusted issuers, each with its own keys, audience and algorithms."""

    def __init__(self, issuers: Mapping[str, IssuerConfig]) -> None:
        if not issuers:
            raise ConfigurationError("issuers: none given; name at least one issuer with its JWKS or key file")
        self._issuers = dict(issuers)
        # Headers that we do not know are ignored (RFC 7515, 4), those marked `crit` are not.
        self._registries = {
            name: JWSRegistry(algorithms=sorted(config.algorithms), strict_check_header=False) for name, config in issuers.items()
        }

    def verify(self, token: str, at_ms: int) -> Principal | Refusal:
        """Who the token speaks for at `at_ms` (ms since the epoch), or why it does not count."""
        proven = self.prove(token)
        return proven if isinstance(proven, Refusal) else proven.at(at_ms)

    def prove(self, token: str) -> ProvenToken | Refusal:
        """Everything about the token but the time. Raises Transient while the issuer's newer keys are being fetched."""
        try:
            issuer = unproven_claims(token).get("iss")
        except ValueError as fault:
            return _refused(str(fault))
        config = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if config is None:
            return _refused("unknown_issuer")
        try:
            decoded = jwt.decode(token, lambda signed: _key_for(config.keys, signed.headers()),
                                 algorithms=sorted(config.algorithms), registry=self._registries[str(issuer)])  # fmt: skip
        except LookupError:
            return _refused("unknown_key")
        except (JoseError, ValueError) as fault:
            return _refused("bad_token", fault=type(fault).__name__)
        if decoded.claims.get("iss") != issuer:  # the same payload must have chosen the keys and be believed
            return _refused("bad_token", fault="issuer")
        return _read(decoded.claims, config.audience)


def _key_for(source: KeySource, headers: Mapping[str, Any]) -> Key:
    """The issuer's key that the token names; one that names none is served only where the issuer has a single key."""
    kid = headers.get("kid")
    keys = [key for key in source.jwks().get("keys", ()) if key.get("use", "sig") == "sig"]
    named = keys if kid is None else [key for key in keys if key.get("kid") == kid]
    if len(named) != 1:
        if isinstance(kid, str) and not named and source.missing(kid):
            raise Transient("the issuer's keys are being fetched again")
        raise LookupError
    if named[0].get("alg", headers.get("alg")) != headers.get("alg"):
        raise LookupError
    return JWKRegistry.import_key(dict(named[0]))


def _read(claims: Mapping[str, Any], audience: str) -> ProvenToken | Refusal:
    audiences = claims.get("aud")
    if audience not in (audiences if isinstance(audiences, list) else [audiences]):
        return _refused("wrong_audience")
    try:
        exp = _time(claims, "exp")
        if exp is None:
            return _refused("missing_claim_exp")
        starts = [_time(claims, name) or 0 for name in ("nbf", "iat")]
        return ProvenToken(principal_of(claims), max(starts), exp, signed_in_ms=_time(claims, "auth_time"))
    except ValueError as fault:
        return _refused(str(fault))


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    """A NumericDate (RFC 7519) in ms. ValueError for anything else."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 40:
        raise ValueError(f"bad_claim_{name}")
    return int(value * 1000)


def _refused(reason: str, **detail: str) -> Refusal:
    return Refusal(Code.IDENTITY_INVALID, reason, detail=detail)


@dataclass(slots=True)
class _Opened:
    grant: Grant = field(repr=False)
    token: ProvenToken | Refusal
    at_ms: int


class GrantBook:
    """Opens the grants of requests. One validator's memory of the runs it has seen lately."""

    def __init__(
        self, private_jwk: Mapping[str, Any], verifier: TokenVerifier, retired: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self._private = {str(jwk.get("kid", "")): dict(jwk) for jwk in (*retired, private_jwk)}
        self._newest = dict(private_jwk)
        self._verifier = verifier
        self._seen: dict[str, _Opened] = {}

    def open(self, request: CallRequested, raw: bytes, at_ms: int) -> Principal | Refusal:
        """Who asks, at the request's append time. `raw` is the record's value as the broker gave it.

        Raises Poison for a grant that this validator cannot read and for a request that the grant's run key did not seal.
        """
        opened = self._seen.get(request.grant)
        grant = opened.grant if opened else self._decrypt(request.grant)
        seal = request.seal
        if seal.key_id != RUN_KEY_ID or len(seal.mac) != MAC_BYTES:
            raise Poison("bad_run_seal", "the request is not sealed by a run key")
        if not hmac_fits(grant.run_key, record_bytes(CALLS_REQUESTED, raw, MAC_BYTES), seal.mac):
            raise Poison("bad_run_seal", "the seal does not fit the request")
        if opened is None or abs(at_ms - opened.at_ms) > CACHE_MS:
            opened = self._seen[request.grant] = _Opened(grant, self._prove(grant), at_ms)
            if len(self._seen) > CACHED_GRANTS:
                del self._seen[next(iter(self._seen))]
        return opened.token if isinstance(opened.token, Refusal) else opened.token.at(at_ms)

    def claimed(self, request: CallRequested) -> Principal | None:
        """Who the request's token says is asking, unproven: good for addressing a refusal and for nothing else."""
        opened = self._seen.get(request.grant)
        if opened is None:
            return None
        try:
            who = principal_of(unproven_claims(opened.grant.token))
            agent = opened.grant.agent_token
            return acting(who, principal_of(unproven_claims(agent))) if agent else who
        except ValueError:
            return None

    def _prove(self, grant: Grant) -> ProvenToken | Refusal:
        """The caller's token, and the agent's own credential where there is one: both must count, and belong together."""
        who = self._verifier.prove(grant.token)
        if isinstance(who, Refusal) or not grant.agent_token:
            return who
        agent = self._verifier.prove(grant.agent_token)
        if isinstance(agent, Refusal):
            return _refused(f"agent_{agent.reason}")
        try:
            principal = acting(who.principal, agent.principal)
        except ValueError as fault:
            return _refused(str(fault))
        return ProvenToken(principal, max(who.from_ms, agent.from_ms), min(who.until_ms, agent.until_ms))

    def _decrypt(self, text: str) -> Grant:
        grant = decrypt_grant(text, self._key_of(text))
        if len(grant.run_key) < MAC_BYTES:
            raise Poison("bad_grant", "the run key is too short")
        return grant

    def _key_of(self, text: str) -> dict[str, Any]:
        """The private key that the grant names: grants of before a rotation stay readable."""
        return self._private.get(key_id_of(text), self._newest)
