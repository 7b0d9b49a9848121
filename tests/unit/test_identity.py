"""Gate 0: a token counts only where issuer, audience, algorithm, signature, claims and time are all right."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.parts import Principal
from fourgates.gates.identity import APPROVALS_AUDIENCE, FixedKeys, IssuerConfig, TokenVerifier
from fourgates.gates.refusal import Refusal
from fourgates.runtime.dev_issuer import DEV_ISSUER, DevIssuer
from support.tokens import NOW_MS, forged

HOUR_MS = 3_600_000
CLAIMS: dict[str, Any] = {
    "iss": DEV_ISSUER, "aud": "fourgates", "sub": "anna", "tenant": "acme", "exp": NOW_MS / 1000 + 3600, "iat": NOW_MS / 1000,
}  # fmt: skip
ISSUER_KEY = OKPKey.generate_key("Ed25519", {"kid": "dev:1"})
ISSUER = DevIssuer(ISSUER_KEY.as_dict(private=True))


def verifier(**changes: Any) -> TokenVerifier:
    config = ISSUER.trust()[DEV_ISSUER]
    return TokenVerifier({DEV_ISSUER: dataclasses.replace(config, **changes)})


def token(**changes: Any) -> str:
    return ISSUER.token(**{"subject": "anna", "tenant": "acme", "now_ms": NOW_MS, **changes})


def signed(claims: dict[str, Any], **header: Any) -> str:
    """Any claims under a good signature of the development issuer."""
    return jwt.encode({"alg": "Ed25519", "kid": "dev:1", **header}, claims, ISSUER_KEY, algorithms=["Ed25519"])


def reason(bearer: str, at_ms: int = NOW_MS, **changes: Any) -> str:
    outcome = verifier(**changes).verify(bearer, at_ms)
    assert isinstance(outcome, Refusal)
    assert outcome.code is Code.IDENTITY_INVALID
    assert bearer not in repr(outcome)
    return outcome.reason


def test_principal_is_what_the_verified_token_says() -> None:
    """P1"""
    bearer = token(groups=("support", "emea"), agent="support-bot", person="anna.k", service=True)
    assert verifier().verify(bearer, NOW_MS) == Principal(
        issuer=DEV_ISSUER, subject="anna", tenant="acme", person="anna.k", agent="support-bot", groups=("support", "emea"),
        service=True,
    )  # fmt: skip


def test_person_is_the_subject_unless_the_token_says_otherwise() -> None:
    """P1"""
    principal = verifier().verify(token(), NOW_MS)
    assert isinstance(principal, Principal)
    assert (principal.person, principal.agent, principal.groups, principal.service) == ("anna", "", (), False)


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (NOW_MS - 30_001, "token_not_yet_valid"),
        (NOW_MS - 30_000, ""),
        (NOW_MS + HOUR_MS + 29_999, ""),
        (NOW_MS + HOUR_MS + 30_000, "token_expired"),
    ],
)
def test_validity_is_judged_at_append_time_with_thirty_seconds_of_skew(at_ms: int, expected: str) -> None:
    """P1"""
    outcome = verifier().verify(token(), at_ms)
    assert (outcome.reason if isinstance(outcome, Refusal) else "") == expected


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_token_of_the_future_does_not_count(claim: str) -> None:
    """P1"""
    assert reason(signed({**CLAIMS, claim: NOW_MS / 1000 + 31})) == "token_not_yet_valid"


def test_audience_separates_callers_from_approvers() -> None:
    """P1"""
    assert reason(token(audience=APPROVALS_AUDIENCE)) == "wrong_audience"
    assert reason(token(), audience=APPROVALS_AUDIENCE) == "wrong_audience"
    assert reason(signed({**CLAIMS, "aud": ["elsewhere"]})) == "wrong_audience"
    assert isinstance(verifier().verify(signed({**CLAIMS, "aud": ["elsewhere", "fourgates"]}), NOW_MS), Principal)


def test_issuer_that_nobody_trusts_does_not_count() -> None:
    """P1"""
    assert reason(signed({**CLAIMS, "iss": "https://elsewhere.example"})) == "unknown_issuer"
    assert reason(signed({**CLAIMS, "iss": [DEV_ISSUER]})) == "unknown_issuer"


def test_token_without_a_signature_does_not_count() -> None:
    """P1: `alg: none` in any spelling."""
    for algorithm in ("none", "None", "NONE"):
        assert reason(forged({"alg": algorithm, "kid": "dev:1"}, CLAIMS)) == "bad_token"
        assert reason(forged({"alg": algorithm}, CLAIMS), keys=without_alg()) == "bad_token"


def without_alg() -> FixedKeys:
    return FixedKeys({"keys": [{k: v for k, v in ISSUER.jwks()["keys"][0].items() if k != "alg"}]})


def test_public_key_used_as_a_shared_secret_does_not_count() -> None:
    """P1: HS256 over the public key's bytes."""
    secret = OctKey.import_key(ISSUER.jwks()["keys"][0]["x"])
    bearer = jwt.encode({"alg": "HS256", "kid": "dev:1"}, CLAIMS, secret, algorithms=["HS256"])
    assert reason(bearer) == "bad_token"
    assert reason(bearer, keys=without_alg()) == "bad_token"


def test_algorithm_that_is_not_pinned_does_not_count() -> None:
    """P1"""
    key = ECKey.generate_key("P-256", {"kid": "ec"})
    keys = FixedKeys({"keys": [key.as_dict(private=False)]})
    bearer = jwt.encode({"alg": "ES256", "kid": "ec"}, CLAIMS, key, algorithms=["ES256"])
    assert reason(bearer, keys=keys) == "bad_token"
    assert isinstance(verifier(keys=keys, algorithms=frozenset({"ES256"})).verify(bearer, NOW_MS), Principal)


def test_rsa_issuer_is_verified_too() -> None:
    """P1"""
    key = RSAKey.generate_key(2048, {"kid": "rsa"})
    bearer = jwt.encode({"alg": "RS256", "kid": "rsa", "x-vendor": "1"}, CLAIMS, key, algorithms=["RS256"],
                        registry=JWSRegistry(algorithms=["RS256"], strict_check_header=False))  # fmt: skip
    keys = FixedKeys({"keys": [key.as_dict(private=False)]})
    assert isinstance(verifier(keys=keys, algorithms=frozenset({"RS256"})).verify(bearer, NOW_MS), Principal)


def test_altered_token_does_not_count() -> None:
    """P1: every part of it, at every tenth character."""
    bearer = token()
    for at in range(0, len(bearer) - 2, 10):
        if bearer[at] == ".":
            continue
        other = bearer[:at] + ("A" if bearer[at] != "A" else "B") + bearer[at + 1 :]
        assert isinstance(verifier().verify(other, NOW_MS), Refusal), at


def test_token_of_another_key_does_not_count() -> None:
    """P1"""
    stranger = DevIssuer({**new_key(), "kid": "dev:1"})
    assert reason(stranger.token("anna", "acme", now_ms=NOW_MS)) == "bad_token"
    nobody = DevIssuer({**new_key(), "kid": "dev:9"})
    assert reason(nobody.token("anna", "acme", now_ms=NOW_MS)) == "unknown_key"


def new_key() -> dict[str, Any]:
    return dict(OKPKey.generate_key("Ed25519").as_dict(private=True))


def test_critical_header_that_is_not_understood_does_not_count() -> None:
    """P1"""
    assert reason(forged({"alg": "Ed25519", "kid": "dev:1", "crit": ["exp"], "exp": 1}, CLAIMS, b"s" * 64)) == "bad_token"


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.b.c", "a.b.c.d", "..", "." * 9_000, "ä.ä.ä", "eyJ.W10.x"])
def test_text_that_is_no_token_does_not_count(text: str) -> None:
    """P1"""
    outcome = verifier().verify(text, NOW_MS)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "token_unreadable"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"exp": None}, "missing_claim_exp"),
        ({"exp": "soon"}, "bad_claim_exp"),
        ({"exp": True}, "bad_claim_exp"),
        ({"iat": -1}, "bad_claim_iat"),
        ({"nbf": float("nan")}, "bad_claim_nbf"),
        ({"tenant": None}, "bad_claim_tenant"),
        ({"tenant": ""}, "bad_claim_tenant"),
        ({"tenant": "ac\nme"}, "bad_claim_tenant"),
        ({"sub": 7}, "bad_claim_sub"),
        ({"person": ""}, "bad_claim_person"),
        ({"groups": "finance"}, "bad_claim_groups"),
        ({"groups": [1]}, "bad_claim_groups"),
        ({"act": "bot"}, "bad_claim_act"),
        ({"act": {"iss": "x"}}, "bad_claim_act"),
        ({"service": "yes"}, "bad_claim_service"),
    ],
)
def test_claim_that_is_missing_or_of_another_type_does_not_count(changes: dict[str, Any], expected: str) -> None:
    """P1"""
    assert reason(signed({**CLAIMS, **changes})) == expected


@pytest.mark.parametrize("claim", ["sub", "tenant", "exp"])
def test_claim_that_is_absent_does_not_count(claim: str) -> None:
    """P1"""
    assert reason(signed({k: v for k, v in CLAIMS.items() if k != claim})) == f"missing_claim_{claim}"


def test_newer_key_that_is_being_fetched_is_waited_for() -> None:
    """P1: a rotation at the issuer refuses nobody."""

    class Fetching(FixedKeys):
        def missing(self, kid: str) -> bool:
            return kid == "dev:2"

    rotated = DevIssuer({**new_key(), "kid": "dev:2"})
    with pytest.raises(Transient):
        verifier(keys=Fetching(ISSUER.jwks())).verify(rotated.token("anna", "acme"), NOW_MS)


@pytest.mark.parametrize("algorithms", [{"HS256"}, {"none"}, {"RS256", "HS512"}, set()])
def test_algorithm_with_a_shared_secret_is_refused_at_start(algorithms: set[str]) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="algorithms"):
        IssuerConfig(keys=FixedKeys({"keys": []}), algorithms=frozenset(algorithms))


def test_no_issuer_refuses_to_start() -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="issuers"):
        TokenVerifier({})
