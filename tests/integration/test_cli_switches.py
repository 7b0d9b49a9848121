"""The kill switch on the command line, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from fourgates.contract import ids
from fourgates.runtime.local_broker import LocalBroker
from support.cli import invoke, refused


@pytest.mark.parametrize("subject", ["refund_order", "user:anna", "run:acme", "tool:"])
def test_a_subject_that_nothing_has_is_refused_before_anything_is_asked(subject: str, tmp_path: Path) -> None:
    """S8: no broker is needed to say so."""
    settings = {"home": str(tmp_path), "bootstrap": "127.0.0.1:9"}
    refused(invoke("disable", subject, "--reason", "test", settings=settings), "write")


@pytest.mark.kafka
def test_what_was_switched_off_is_told_until_it_is_switched_on_again(fresh_kafka: LocalBroker, tmp_path: Path) -> None:
    """S8: the last word on a subject counts, with who said it and why."""
    settings = {"home": str(tmp_path), "bootstrap": fresh_kafka.bootstrap}
    run = f"run:acme/{ids.new_run_id()}"
    assert invoke("switches", settings=settings).output.strip() == "Everything is switched on."
    for command, subject in (("disable", "tool:refund"), ("disable", "agent:bot"), ("stop", run), ("enable", "agent:bot")):
        said = invoke(command, subject, "--reason", "an incident", settings=settings)
        assert (said.exit_code, said.output.split()[-1]) == (0, subject), said.output
    told = invoke("switches", settings=settings).output
    first, second = told.splitlines()
    assert first.startswith("disable tool:refund, since ")
    assert first.endswith(": an incident")
    assert second.startswith(f"stop {run}, since ")
