"""A small OpenID provider on loopback: the code flow with PKCE, real signatures, and ways to misbehave."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import httpx
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from support.serving import served

CLIENT_ID, CLIENT_SECRET = "approvals-page", "s" * 24


def _new_key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": secrets.token_hex(4), "use": "sig", "alg": "RS256"})


_first_key = cache(_new_key)
"""Making one takes longer than a whole sign-in."""


class Issuer:
    """Signs in `person` without asking. `change` alters the claims of an ID token, `answer` what the browser brings back."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.url = ""
        self.person: dict[str, Any] = {"sub": "ben", "tenant": "acme", "groups": ["finance"], "person": "Ben Okoro"}
        self.change: Callable[[dict[str, Any]], dict[str, Any]] = lambda claims: claims
        self.answer: Callable[[dict[str, str]], dict[str, str]] = lambda answer: answer
        self.sign: Callable[[dict[str, Any]], str] = self.signed
        self.asked: list[dict[str, str]] = []
        """Authorization requests."""
        self.secrets: list[str] = []
        """How clients proved themselves at the token endpoint: `basic`, `post` or `none`."""
        self.away = False
        self.key = _first_key()
        self._codes: dict[str, dict[str, str]] = {}

    def turn_key(self) -> None:
        """Another signing key from now on; the earlier one is not published any more."""
        self.key = _new_key()

    def signed(self, claims: dict[str, Any], key: RSAKey | None = None) -> str:
        key = key or self.key
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, key, algorithms=["RS256"])

    def app(self) -> Starlette:
        return Starlette(routes=[
            Route("/.well-known/openid-configuration", self._discovery), Route("/keys", self._keys),
            Route("/authorize", self._authorize), Route("/token", self._token, methods=["POST"]),
        ])  # fmt: skip

    async def _discovery(self, request: Request) -> Response:
        if self.away:
            return Response(status_code=503)
        return JSONResponse({
            "issuer": self.url, "authorization_endpoint": f"{self.url}/authorize", "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        })  # fmt: skip

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        self.asked.append(asked)
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        answer = self.answer({"code": code, "state": asked["state"], "iss": self.url})
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        asked = self._codes.pop(form.get("code", ""), None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if self._client(request, form) != asked["client_id"]:
            return JSONResponse({"error": "invalid_client"}, 401)
        made = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if asked.get("code_challenge_method") != "S256" or made != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = self._now_ms() / 1000
        common = {"iss": self.url, "iat": now, "exp": now + 300, "auth_time": now, **self.person}
        id_token = self.sign(self.change(common | {"aud": asked["client_id"], "nonce": asked["nonce"]}))
        access = self.signed(common | {"aud": asked.get("audience", "other")})
        return JSONResponse({"id_token": id_token, "access_token": access, "token_type": "Bearer", "expires_in": 300})

    def _client(self, request: Request, form: dict[str, str]) -> str:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            self.secrets.append("basic")
            name, _, secret = base64.b64decode(given).decode().partition(":")
            return unquote(name) if unquote(secret) == CLIENT_SECRET else ""
        self.secrets.append("none")
        return form.get("client_id", "")


@asynccontextmanager
async def issuing(now_ms: Callable[[], int]) -> AsyncIterator[Issuer]:
    """A provider that listens until the block ends."""
    issuer = Issuer(now_ms)
    async with served(issuer.app()) as issuer.url:
        yield issuer


async def there_and_back(client: httpx.AsyncClient, start: str) -> httpx.Response:
    """What a browser does: to the provider, and with its answer back to us. The last answer is ours."""
    begun = await client.get(start)
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient() as outside:
        sent_back = await outside.get(begun.headers["location"])
    assert sent_back.status_code == 302, sent_back.text
    back = urlsplit(sent_back.headers["location"])
    return await client.get(f"{back.path}?{back.query}")


def parameters(address: str) -> dict[str, str]:
    """The query of an address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
