"""The client: from the environment, on a bus, without a loop; and how little importing it loads."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import CallCompleted, CallRequested
from fourgates.contract.observation import Observation
from fourgates.contract.ports import Envelope
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_REQUESTED
from fourgates.runtime.clock import ManualClock, SystemClock
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.memory import MemoryBus
from fourgates.sdk import Answer, BusTransport, Client, SdkSettings, SyncClient
from support.records import codec
from support.sdk import PlayedTransport, ok
from support.tokens import keyring, token


def completed(request: CallRequested, content: str) -> CallCompleted:
    observation = Observation(Code.OK, request.call_id, content=content)
    return CallCompleted(
        event_id="e" * 32, producer="test", call_id=request.call_id, run_id=request.run_id, tenant="acme",
        tool_call_id=request.tool_call_id, code="ok", final=True, observation=observation.to_json(),
    )  # fmt: skip


async def test_host_on_a_bus_asks_sealed_and_believes_the_sanitizer_only() -> None:
    """P6: a completed call that another writer forges is not an answer."""
    clock = SystemClock()
    bus = MemoryBus(RecordOpener(codec(), keyring().verifier()), clock)
    sanitizer, validator = (bus.publisher(RecordWriter(codec(), keyring().signer(w))) for w in ("sanitizer", "validator"))
    answers: set[asyncio.Task[None]] = set()

    async def complete(request: CallRequested) -> None:
        await validator.publish(completed(request, "forged"))
        await sanitizer.publish(completed(request, "true"))

    def pipeline(envelope: Envelope) -> None:
        assert envelope.writer == "run"
        answers.add(asyncio.create_task(complete(envelope.record)))

    await bus.follow(CALLS_REQUESTED, pipeline)
    async with Client(BusTransport(bus, codec()), keyring().validator_public()) as client:
        answer = await client.run(token()).call("read", "{}", tool_call_id="1")
    assert answer.content == "true"
    assert len(bus.records(CALLS_COMPLETED)) == 2


def test_sync_client_serves_threads() -> None:
    """S2"""
    transport = PlayedTransport(ManualClock(), ok)
    answers: list[Answer] = []
    with SyncClient(Client(transport, keyring().validator_public(), clock=transport._clock)) as gates:
        run = gates.run(principal=token, intent="read", user_turns=["order A-1"])
        run.user_said("order A-2")
        run.saw("web", "page")
        run.vouches("session", "me")
        run.allow("refund")
        calls = [
            threading.Thread(target=lambda n=n: answers.append(run.call("read", "{}", tool_call_id=str(n)))) for n in range(4)
        ]
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        assert run.wait(answers[0].call_id).ok
        assert run.cancel(answers[0].call_id).ok
        with pytest.raises(ValueError, match="tool_call_id"):
            run.call("read", "{}", tool_call_id="")
    assert [answer.ok for answer in answers] == [True] * 4
    assert {request.user_turns for request in transport.asked} == {("order A-1", "order A-2")}
    assert run.id in {request.run_id for request in transport.asked}
    assert not any(thread.name == "fourgates-sdk" for thread in threading.enumerate())


def test_importing_the_sdk_loads_neither_faust_nor_a_web_framework() -> None:
    """S2"""
    script = "import sys, fourgates.sdk; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60).stdout.split()
    assert "fourgates" in loaded
    heavy = {"faust", "mode", "starlette", "fastapi", "uvicorn", "chdb", "aiokafka", "clickhouse_connect", "pandas", "cedarpy"}
    assert heavy & set(loaded) == set()


def settings(tmp_path: Path, **changes: object) -> SdkSettings:
    return SdkSettings(home=tmp_path, **changes)  # type: ignore[arg-type]


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """S2"""
    for name, value in {"BOOTSTRAP": "127.0.0.1:1", "WAIT_S": "3", "TOKEN": "a-secret", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(f"FOURGATES_{name}", value)
    DevKeys.load(tmp_path / "keys")
    found = SdkSettings()
    assert (found.bootstrap, found.wait_s, found.home) == ("127.0.0.1:1", 3.0, tmp_path)
    assert "a-secret" not in repr(found)
    assert isinstance(Client.from_env(), Client)


def test_development_keys_are_found_and_never_made(tmp_path: Path) -> None:
    """P1: keys of its own would fit no pipeline, and every request would be a dead letter."""
    with pytest.raises(ConfigurationError, match=r"fourgates up.*FOURGATES_HOME"):
        Client.from_env(settings(tmp_path))
    assert not (tmp_path / "keys").exists()
    DevKeys.load(tmp_path / "keys")
    assert isinstance(Client.from_env(settings(tmp_path)), Client)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"environment": "production"}, "environment"),
        ({"bootstrap": "127.0.0.1:9092,kafka:9092"}, "kafka:9092"),
        ({"registry_url": "http://registry:8081"}, "registry:8081"),
        ({"keys_file": Path("none.json")}, r"none\.json"),
    ],
)
def test_development_keys_are_refused_elsewhere(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    """P1"""
    with pytest.raises(ConfigurationError, match=named):
        Client.from_env(settings(tmp_path, **changes))
    assert not (tmp_path / "keys").exists()


def test_run_without_a_principal_is_an_error_of_the_host() -> None:
    """P1"""
    client = Client(PlayedTransport(ManualClock()), keyring().validator_public())
    with pytest.raises(ValueError, match="principal"):
        client.run()


async def test_principal_of_the_environment_serves_runs_that_name_none() -> None:
    """P1"""
    transport = PlayedTransport(ManualClock(), ok)
    async with Client(transport, keyring().validator_public(), clock=transport._clock, principal=token()) as client:
        assert (await client.run().call("read", "{}", tool_call_id="1")).ok
