"""`fourgates erase` and `rejudge` where nobody answers, and what an erasure says that was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from fourgates.audit.erasure_door import operator_word
from fourgates.cli import erase
from fourgates.cli.world import Base
from support.cli import invoke, refused
from support.tokens import keyring

RECEIPT = {"erasure_id": "e", "tenant": "acme", "pseudonym": "erased:ab", "asked_ms": 1, "calls": 2, "rows": 31, "blobs": 1,
           "log": [{"topic": "calls.ledger", "records": 7, "until_ms": 1_800_000_000_000}]}  # fmt: skip
_Client = httpx.Client


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Any], list[httpx.Request]]:
    """Plays the audit's service; gives the requests that it got."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Base, "keyring", keyring())

    def play(status: int, content: Any) -> list[httpx.Request]:
        asked: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            asked.append(request)
            return httpx.Response(status, json=content)

        transport = httpx.MockTransport(answer)
        monkeypatch.setattr(erase.httpx, "Client", lambda **options: _Client(transport=transport))
        return asked

    return play


def test_erasure_is_asked_for_in_the_operators_word_and_its_receipt_told(
    service: Callable[[int, Any], list[httpx.Request]],
) -> None:
    """L8: what was erased, what the log still holds, until when."""
    [request], said = _erased(service)
    assert json.loads(request.content)["subject"] == "anna"
    key_id, said_ms, _ = request.headers["authorization"].removeprefix("Bearer ").split(".")
    assert request.headers["authorization"] == operator_word(keyring().signer("operator"), request.content, int(said_ms))
    assert key_id.startswith("operator:")
    assert said.splitlines() == [
        "erased 31 rows of 2 calls and 1 stored results; erased:ab stands in their place",
        "  the log still has 7 records on calls.ledger, until 2027-01-15 08:00 UTC",
    ]


def _erased(service: Callable[[int, Any], list[httpx.Request]]) -> tuple[list[httpx.Request], str]:
    asked = service(200, RECEIPT)
    result = invoke("erase", "--tenant", "acme", "--subject", "anna", "--yes")
    assert result.exit_code == 0, result.output
    return asked, result.stdout


def test_nothing_is_asked_for_without_a_yes(service: Callable[[int, Any], list[httpx.Request]]) -> None:
    """L8: it cannot be brought back."""
    asked = service(200, RECEIPT)
    result = invoke("erase", "--tenant", "acme", "--subject", "anna", said="n\n")
    assert (result.exit_code, asked) == (1, [])


def test_refusal_of_the_service_and_its_absence_are_one_sentence(
    service: Callable[[int, Any], list[httpx.Request]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """L8."""
    service(403, {"error": "this needs the operator's word"})
    refused(invoke("erase", "--tenant", "acme", "--subject", "anna", "--yes"), "this needs the operator's word")
    monkeypatch.setattr(erase.httpx, "Client", _Client)
    nobody = invoke("erase", "--tenant", "acme", "--subject", "anna", "--yes", settings={"audit_door": "127.0.0.1:9"})
    refused(nobody, "does not answer at http://127.0.0.1:9")


def test_what_is_no_run_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """L7: no broker is needed to say so."""
    refused(invoke("rejudge", "run-1", settings={"home": str(tmp_path), "bootstrap": "127.0.0.1:9"}), "'run-1'", "UUIDv7")
