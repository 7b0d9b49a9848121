"""`fourgates approvals` against a service that the test plays."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from fourgates.cli import approvals
from fourgates.cli.approver_client import Approver
from fourgates.cli.world import Base
from fourgates.contract.claims import unproven_claims
from support.cli import invoke, refused
from support.tokens import keyring

HOLD, CALL, DIGEST = "ab" * 16, "cd" * 32, "e" * 64
SHOWN = {
    "tool": "refund_order", "arguments": '{"order_id":"A-1001"}', "intent": {"text": "hi \u202ethere", "trust": "untrusted"},
    "zebra": "shown as well",
}  # fmt: skip


class Service:
    """Answers as the approver's service does, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[httpx.Request] = []
        self.decision = (200, {"outcome": "approved", "message": "Approved. The call may run now, once.", "hold": None})
        self.holds: list[dict[str, Any]] = [{
            "hold_id": HOLD, "call_id": CALL, "state": "requested", "reason": "policy", "tool": "refund_order", "risk": "write",
            "target": "order A-1001", "amount": "25.00 EUR", "asked_by": "Anna Lind", "agent": "support-bot", "group": "refunds",
            "quorum": 1, "expires_ms": 1_800_000_000_000, "ended": "", "ended_ms": 0,
        }]  # fmt: skip

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        path = request.url.path
        if path == "/api/holds":
            return httpx.Response(200, json={"holds": self.holds, "next": None})
        if path == f"/api/holds/{HOLD}":
            shown = json.dumps(SHOWN)
            return httpx.Response(200, json={**self.holds[0], "shown": shown, "shown_digest": DIGEST, "decisions": []})
        if path == f"/api/holds/{HOLD}/decision":
            return httpx.Response(self.decision[0], json=self.decision[1])
        return httpx.Response(
            404, json={"outcome": "unknown_hold", "message": "Nobody is asked about such a call.", "hold": None}
        )

    def decided(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.asked if request.method == "POST"]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Base, "keyring", keyring())
    played = Service()
    client = functools.partial(Approver, transport=httpx.MockTransport(played.answer))
    monkeypatch.setattr(approvals, "Approver", client)
    return played


def test_list_shows_what_waits_and_asks_with_a_persons_token(service: Service) -> None:
    """A7: the token is of the approvers' own audience, with no agent in it."""
    result = invoke("approvals", "list", "--as", "ben")
    assert result.exit_code == 0
    for word in (HOLD[:12], "refund_order", "order A-1001", "25.00 EUR", "Anna Lind through support-bot", "1 of refunds"):
        assert word in result.output
    claims = unproven_claims(service.asked[0].headers["authorization"].removeprefix("Bearer "))
    assert (claims["aud"], claims["sub"], claims.get("act")) == ("fourgates-approvals", "ben", None)


@pytest.mark.parametrize("named", [HOLD, HOLD[:6], CALL[:6]])
def test_show_prints_everything_that_is_decided_about(service: Service, named: str) -> None:
    """A2: nothing is hidden, and what cannot be seen is made visible."""
    output = invoke("approvals", "show", named, "--as", "ben").output
    for word in ("refund_order", '{"order_id":"A-1001"}', "hi <U+202E>there", "untrusted", "zebra", "shown as well", DIGEST):
        assert word in output


def test_decision_is_about_exactly_what_was_shown(service: Service) -> None:
    """A3: it names the digest of what was printed before."""
    result = invoke("approvals", "approve", HOLD[:6], "--as", "ben", "--reason", "looks right")
    assert result.exit_code == 0
    assert "hi <U+202E>there" in result.output
    assert result.output.rstrip().endswith("Approved. The call may run now, once.")
    assert service.decided() == [
        {"verdict": "approve", "shown_digest": DIGEST, "reason": "looks right", "tell_model": False}
    ]  # fmt: skip
    invoke("approvals", "deny", HOLD, "--as", "ben", "--tell-model")
    invoke("approvals", "resolve", HOLD, "not-applied", "--as", "ben")
    assert [(said["verdict"], said["tell_model"]) for said in service.decided()[1:]] == [("deny", True), ("not_applied", False)]


def test_what_destroys_is_not_approved_by_a_script_that_saw_nothing(service: Service) -> None:
    """A2: without a terminal there is nobody to type the amount, so the digest has to be named."""
    service.holds[0]["risk"] = "destructive"
    result = invoke("approvals", "approve", HOLD, "--as", "ben")
    assert result.exit_code == 2 and "--shown" in result.stderr and service.decided() == []
    assert invoke("approvals", "approve", HOLD, "--as", "ben", "--shown", DIGEST).exit_code == 0


def test_sign_in_that_is_too_old_says_how_to_renew_it(service: Service) -> None:
    """A7"""
    service.decision = (403, {"outcome": "sign_in_again", "message": "Your sign-in is too old to decide with. Sign in again."})
    result = invoke("approvals", "approve", HOLD, "--as", "ben")
    assert result.exit_code == 1 and result.stderr.endswith("`fourgates approvals login` signs in anew.\n")


def test_who_says_not_who_it_is_is_told_how_to(service: Service) -> None:
    """A7"""
    refused(invoke("approvals", "list"), "approvals login", "--as", "FOURGATES_TOKEN")


def test_decision_about_something_shown_earlier_is_not_made_when_it_has_changed(service: Service) -> None:
    """A3: what `show` printed is what a script decides about."""
    changed = invoke("approvals", "approve", HOLD, "--as", "ben", "--shown", "f" * 64)
    assert changed.exit_code == 1
    assert service.decided() == []
    assert invoke("approvals", "approve", HOLD, "--as", "ben", "--shown", DIGEST).exit_code == 0


def test_decision_that_does_not_count_says_why_and_exits_one(service: Service) -> None:
    """A6: the loser is told."""
    service.decision = (409, {"outcome": "denied", "message": "Your decision did not count: this was already denied by Olga."})
    result = invoke("approvals", "approve", HOLD, "--as", "ben")
    assert result.exit_code == 1
    assert result.stderr == "Your decision did not count: this was already denied by Olga. (denied)\n"


def test_beginning_that_names_no_call_or_several_is_refused(service: Service) -> None:
    """A2: a decision is about one call that was shown."""
    refused(invoke("approvals", "show", "ff", "--as", "ben"), "0 open calls begin with 'ff'")
    service.holds.append({**service.holds[0], "hold_id": "ac" * 16})
    refused(invoke("approvals", "approve", "a", "--as", "ben"), "2 open calls begin with 'a'")
    assert service.decided() == []


def test_something_else_that_answers_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A8: a page of another program is no answer."""
    monkeypatch.setattr(service, "answer", lambda request: httpx.Response(200, text="<html>"))
    client = functools.partial(Approver, transport=httpx.MockTransport(service.answer))
    monkeypatch.setattr(approvals, "Approver", client)
    refused(invoke("approvals", "list", "--as", "ben"), "is not the approver's service")
