"""An OpenID provider over HTTP: discovery, the token endpoint and its keys, asked when somebody signs in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.gates.identity import IssuerConfig, ProvenToken, TokenVerifier
from fourgates.gates.refusal import Refusal

from .jwks import JwksUrl
from .keys import is_loopback

_MOST_BYTES = 262_144


@dataclass(frozen=True, slots=True)
class Client:
    """Who we are there."""

    client_id: str
    secret: str = field(default="", repr=False)
    """Empty: a public client."""
    scopes: tuple[str, ...] = ("openid",)
    algorithms: frozenset[str] = frozenset({"RS256", "ES256", "Ed25519"})
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the token endpoint gave."""

    id_token: str = field(repr=False)
    access_token: str = field(repr=False, default="")


@dataclass(frozen=True, slots=True)
class _Found:
    """What discovery found."""

    authorization: str
    token: str
    post: bool
    """The client's secret goes into the form, not into the header."""
    keys: JwksUrl
    verifier: TokenVerifier


class OpenIdProvider:
    """Discovered when it is first needed: while it is away nobody signs in, and what else we do goes on."""

    def __init__(self, issuer: str, client: Client, http: httpx.AsyncClient) -> None:
        """Raises ConfigurationError for an issuer that a network could play."""
        if not _safe(issuer):
            raise ConfigurationError(f"openid issuer {issuer!r}: must be https; http is accepted on loopback only")
        if "openid" not in client.scopes:
            raise ConfigurationError("openid scopes: without `openid` there is no ID token")
        self.issuer, self.client_id = issuer, client.client_id
        self._client, self._http = client, http
        self._found: _Found | None = None

    async def address(self, parameters: Mapping[str, str]) -> str:
        """Where a browser goes with these parameters. Raises Transient."""
        found = await self._discovered()
        own = {"client_id": self.client_id, "scope": " ".join(self._client.scopes)}
        joint = "&" if urlsplit(found.authorization).query else "?"
        return found.authorization + joint + urlencode({**self._client.extra, **own, **parameters}, quote_via=quote)

    async def redeem(self, code: str, verifier: str, redirect_uri: str) -> Tokens | Refusal:
        """The tokens for a code. Raises Transient."""
        found = await self._discovered()
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": redirect_uri}
        secret, auth = self._client.secret, httpx.Auth()
        if not secret:
            form["client_id"] = self.client_id
        elif found.post:
            form |= {"client_id": self.client_id, "client_secret": secret}
        else:  # RFC 6749, 2.3.1: both are form-encoded first
            auth = httpx.BasicAuth(quote(self.client_id, safe=""), quote(secret, safe=""))
        try:
            answer = await self._http.post(found.token, data=form, auth=auth, headers={"Accept": "application/json"})
        except httpx.HTTPError as fault:
            raise Transient(f"the token endpoint does not answer ({type(fault).__name__})") from fault
        if answer.status_code >= 500:
            raise Transient(f"the token endpoint answers {answer.status_code}")
        content = _json(answer)
        tokens = [content.get(name) for name in ("id_token", "access_token")]
        if answer.status_code != 200 or not isinstance(tokens[0], str):
            return Refusal(Code.IDENTITY_INVALID, "code_refused")
        return Tokens(tokens[0], tokens[1] if isinstance(tokens[1], str) else "")

    async def prove(self, id_token: str) -> ProvenToken | Refusal:
        """Whom the ID token is about; its time is for the caller to judge. Raises Transient."""
        found = await self._discovered()
        try:
            proven = found.verifier.prove(id_token)
            known = not (isinstance(proven, Refusal) and proven.reason == "unknown_key")
        except Transient:
            known = False
        if known:
            return proven
        await found.keys.fetch()  # signed by a key that is newer than our last look
        return found.verifier.prove(id_token)

    async def _discovered(self) -> _Found:
        if self._found is None:
            self._found = await self._discover()
        return self._found

    async def _discover(self) -> _Found:
        try:
            answer = await self._http.get(self.issuer.rstrip("/") + "/.well-known/openid-configuration")
        except httpx.HTTPError as fault:
            raise Transient(f"the OpenID provider does not answer ({type(fault).__name__})") from fault
        content = _json(answer) if answer.status_code == 200 else {}
        if content.get("issuer") != self.issuer:
            raise Transient("what lies at the OpenID provider's address does not speak for this issuer")
        places = [content.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
        for place in places:
            if not isinstance(place, str) or not _safe(place):
                raise Transient("the OpenID provider's discovery document lacks an endpoint that can be trusted")
        ways = content.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        post = isinstance(ways, list) and "client_secret_basic" not in ways and "client_secret_post" in ways
        keys = JwksUrl(str(places[2]), self._http)
        config = IssuerConfig(keys, audience=self.client_id, algorithms=self._client.algorithms)
        return _Found(str(places[0]), str(places[1]), post, keys, TokenVerifier({self.issuer: config}))


def _safe(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        content = json.loads(answer.content) if len(answer.content) <= _MOST_BYTES else None
    except ValueError:
        content = None
    return content if isinstance(content, dict) else {}
