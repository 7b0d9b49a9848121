"""`fourgates run` before there is a broker: it waits, says so, and ends as it is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import environment, invoke, run
from support.kafka_world import free_ports


@pytest.mark.parametrize("process", ["validator", "audit", "approver"])
def test_absent_broker_is_waited_for_and_then_one_sentence_and_exit_one(process: str, tmp_path: Path) -> None:
    """S3, E5: a progress line while it waits; and not exit 2, with which nobody would start it again when the broker is back."""
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    assert invoke("init", str(tmp_path / "rooms")).exit_code == 0
    ended = run("run", process, folder=tmp_path / "rooms", bootstrap=nobody, start_wait="1")
    *progress, said = ended.stderr.strip().splitlines()
    assert ended.returncode == 1, ended.stderr
    assert said == f"No Kafka broker answers at {nobody} after 1 s; start one, or correct the broker's address."
    assert progress
    assert all(line.startswith("waiting for Kafka") for line in progress)


def test_wrong_configuration_is_said_before_anything_is_waited_for(tmp_path: Path) -> None:
    """S3: exit 2 at once, although the broker would be waited for a minute."""
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    ended = run("run", "validator", folder=tmp_path, seconds=30, bootstrap=nobody, catalog="nowhere:catalog")
    assert ended.returncode == 2
    assert ended.stderr.startswith("FOURGATES_CATALOG:")
    assert len(ended.stderr.strip().splitlines()) == 1


def test_process_that_waits_ends_when_it_is_told(tmp_path: Path) -> None:
    """S3: SIGTERM is an end like any other: exit 0."""
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    argv = [sys.executable, "-m", "fourgates.cli", "run", "approver"]
    process = subprocess.Popen(argv, cwd=tmp_path, env=environment(bootstrap=nobody), stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("waiting for Kafka")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert "Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
