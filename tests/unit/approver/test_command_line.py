"""`fourgates approvals` against the real service, over HTTP: the same decisions, the same words, its own sign-in."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from fourgates.approval.service.app import build_app
from fourgates.approval.service.settings import ServiceSettings
from fourgates.catalog import Preview
from fourgates.cli import approvals, approver_client, approver_login
from fourgates.cli.approver_client import Approver
from fourgates.cli.settings import read_settings
from fourgates.cli.world import Base
from fourgates.contract.events import ApprovalKind, HoldReason
from fourgates.contract.parts import Breach
from fourgates.gates.identity import APPROVALS_AUDIENCE, IssuerConfig, TokenVerifier
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.jwks import JwksUrl
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person
from support.approver import ports_of
from support.cli import invoke
from support.issuer import issuing
from support.serving import served
from support.waiting import Waiting, call_of, keyring

H, D = "h" * 32, "d" * 32
USERS = {name: {"tenant": "acme", "groups": ["finance"], "person": name.title()} for name in ("ben", "dora")}


@pytest.fixture
def world() -> Waiting:
    """Its time is the machine's: the command line makes tokens by that."""
    return Waiting(ManualClock(time.time_ns() // 1_000_000))


@pytest.fixture
async def address(world: Waiting) -> AsyncIterator[str]:
    app = build_app(ports_of(world), ServiceSettings())
    async with served(app) as base, app.router.lifespan_context(app):
        yield base.removeprefix("http://")


@pytest.fixture
def settings(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Base, "keyring", keyring())
    users = tmp_path / "users.json"
    users.write_text(json.dumps(USERS))
    return {"approver": address, "users_file": str(users), "home": str(tmp_path / "home")}


async def ask(settings: dict[str, str], *arguments: str, said: str | None = None) -> Result:
    """A command, in a thread: the service answers in this one."""
    return await asyncio.to_thread(invoke, "approvals", *arguments, settings=settings, said=said)


@pytest.mark.usefixtures("asked")
async def test_what_waits_is_listed_shown_and_approved(world: Waiting, worker: MemoryWorker, settings: dict[str, str]) -> None:
    """A8"""
    listed = (await ask(settings, "list", "--as", "ben")).output
    assert H[:12] in listed and "order A-1001" in listed and "59 min" in listed
    shown = (await ask(settings, "show", H[:8], "--as", "ben")).output
    for words in ("It cannot be undone.", "refunded", '{"amount":100,"order_id":"A-1001"}', "said by the user", "no policy says"):
        assert words in shown, words
    told = await ask(settings, "approve", H, "--as", "ben", "--reason", "fine")
    assert (told.exit_code, told.output.splitlines()[-1]) == (0, "Approved. The call may run now, once.")
    await world.settle(worker)
    assert world.cleared()[0].approvers == ("Ben",)
    lost = await ask(settings, "deny", H, "--as", "dora")
    assert lost.exit_code == 1 and "already approved by Ben" in lost.stderr
    assert (await ask(settings, "list", "--as", "ben")).output == "Nothing waits for you.\n"
    ended = (await ask(settings, "list", "--ended", "--find", "a-1001", "--as", "ben")).output
    assert (
        "approved by Ben" in ended
        and (await ask(settings, "list", "--ended", "--find", "x9", "--as", "ben")).output == "Nothing fits.\n"
    )


async def test_everything_that_waits_is_listed_however_many_pages_it_has(
    world: Waiting, worker: MemoryWorker, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8, A9"""
    monkeypatch.setattr(approver_client, "_PAGE", 2)
    for letter in "12345":
        await world.hold(letter * 32, call_of(world.shop, call_id=letter * 64))
    await world.settle(worker)
    listed = (await ask(settings, "list", "--as", "ben")).output
    assert all(letter * 12 in listed for letter in "12345") and listed.count("order A-1001") == 5
    assert len(json.loads((await ask(settings, "list", "--json", "--as", "ben")).output)) == 5
    assert "order A-1001" in (await ask(settings, "show", "5" * 8, "--as", "ben")).output


async def test_everything_hostile_is_named_in_the_terminal(
    world: Waiting, worker: MemoryWorker, settings: dict[str, str]
) -> None:
    """A2: no markup, no escape sequence, nothing hidden."""
    hostile = "[red]x[/red]\x1b[2J\u202e\u200b"
    world.shop.preview = lambda args: Preview(hostile, {hostile: 1}, {hostile: hostile}, True, amount=hostile)
    breach = Breach(pointer="/order_id", origin=hostile, allowed=(hostile,), on_breach="hold", source=hostile, quote=hostile)
    call = call_of(world.shop, arguments={"order_id": hostile + "W" * 3_000 + "END"}, intent=hostile)
    await world.hold(call=call, reason=HoldReason.ORIGIN_BREACH, breaches=(breach,), detail=hostile, facts=hostile)
    await world.settle(worker)
    for command in (("list",), ("show", H)):
        output = (await ask(settings, *command, "--as", "ben")).output
        assert "[red]x[/red]<U+001B>[2J<U+202E><U+200B>" in output.replace("\n", "")
        assert not set("\x1b\u202e\u200b") & set(output)
    assert "W" * 3_000 + "END" in output.replace("\n", "") and output.count("W") >= 2 * 3_000, "as a value and in the whole text"


async def test_what_destroys_asks_a_person_for_its_amount(
    world: Waiting, worker: MemoryWorker, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A2"""
    await world.hold(call=call_of(world.shop, "delete_account"))
    await world.settle(worker)

    class Terminal:
        """Standard input, of which the command only asks whether it is a terminal."""

        @staticmethod
        def isatty() -> bool:
            return True

    class System:
        stdin = Terminal()

    monkeypatch.setattr(approvals, "sys", System)
    wrong = await ask(settings, "approve", H, "--as", "ben", said="yes\n")
    assert wrong.exit_code == 1 and "nothing was decided" in wrong.stderr
    right = await ask(settings, "approve", H, "--as", "ben", said="100.00 EUR\n")
    assert right.exit_code == 0 and "Approved." in right.output
    assert sys.stdin is not Terminal


async def test_doubt_is_resolved(world: Waiting, worker: MemoryWorker, settings: dict[str, str]) -> None:
    """E6"""
    await world.doubt(D)
    await world.settle(worker)
    told = await ask(settings, "resolve", D, "not-applied", "--as", "ben", "--reason", "asked the bank")
    assert told.exit_code == 0 and "Noted: not applied." in told.output
    await world.settle(worker)
    assert world.cleared()[0].resolution.outcome == "not_applied"


@pytest.mark.usefixtures("asked")
async def test_watch_tells_what_waits_and_how_it_ends(
    world: Waiting, worker: MemoryWorker, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8: until its sign-in ends."""
    listed, holds = threading.Event(), Approver.holds

    def tell_listed(approver: Approver) -> Iterator[dict[str, Any]]:
        yield from holds(approver)
        listed.set()

    monkeypatch.setattr(Approver, "holds", tell_listed)
    watching = asyncio.create_task(ask(settings, "watch", "--json", "--as", "ben"))
    assert await asyncio.to_thread(listed.wait, 10)
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    await world.publish("approver", decided(H, "deny", person("Dora"), shown_digest=digest))
    await world.clock.advance(3_700)
    await world.hold("2" * 32, call_of(world.shop, call_id="2" * 64))
    await world.settle(worker)
    result = await watching
    lines = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert [(line["hold_id"], line["state"]) for line in lines] == [(H, "requested"), (H, "denied")]
    assert result.exit_code == 1 and "sign-in is too old" in result.stderr


async def test_person_signs_in_through_their_browser(
    world: Waiting, worker: MemoryWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8, P1: code flow with PKCE to a port of this machine; the sign-in is kept where nobody else reads it."""
    monkeypatch.chdir(tmp_path)
    await world.hold()
    await world.settle(worker)
    async with issuing(world.clock.now_ms) as issuer, httpx.AsyncClient() as http:
        keys = JwksUrl(f"{issuer.url}/keys", http)
        await keys.fetch()
        ports = ports_of(world, tokens=TokenVerifier({issuer.url: IssuerConfig(keys, audience=APPROVALS_AUDIENCE)}))
        app = build_app(ports, ServiceSettings())
        async with served(app) as base, app.router.lifespan_context(app):
            settings = {
                "approver": base.removeprefix("http://"), "home": "home", "service__openid__issuer": issuer.url,
                "service__openid__client_id": "page", "service__openid__cli_client_id": "terminal",
                "service__openid__extra": json.dumps({"audience": APPROVALS_AUDIENCE}),
            }  # fmt: skip
            monkeypatch.setattr(approver_login, "has_display", lambda: True)
            seen: list[str] = []

            def browser(address: str) -> bool:
                seen.append(httpx.get(address, follow_redirects=True).text)
                return True

            monkeypatch.setattr(approver_login.webbrowser, "open", browser)
            done = await ask(settings, "login")
            assert done.exit_code == 0, done.output
            assert "Signed in as Ben Okoro of acme, deciding for finance." in done.output and "You are signed in." in seen[0]
            kept = tmp_path / "home" / "approver-token"
            assert kept.stat().st_mode & 0o777 == 0o600
            assert issuer.asked[0]["client_id"] == "terminal" and issuer.secrets == ["none"]
            assert "order A-1001" in (await ask(settings, "list")).output
            assert (await ask(settings, "approve", H)).exit_code == 0
            issuer.change = lambda claims: claims | {"nonce": "other"}
            refused = await ask(settings, "login")
            assert refused.exit_code == 1 and "wrong_nonce" in refused.stderr
            await ask(settings, "logout")
            assert not kept.exists()


def test_login_without_a_provider_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1"""
    monkeypatch.chdir(tmp_path)
    result = invoke("approvals", "login")
    assert result.exit_code == 2 and "FOURGATES_SERVICE__OPENID" in result.stderr and "CLI_CLIENT_ID" in result.stderr


def test_secret_of_the_client_is_in_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1"""
    monkeypatch.chdir(tmp_path)
    secret: dict[str, Any] = {"service__openid__client_secret": "hush" * 4, "service__openid__issuer": "https://login.example"}
    result = invoke("approvals", "login", settings=secret)
    assert result.exit_code == 2 and "hush" not in result.output
    monkeypatch.setenv("FOURGATES_SERVICE__OPENID__CLIENT_SECRET", "hush" * 4)
    monkeypatch.setenv("FOURGATES_SERVICE__OPENID__ISSUER", "https://login.example")
    monkeypatch.setenv("FOURGATES_SERVICE__OPENID__CLIENT_ID", "page")
    assert "hush" not in repr(read_settings())
