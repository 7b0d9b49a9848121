"""Trusted issuers: keys from a URL that is asked in time and not too often, or from a file; two audiences that differ."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from joserfc.jwk import OKPKey

from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.parts import Principal
from fourgates.gates.identity import APPROVALS_AUDIENCE, IssuerConfig, TokenVerifier
from fourgates.gates.refusal import Refusal
from fourgates.runtime.dev_issuer import DEV_ISSUER, DevIssuer
from fourgates.runtime.jwks import Issuers, JwksFile, JwksUrl
from support.eventually import eventually
from support.tokens import NOW_MS

LARGE = '{"keys": [], "x": "' + "y" * 300_000 + '"}'
URL = "https://issuer.example/jwks"
ONE, TWO = (DevIssuer(OKPKey.generate_key("Ed25519", {"kid": kid}).as_dict(private=True)) for kid in ("k1", "k2"))


class Issuer:
    """Serves a key set, or fails."""

    def __init__(self) -> None:
        self.keys: Any = ONE.jwks()
        self.status = 200
        self.asked = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        text = self.keys if isinstance(self.keys, str) else json.dumps(self.keys)
        return httpx.Response(self.status, text=text)

    def http(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self.answer))


def entry(**more: Any) -> dict[str, Any]:
    return {DEV_ISSUER: {"jwks_url": URL, "algorithms": ["Ed25519"], **more}}


def token(issuer: DevIssuer, **more: Any) -> str:
    return issuer.token("anna", "acme", now_ms=NOW_MS, **more)


async def test_tokens_count_under_the_keys_that_the_issuer_publishes(tmp_path: Path) -> None:
    """P1"""
    served = Issuer()
    async with Issuers(entry(), "issuers", tmp_path, served.http()) as issuers:
        callers, approvers = TokenVerifier(issuers.callers), TokenVerifier(issuers.approvers)
        asks, decides = token(ONE), token(ONE, audience=APPROVALS_AUDIENCE)
        assert isinstance(callers.verify(asks, NOW_MS), Principal)
        assert isinstance(approvers.verify(decides, NOW_MS), Principal)
        assert isinstance(callers.verify(decides, NOW_MS), Refusal)
        assert isinstance(approvers.verify(asks, NOW_MS), Refusal)


class Watched(JwksUrl):
    """Says when it has fetched."""

    def watch(self) -> asyncio.Event:
        self.done = asyncio.Event()
        return self.done

    async def fetch(self) -> None:
        await super().fetch()
        self.done.set()


async def test_rotation_at_the_issuer_refuses_nobody() -> None:
    """P1"""
    served = Issuer()
    now = 0.0
    url = Watched(URL, served.http(), lambda: now)
    url.watch()
    await url.fetch()
    verifier = TokenVerifier({DEV_ISSUER: IssuerConfig(url, algorithms=frozenset({"Ed25519"}))})
    keeping = asyncio.create_task(url.keep())
    served.keys, fetched, now = TWO.jwks(), url.watch(), 31.0
    with pytest.raises(Transient):
        verifier.verify(token(TWO), NOW_MS)
    await asyncio.wait_for(fetched.wait(), 5)
    assert isinstance(verifier.verify(token(TWO), NOW_MS), Principal)
    keeping.cancel()


async def test_flood_of_invented_key_ids_asks_the_issuer_once() -> None:
    """P1"""
    served = Issuer()
    now = 100.0
    url = JwksUrl(URL, served.http(), lambda: now)
    await url.fetch()
    assert [url.missing("x") for _ in range(10)] == [False] * 10
    now = 131.0
    assert [url.missing("x") for _ in range(10)] == [True] * 10
    await url.fetch()
    assert not url.missing("x")
    assert served.asked == 2


@pytest.mark.parametrize(
    "bad", ["status", "{", "[]", '{"keys": 1}', '{"keys": [1]}', '{"keys": [], "x": "' + "y" * 300_000 + '"}']
)
async def test_issuer_that_gives_no_key_set_leaves_the_earlier_one(bad: str) -> None:
    """P1"""
    served = Issuer()
    url = JwksUrl(URL, served.http())
    await url.fetch()
    served.status, served.keys = (500, "{}") if bad == "status" else (200, bad)
    with pytest.raises(Transient, match=r"issuer\.example"):
        await url.fetch()
    assert url.jwks() == ONE.jwks()


async def test_issuer_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """P1"""
    served = Issuer()
    served.status = 503
    with pytest.raises(Transient):
        async with Issuers(entry(), "issuers", tmp_path, served.http()):
            pass


async def test_key_file_serves_in_place_of_a_url(tmp_path: Path) -> None:
    """P1"""
    (tmp_path / "keys.json").write_text(json.dumps(ONE.jwks()))
    content = {DEV_ISSUER: {"jwks_file": "keys.json", "algorithms": ["Ed25519"], "audience": "tools"}}
    (tmp_path / "issuers.json").write_text(json.dumps(content))
    async with Issuers.from_file(tmp_path / "issuers.json") as issuers:
        assert isinstance(TokenVerifier(issuers.callers).verify(token(ONE, audience="tools"), NOW_MS), Principal)


async def test_a_key_file_that_is_replaced_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: rotation by file: a new key counts at once, one that was taken out no more."""
    monkeypatch.setattr("fourgates.runtime.jwks.LOOK_EVERY_S", 0.01)
    (tmp_path / "keys.json").write_text(json.dumps(ONE.jwks()))
    content = {DEV_ISSUER: {"jwks_file": "keys.json", "algorithms": ["Ed25519"]}}
    async with Issuers(content, "issuers", tmp_path) as issuers:
        verifier = TokenVerifier(issuers.callers)
        assert isinstance(verifier.verify(token(ONE), NOW_MS), Principal)
        assert isinstance(verifier.verify(token(TWO), NOW_MS), Refusal)
        replace(tmp_path / "keys.json", json.dumps({"keys": ONE.jwks()["keys"] + TWO.jwks()["keys"]}))
        with contextlib.suppress(Transient):  # its key was found the moment it was asked for: asking again helps
            verifier.verify(token(TWO), NOW_MS)
        assert isinstance(verifier.verify(token(TWO), NOW_MS), Principal)
        replace(tmp_path / "keys.json", json.dumps(TWO.jwks()))
        await eventually(lambda: isinstance(verifier.verify(token(ONE), NOW_MS), Refusal))


@pytest.mark.parametrize("bad", ["", "[]", "{", '{"keys": 1}', None])
async def test_a_key_file_that_holds_no_key_set_leaves_the_earlier_one(tmp_path: Path, bad: str | None) -> None:
    """P1: and the log says so."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(ONE.jwks()))
    file = JwksFile(path)
    if bad is None:
        path.unlink()
    else:
        replace(path, bad)
    with structlog.testing.capture_logs() as logs:
        assert not file.look()
        assert not file.missing("k2")
    assert file.jwks() == ONE.jwks()
    assert [entry["log_level"] for entry in logs] == ["warning"]
    replace(path, json.dumps(TWO.jwks()))
    assert file.missing("k2")
    assert file.jwks() == TWO.jwks()


def replace(path: Path, text: str) -> None:
    """As an operator replaces a file: whole, under its name."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({}, "no issuer"),
        ({DEV_ISSUER: {}}, "jwks_url or jwks_file"),
        ({DEV_ISSUER: []}, "jwks_url or jwks_file"),
        (entry(jwks_file="x"), "jwks_url or jwks_file"),
        (entry(secret="x"), "of the rest only"),
        (entry(jwks_url="http://issuer.example/jwks"), "https"),
        (entry(jwks_url="file:///etc/passwd"), "https"),
        (entry(algorithms=["HS256"]), "algorithms"),
        (entry(audience="a", approvals_audience="a"), "must differ"),
        ({DEV_ISSUER: {"jwks_file": "none.json"}}, r"none\.json"),
    ],
)
async def test_wrong_configuration_is_refused_at_start(tmp_path: Path, content: dict[str, Any], named: str) -> None:
    """P1"""
    (tmp_path / "issuers.json").write_text(json.dumps(content))
    with pytest.raises(ConfigurationError, match=named):
        Issuers.from_file(tmp_path / "issuers.json")


async def test_loopback_issuer_needs_no_tls() -> None:
    JwksUrl("http://127.0.0.1:9/jwks", Issuer().http())
