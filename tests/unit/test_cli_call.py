"""`fourgates call` against a pipeline that the test plays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fourgates.cli.world import Base
from fourgates.contract.codes import Code
from fourgates.contract.events import CallRequested
from fourgates.contract.observation import Observation
from fourgates.contract.parts import Fault
from fourgates.runtime.clock import ManualClock
from fourgates.runtime.dev_issuer import wall_ms
from fourgates.sdk import Client, Options
from support.cli import invoke, refused
from support.sdk import PlayedTransport, Reply, ok, says
from support.tokens import keyring

Play = Callable[[Reply], PlayedTransport]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Plays the pipeline behind the command's client."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Base, "keyring", keyring())

    def played(reply: Reply) -> PlayedTransport:
        clock = ManualClock(wall_ms())
        transport = PlayedTransport(clock, reply)
        client = Client(transport, keyring().validator_public(), Options(), clock)
        monkeypatch.setattr(Client, "from_env", lambda settings: client)
        return transport

    return played


def call(*more: str) -> tuple[str, ...]:
    return ("call", "get_order", '{"order_id": "A-1001"}', "--as", "anna", *more)


def test_success_is_shown_and_exits_zero(play: Play) -> None:
    """S10: asked as the demo's clerk through its agent, the words of the user with it."""
    transport = play(lambda request: ok(request, "A-1001: kettle", fields={"status": "delivered"}))
    result = invoke(*call("--intent", "What about A-1001?"))
    assert result.exit_code == 0
    assert "ok" in result.output
    assert "A-1001: kettle" in result.output
    assert "delivered" in result.output
    [request], [principal] = transport.asked, transport.principals
    assert (request.tool, request.arguments) == ("get_order", '{"order_id": "A-1001"}')
    assert (request.intent, request.user_turns) == ("What about A-1001?", ("What about A-1001?",))
    assert (principal.subject, principal.tenant, principal.agent) == ("anna", "harbour", "support-bot")


def test_any_other_code_is_told_with_its_faults_and_exits_one(play: Play) -> None:
    """R5: code, reason, field, each fault."""
    faults = (Fault(field="/order_i", reason="unknown_field"), Fault(field="/order_id", reason="missing_field"))
    play(says(Code.INVALID_ARGUMENTS, reason="unknown_field", field="/order_i", faults=faults))
    result = invoke(*call())
    assert result.exit_code == 1
    assert "invalid_arguments (unknown_field) at /order_i" in result.output
    assert "/order_id: missing_field" in result.output


def test_result_cannot_write_to_the_terminal(play: Play) -> None:
    """R4: control characters and markup of a result are shown as what they are."""
    play(lambda request: ok(request, "\x1b[2J[bold]gone[/bold]\u202e"))
    output = invoke(*call()).output
    assert "\x1b" not in output
    assert "<U+001B>[2J[bold]gone[/bold]<U+202E>" in output


def test_json_form_is_the_observation_as_it_came(play: Play) -> None:
    """E1: byte for byte."""
    seen: list[str] = []

    def reply(request: CallRequested) -> Observation:
        seen.append(ok(request).to_json())
        return ok(request)

    play(reply)
    assert invoke(*call("--json")).output == f"{seen[0]}\n"
    assert json.loads(seen[0])["ok"] is True


def test_waiting_call_says_how_to_ask_for_it_again_and_that_is_the_same_call(play: Play) -> None:
    """E1: the same run and id are the same call."""
    transport = play(says(Code.APPROVAL_PENDING))
    result = invoke(*call("--wait", "0"))
    assert result.exit_code == 1
    again = result.output.split("ask for it again: ")[1].split()
    transport = play(ok)
    assert invoke(*call(*again)).exit_code == 0
    first, second = result.output, transport.asked[0]
    assert second.call_id in first.replace("\n", "")


def test_run_that_has_stopped_is_told_as_its_answer(play: Play) -> None:
    """S6: internal ends the run."""
    play(says(Code.INTERNAL, reason="unforeseen"))
    result = invoke(*call())
    assert result.exit_code == 1
    assert "internal (unforeseen)" in result.output


def test_what_cannot_be_asked_for_is_one_sentence(play: Play) -> None:
    """C9: ids that no record can carry, and runs that are none."""
    play(ok)
    refused(invoke(*call("--id", "a\nb")), "tool_call_id")
    refused(invoke(*call("--run", "yesterday")), "run")


def test_who_calls_has_to_be_known(play: Play, tmp_path: Path) -> None:
    """P1: development users by name, elsewhere only tokens."""
    play(ok)
    refused(invoke("call", "get_order", "{}", "--as", "mallory"), "no development user 'mallory'", "anna, ben, carl, olga")
    refused(invoke("call", "get_order", "{}"), "--as USER", "--token-file", "FOURGATES_TOKEN")
    production = {"environment": "production"}
    refused(invoke("call", "get_order", "{}", "--as", "anna", settings=production), "--as", "only tokens count")


def test_token_of_a_file_or_the_environment_speaks_for_its_owner(play: Play, tmp_path: Path) -> None:
    """P1: the token is handed on and never shown."""
    token = keyring().issuer.token("zoe", "acme", agent="bot")
    (tmp_path / "token").write_text(f"{token}\n")
    for how, settings in ((("--token-file", "token"), {}), ((), {"token": token})):
        transport = play(ok)
        result = invoke("call", "get_order", "{}", *how, settings=settings)
        assert result.exit_code == 0, result.output
        assert (transport.principals[0].subject, transport.principals[0].agent) == ("zoe", "bot")
        assert token not in result.output
