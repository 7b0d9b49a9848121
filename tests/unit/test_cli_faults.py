"""What goes wrong outside is one clear sentence and an exit code."""

from __future__ import annotations

import socket
from pathlib import Path

import click
import pytest

from fourgates.cli.faults import Fault, telling_faults
from fourgates.cli.main import COMMANDS, cli
from fourgates.contract.errors import Transient
from support.cli import invoke, refused


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An address where nobody listens."""
    monkeypatch.chdir(tmp_path)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def test_broker_that_is_away_is_waited_for_and_then_told_in_one_sentence(nobody: str) -> None:
    """S3: progress while it waits, exit 2 in the end."""
    result = invoke("topics", "create", settings={"bootstrap": nobody, "start_wait": "1"})
    assert result.exit_code == 2
    *progress, said = result.stderr.strip().splitlines()
    assert said == f"No Kafka broker answers at {nobody} after 1 s; start one, or correct the broker's address."
    assert all(line.startswith(f"waiting for Kafka at {nobody}") for line in progress)
    assert progress


def test_call_without_a_broker_is_one_sentence(nobody: str) -> None:
    """S3: nothing was asked for, so exit 2."""
    refused(invoke("call", "get_order", "{}", "--as", "anna", settings={"bootstrap": nobody}), nobody, "FOURGATES_BOOTSTRAP")


def test_audit_door_that_is_away_is_one_sentence(nobody: str) -> None:
    """L4: which address, and what to look at."""
    settings = {"audit_door": nobody}
    for command in (("report", "success"), ("query", "SELECT 1"), ("explain", "abc"), ("audit", "check")):
        refused(invoke(*command, settings=settings), nobody, "is it running?")


def test_approver_that_is_away_is_one_sentence(nobody: str) -> None:
    """A8: which address, and what to look at."""
    refused(invoke("approvals", "list", "--as", "ben", settings={"approver": nobody}), nobody, "is it running?")


def test_fault_of_our_own_is_named_without_a_traceback() -> None:
    """S3: where, and how to see more; only `--debug` shows it as it is."""
    with pytest.raises(Fault, match=r"KeyError in .*--debug") as told, telling_faults():
        raise KeyError("secret-in-a-message")
    assert told.value.exit_code == 1
    assert "secret" not in told.value.message
    context = click.Context(cli)
    context.params["debug"] = True
    with context.scope(), pytest.raises(KeyError), telling_faults():
        raise KeyError("x")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_it_does(command: str) -> None:
    """S10: the overview names each, and each has help."""
    assert command in invoke("--help").output
    assert invoke(command, "--help").exit_code == 0


def test_process_whose_broker_goes_away_while_it_starts_is_started_again(monkeypatch: pytest.MonkeyPatch, nobody: str) -> None:
    """E5, S3: exit 1; with 2 a supervisor would leave the stage down for good."""

    async def away(base: object, process: str, progress: object) -> None:
        raise Transient("Kafka: NodeNotReadyError")

    monkeypatch.setattr("fourgates.cli.run.await_world", away)
    monkeypatch.setattr("fourgates.cli.run.refuse_early", lambda base, process: None)
    result = invoke("run", "validator", settings={"bootstrap": nobody})
    assert (result.exit_code, result.stderr.strip()) == (1, "Kafka: NodeNotReadyError")
