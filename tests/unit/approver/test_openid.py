"""Sign-in at an OpenID provider: a real one by others, and one of ours that misbehaves in every way that matters."""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from joserfc.jwk import RSAKey
from oidc_provider_mock import User, run_server_in_thread
from pydantic import SecretStr

from fourgates.approval.service.settings import OpenIdSettings, ServiceSettings
from fourgates.approval.service.signin_pages import own_page
from fourgates.cli.approver_process import provider_of
from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.openid import Client, OpenIdProvider
from support.approver import BASE, approver
from support.issuer import CLIENT_ID, CLIENT_SECRET, Issuer, issuing, parameters, there_and_back
from support.tokens import forged
from support.waiting import Waiting

H = "h" * 32


def settings_for(issuer: str, **other: Any) -> ServiceSettings:
    openid = OpenIdSettings(issuer=issuer, client_id=CLIENT_ID, client_secret=SecretStr(CLIENT_SECRET))
    return ServiceSettings(openid=openid, **other)


@pytest.fixture
async def issuer(world: Waiting) -> AsyncIterator[Issuer]:
    async with issuing(world.clock.now_ms) as running:
        yield running


@pytest.fixture
async def page(world: Waiting, issuer: Issuer) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that is not signed in, before a service that sends people to the issuer."""
    settings = settings_for(issuer.url)
    assert settings.openid is not None
    async with httpx.AsyncClient(trust_env=False) as http:
        provider = provider_of(settings.openid, http)
        async with approver(world, settings=settings, provider=provider) as client:
            yield client


async def signed_in(page: httpx.AsyncClient) -> bool:
    return (await page.get("/")).status_code == 200


@pytest.mark.usefixtures("asked")
async def test_deep_link_is_reached_after_the_sign_in(page: httpx.AsyncClient, issuer: Issuer) -> None:
    """A8, A11: by code flow with PKCE, state and nonce."""
    sent = await page.get(f"/holds/{H}")
    assert sent.headers["location"] == f"/signin?next=/holds/{H}"
    offered = re.search(r'href="(/signin/openid[^"]*)"', (await page.get(sent.headers["location"])).text)
    assert offered is not None
    answer = await there_and_back(page, offered.group(1))
    assert (answer.status_code, answer.headers["location"]) == (303, f"/holds/{H}")
    shown = await page.get(f"/holds/{H}")
    assert "Ben Okoro" in shown.text and 'value="approve"' in shown.text
    (asked,) = issuer.asked
    assert (asked["response_type"], asked["code_challenge_method"], asked["scope"]) == ("code", "S256", "openid")
    assert asked["max_age"] == "900" and asked["redirect_uri"] == f"{BASE}/signin/callback"
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3 and issuer.secrets == ["basic"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the provider's own libraries
async def test_provider_that_somebody_else_wrote_lets_people_in() -> None:
    """A7: an independent provider, over HTTP."""
    world = Waiting(ManualClock(time.time_ns() // 1_000_000))
    claims: dict[str, Any] = {"tenant": "acme", "groups": ["finance"], "person": "Ben Okoro", "auth_time": int(time.time())}
    with run_server_in_thread(user_claims=[User(sub="ben", claims=claims)]) as server:
        settings = settings_for(f"http://localhost:{server.server_port}")
        assert settings.openid is not None
        async with (
            httpx.AsyncClient(trust_env=False) as http,
            approver(world, settings=settings, provider=provider_of(settings.openid, http)) as client,
            httpx.AsyncClient() as outside,
        ):
            begun = await client.get("/signin/openid?next=/history")
            sent_back = await outside.post(begun.headers["location"], data={"sub": "ben"})
            back = urlsplit(sent_back.headers["location"])
            answer = await client.get(f"{back.path}?{back.query}")
            assert (answer.status_code, answer.headers["location"]) == (303, "/history")
            assert "Ben Okoro" in (await client.get("/history")).text


async def test_public_client_shows_no_secret(world: Waiting, issuer: Issuer) -> None:
    """P1"""
    async with httpx.AsyncClient(trust_env=False) as http:
        provider = OpenIdProvider(issuer.url, Client("public-page"), http)
        async with approver(world, settings=settings_for(issuer.url), provider=provider) as client:
            assert (await there_and_back(client, "/signin/openid")).status_code == 303
    assert issuer.secrets == ["none"]


CHANGED: list[tuple[str, Callable[[dict[str, Any]], dict[str, Any]], str]] = [
    ("nonce of another sign-in", lambda c: c | {"nonce": "other"}, "wrong_nonce"),
    ("no nonce", lambda c: {k: v for k, v in c.items() if k != "nonce"}, "wrong_nonce"),
    ("for another client", lambda c: c | {"aud": "somebody"}, "wrong_audience"),
    ("for several, made for another", lambda c: c | {"aud": [CLIENT_ID, "b"], "azp": "b"}, "other_client"),
    ("for several, nobody named", lambda c: c | {"aud": [CLIENT_ID, "b"]}, "other_client"),
    ("of another issuer", lambda c: c | {"iss": "https://other.example"}, "unknown_issuer"),
    ("expired", lambda c: c | {"exp": c["iat"] - 60}, "token_expired"),
    ("no time of sign-in", lambda c: {k: v for k, v in c.items() if k != "auth_time"}, "missing_claim_auth_time"),
    ("signed in long ago", lambda c: c | {"auth_time": c["iat"] - 1_000}, "Sign in there anew"),
    ("signs in tomorrow", lambda c: c | {"auth_time": c["iat"] + 1_000}, "Sign in there anew"),
    ("an agent in it", lambda c: c | {"act": {"sub": "support-bot"}}, "not an agent"),
    ("a service", lambda c: c | {"service": True}, "not an agent"),
    ("no tenant", lambda c: {k: v for k, v in c.items() if k != "tenant"}, "missing_claim_tenant"),
]


@pytest.mark.parametrize(("what", "change", "why"), CHANGED, ids=[what for what, _, _ in CHANGED])
async def test_id_token_that_is_not_right_lets_nobody_in(
    page: httpx.AsyncClient, issuer: Issuer, what: str, change: Callable[[dict[str, Any]], dict[str, Any]], why: str
) -> None:
    """A7, P1: an agent holding a user's session approves nothing."""
    issuer.change = change
    answer = await there_and_back(page, "/signin/openid")
    assert answer.status_code == 403 and why in answer.text, what
    assert not await signed_in(page)


async def test_id_token_without_the_issuers_signature_lets_nobody_in(page: httpx.AsyncClient, issuer: Issuer) -> None:
    """P1: another key under the same name, a shared secret, no signature at all, no token."""
    other = RSAKey.generate_key(2048, {"kid": issuer.key.kid})

    def secret(claims: dict[str, Any]) -> str:
        """The public key taken for a shared secret."""
        text = forged({"alg": "HS256", "kid": issuer.key.kid}, claims).rstrip(".")
        mac = hmac.digest(issuer.key.as_pem(private=False), text.encode(), "sha256")
        return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    def unsigned(claims: dict[str, Any]) -> str:
        head, body, _ = issuer.signed(claims).split(".")
        return f"{head}.{body}."

    for sign in (lambda claims: issuer.signed(claims, other), secret, unsigned, lambda claims: "x"):
        issuer.sign = sign
        answer = await there_and_back(page, "/signin/openid")
        assert answer.status_code == 403 and not await signed_in(page)


async def test_new_key_of_the_issuer_counts_at_once(page: httpx.AsyncClient, issuer: Issuer) -> None:
    """P1"""
    assert (await there_and_back(page, "/signin/openid")).status_code == 303
    issuer.turn_key()
    assert (await there_and_back(page, "/signin/openid")).status_code == 303


async def test_answer_of_a_sign_in_that_this_browser_did_not_begin_is_refused(
    world: Waiting, page: httpx.AsyncClient, issuer: Issuer
) -> None:
    """A7: nobody can sign another person in by a link."""
    begun = await page.get("/signin/openid")
    async with httpx.AsyncClient() as outside:
        back = urlsplit((await outside.get(begun.headers["location"])).headers["location"])
    mine = dict(page.cookies)
    page.cookies.clear()
    assert (await page.get(f"{back.path}?{back.query}")).status_code == 403
    page.cookies.set("fourgates_openid", "x" * 43)
    assert (await page.get(f"{back.path}?{back.query}")).status_code == 403
    page.cookies.update(mine)
    assert (await page.get(f"{back.path}?{back.query}")).status_code == 303
    page.cookies.update(mine)
    assert (await page.get(f"{back.path}?{back.query}")).status_code == 403, "a state serves once"


@pytest.mark.parametrize(
    "answer",
    [{"code": ""}, {"error": "access_denied"}, {"iss": "https://other.example"}, {"state": "x"}, {"code": "guessed"}],
    ids=str,
)
async def test_answer_that_is_no_sign_in_is_refused(page: httpx.AsyncClient, issuer: Issuer, answer: dict[str, str]) -> None:
    """A7"""
    issuer.answer = lambda given: given | answer
    assert (await there_and_back(page, "/signin/openid")).status_code == 403
    assert not await signed_in(page)


async def test_code_that_somebody_else_got_hold_of_is_worth_nothing(page: httpx.AsyncClient, issuer: Issuer) -> None:
    """A7: PKCE: the code of one sign-in does not end another."""
    codes: list[str] = []

    def swap(given: dict[str, str]) -> dict[str, str]:
        codes.append(given["code"])
        return given | {"code": codes[0]}

    issuer.answer = lambda given: swap(given) | {"state": "x"}  # the first answer is kept back
    await there_and_back(page, "/signin/openid")
    issuer.answer = swap
    assert "code_refused" in (await there_and_back(page, "/signin/openid")).text
    assert not await signed_in(page)


async def test_sign_in_that_takes_too_long_ends(world: Waiting, page: httpx.AsyncClient, issuer: Issuer) -> None:
    """A7"""
    begun = await page.get("/signin/openid")
    state = parameters(begun.headers["location"])["state"]
    await world.clock.advance(601)
    assert "took too long" in (await page.get(f"/signin/callback?code=x&state={state}")).text


async def test_issuer_that_is_away_stops_nothing_else(page: httpx.AsyncClient, issuer: Issuer) -> None:
    """S3"""
    issuer.away = True
    assert (await page.get("/signin/openid")).status_code == 503
    assert (await page.get("/health")).status_code == 200
    issuer.away = False
    assert (await there_and_back(page, "/signin/openid")).status_code == 303


async def test_without_a_provider_nothing_points_to_one() -> None:
    """A7"""
    async with approver(Waiting(), settings=ServiceSettings()) as client:
        assert "openid" not in (await client.get("/signin")).text
        assert (await client.get("/signin/openid")).status_code == 404
        assert (await client.get("/signin/callback?code=x&state=y")).status_code == 404


@pytest.mark.parametrize("address", ["http://login.example.com", "ftp://127.0.0.1", "login.example.com"])
def test_issuer_that_a_network_could_play_is_refused_at_start(address: str) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match="must be https"):
        OpenIdProvider(address, Client("x"), httpx.AsyncClient())


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/holds/../signout", "/holds/x?y=//e", "javascript:alert(1)",
     "/signout", "/holds/a/decision", "/holds/a\n", ""],
)  # fmt: skip
def test_link_after_the_sign_in_leads_only_to_our_own_pages(path: str) -> None:
    """A7"""
    assert own_page(path) == "/"
