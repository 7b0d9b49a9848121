"""The command line on a real broker of its own: the whole pipeline, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from fourgates.contract.topology import CALLS_CLEARED
from fourgates.runtime.children import end_group
from fourgates.runtime.kafka.producing import RawProducer
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.metrics import Metrics
from support.cli import environment, invoke, run

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]
READY_SECONDS, END_SECONDS = 150.0, 60.0
PROCESSES = ("provider", "validator", "authorizer", "waiter", "executor", "sanitizer", "audit", "approver")
LARGE_REFUND = '{"order_id": "A-1002", "amount_cents": 48900, "reason": "damaged"}'
TENANT = "harbour"
ORDER = ("call", "get_order", '{"order_id": "A-1001"}', "--as", "anna", "--json")


class Up:
    """`fourgates up --demo` in a folder of its own."""

    def __init__(self, folder: Path, libs: Path) -> None:
        self.folder, self.settings = folder, {"kafka_libs": str(libs)}
        self._out = folder / "up.log"
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fourgates.cli", "up", "--demo"], cwd=folder, env=environment(**self.settings),
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.told(r"ctrl-C ends everything", READY_SECONDS)
        self.bootstrap = json.loads((folder / ".fourgates" / "up.json").read_text())["bootstrap"]

    def text(self) -> str:
        return self._out.read_text()

    def told(self, words: str, seconds: float = 60.0) -> None:
        """Returns once a line of its output says so."""
        self.until(lambda: re.search(words, self.text()) is not None, seconds)

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        assert within(seconds, lambda: condition() or self.process.poll() is not None), self.text()
        assert self.process.poll() is None or condition(), self.text()

    def pids(self) -> dict[str, int]:
        """The newest process of each name."""
        return {name: int(pid) for name, pid in re.findall(r"(\w+): ready \(process (\d+)\)", self.text())}

    def run(self, *arguments: str, exit_code: int = 0) -> Result:
        """Another command, in the same folder."""
        with contextlib.chdir(self.folder):
            result = invoke(*arguments, settings=self.settings)
        assert result.exit_code == exit_code, (arguments, result.output)
        return result

    def succeeded(self) -> dict[str, int]:
        """Calls that succeeded, by tool, as the audit has them."""
        rows = json.loads(self.run("report", "success", "--json").stdout)
        return {row["key"]: row["succeeded"] for row in rows}


@pytest.fixture
def up(kafka_libs: Path, tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path, kafka_libs)
    try:
        yield made
    finally:
        end_group(made.process, END_SECONDS)


def alive(pid: int) -> bool:
    """Whether the process still runs; one that nobody has buried yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether it comes true in so many seconds. It is about another process: nothing of it can be waited for."""
    until = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < until:
        time.sleep(0.1)
    return true


def all_gone(pids: dict[str, int], seconds: float) -> list[str]:
    """Names of the processes that still run after so many seconds."""
    within(seconds, lambda: not any(alive(pid) for pid in pids.values()))
    return [name for name, pid in pids.items() if alive(pid)]


def listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def append(bootstrap: str, topic: str, key: bytes, value: bytes) -> None:
    """As any client of the broker could."""
    producer = RawProducer(bootstrap, Metrics())
    await producer.start()
    try:
        await producer.append(topic, key, value)
    finally:
        await producer.close()


def test_up_serves_calls_restarts_what_falls_and_ends_without_a_rest(up: Up) -> None:
    """S4, S10, S3: everything that a person does with the pipeline on their machine."""
    pids = up.pids()
    assert set(pids) == set(PROCESSES)
    answer = up.run(*ORDER)
    assert json.loads(answer.stdout)["fields"] == {"order_id": "A-1001", "status": "delivered"}

    assert up.run("topics", "create").stdout == "all topics were there\n"
    assert "FOURGATES_HOME" in up.run("up", "--demo", exit_code=2).stderr

    held = up.run("call", "refund_order", LARGE_REFUND, "--as", "anna", "--wait", "3", "--json", exit_code=1)
    assert json.loads(held.stdout)["code"] == "approval_pending"
    call_id = json.loads(held.stdout)["call_id"]
    assert call_id[:12] in json.dumps(json.loads(up.run("approvals", "list", "--as", "ben", "--json").stdout))
    assert "48900" in up.run("approvals", "approve", call_id[:12], "--as", "ben").stdout

    up.until(lambda: up.succeeded() == {"get_order": 1, "refund_order": 1}, END_SECONDS)

    asyncio.run(append(up.bootstrap, CALLS_CLEARED, b"forged", b"\x00not avro"))
    os.kill(pids["executor"], signal.SIGKILL)
    up.told(r"executor: restarting \(exit -9")
    up.until(lambda: up.pids()["executor"] != pids["executor"], READY_SECONDS)
    listed = up.run("dead", "list").stdout
    assert "executor: " in listed
    place = listed.split()[0]
    shown = up.run("dead", "show", place).stdout
    assert CALLS_CLEARED in shown
    assert "not avro" not in shown
    assert "not avro" in up.run("dead", "show", place, "--payload").stdout
    up.run(*ORDER)
    up.until(lambda: up.succeeded() == {"get_order": 2, "refund_order": 1}, END_SECONDS)
    explained = up.run("explain", call_id[:12]).stdout
    assert "Ben Okoro approved what they were shown" in explained
    assert "records of the log compared" in up.run("audit", "check", "--younger-than", "0").stdout
    run_id = json.loads(up.run("explain", call_id, "--json").stdout)["run_id"]
    assert "would differ" in up.run("rejudge", run_id).stdout
    up.run("report", "all", "--html", "page.html")
    assert "refund_order" in (up.folder / "page.html").read_text()

    erased = up.run("erase", "--tenant", TENANT, "--subject", "anna", "--yes").stdout
    assert "the log still has" in erased
    assert "[erased]" in up.run("explain", call_id).stdout
    assert "of them erased, as sealed erasures say" in up.run("audit", "check", "--younger-than", "0").stdout

    pids = up.pids()
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(END_SECONDS) == 0, up.text()
    assert all_gone(pids, 5) == []
    assert not listens(up.bootstrap)
    assert sorted(re.findall(r"(\w+): ended", up.text())) == sorted(PROCESSES)
    assert (up.folder / ".fourgates" / "up.json").read_text() == ""


def test_nothing_outlives_an_up_that_was_killed(up: Up) -> None:
    """S3: kill -9 of the supervisor ends what it started, the broker too."""
    pids = up.pids()
    up.process.kill()
    up.process.wait()
    assert all_gone(pids, 20) == []
    assert within(20, lambda: not listens(up.bootstrap))


def test_executor_does_not_start_where_an_acknowledged_claim_could_be_lost(kafka: LocalBroker, tmp_path: Path) -> None:
    """E5: outside development one copy of the ledger is not enough; exit 2, saying what is needed."""
    made = invoke("init", str(tmp_path / "rooms")), invoke("keys", "create", str(tmp_path / "keys.json"))
    assert [result.exit_code for result in made] == [0, 0]
    (tmp_path / "issuers.json").write_text('{"https://login.example": {"jwks_file": "jwks.json"}}')
    (tmp_path / "jwks.json").write_text('{"keys": []}')
    ended = run("run", "executor", folder=tmp_path / "rooms", bootstrap=kafka.bootstrap, environment="production",
                keys_file=str(tmp_path / "keys.json"), issuers_file=str(tmp_path / "issuers.json"))  # fmt: skip
    assert ended.returncode == 2, ended.stderr
    [said] = ended.stderr.strip().splitlines()
    assert "calls.ledger has 1 copies, at least 3 are needed" in said
