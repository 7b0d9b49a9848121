"""The world of real Kafka: one process a stage, the embedded ClickHouse, the approver's service over HTTP."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from fourgates.cli.local import free_ports
from fourgates.contract.avro import AvroCodec
from fourgates.contract.ports import Envelope, Position
from fourgates.contract.seals import RecordOpener
from fourgates.contract.topology import AUDIT_WATERMARKS, CALLS_LEDGER
from fourgates.gates.identity import APPROVALS_AUDIENCE
from fourgates.runtime.data import data_folder
from fourgates.runtime.kafka import KafkaBus
from fourgates.runtime.keys import DevKeys
from fourgates.runtime.registry import LocalRegistry
from fourgates.runtime.supervisor import ProcessSpec, Supervisor, Watched
from fourgates.sdk import Client, Run
from fourgates.sdk.kafka import KafkaTransport
from support.bookings import Bookings
from support.downstream import Downstream
from support.eventually import eventually
from support.toolbox import POLICIES, VARIABLE
from support.worlds import AGENT, FAST, OPTIONS, STAFF, TENANT

PROCESSES = ("validator", "authorizer", "waiter", "executor", "sanitizer", "audit", "approver")
ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 90.0
TOOLBOX = "support.toolbox:catalog"
JUDGES = ("authorizer", "executor")
"""Who decides by policies."""


def fast_settings() -> dict[str, str]:
    """The environment that gives the stages the stories' short times."""
    executor = FAST.executor.model_dump()
    changed = {name: str(executor[name]) for name in FAST.executor.model_fields_set}
    return {f"FOURGATES_STAGES__EXECUTOR__{name.upper()}": value for name, value in changed.items()} | {
        "FOURGATES_STAGES__EXECUTOR__AUDIT_WAIT": "5",
        "FOURGATES_STAGES__EXECUTOR__AUDIT_LAG": "8",  # a sink on a busy machine may be seconds behind
        "FOURGATES_WORKER__SESSION": "6",
        "FOURGATES_WORKER__REBALANCE": "20",
        "FOURGATES_WORKER__DRAIN": "5",
        "FOURGATES_SINK__HEARTBEAT": "0.3",
        "FOURGATES_LOG_LEVEL": "info",
    }


class KafkaWorld:
    """All processes, supervised, over a broker that somebody else started."""

    def __init__(self, bootstrap: str, folder: Path, catalog: str = TOOLBOX, extra: Mapping[str, str] | None = None) -> None:
        self.bootstrap, self.folder = bootstrap, folder
        self.downstream, self.bookings = Downstream(folder / "downstream.sqlite"), Bookings(folder / "bookings.sqlite")
        self.home = folder / "home"
        self.keyring = DevKeys.load(self.home / "keys")
        codec = AvroCodec(LocalRegistry(data_folder("schemas")))
        self.opener = RecordOpener(codec, self.keyring.verifier())
        self.log = self.bus = KafkaBus(bootstrap, self.opener)
        ports = free_ports(len(PROCESSES) + 2)
        self.health = {name: f"http://127.0.0.1:{port}" for name, port in zip(PROCESSES, ports, strict=False)}
        self._policies = folder / "policies.cedar"
        if catalog == TOOLBOX:
            self._policies.write_text(POLICIES, encoding="utf-8")
            extra = {"FOURGATES_POLICIES": str(self._policies), **(extra or {})}
        self.approver_url, self.door = f"http://127.0.0.1:{ports[-1]}", f"127.0.0.1:{ports[-2]}"
        environment = {
            **os.environ, **fast_settings(), VARIABLE: str(folder), "FOURGATES_BOOTSTRAP": bootstrap,
            "FOURGATES_HOME": str(self.home), "FOURGATES_CATALOG": catalog, "FOURGATES_APPROVER": self.approver_url[7:],
            "FOURGATES_AUDIT_DOOR": self.door, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT / "services")]),
            **(extra or {}),
        }  # fmt: skip
        specs = [
            ProcessSpec(
                name, (sys.executable, "-m", "fourgates.cli", "run", name), f"http://127.0.0.1:{port}/readyz",
                {**environment, "FOURGATES_HEALTH": f"127.0.0.1:{port}"},
            )
            for name, port in zip(PROCESSES, ports, strict=False)
        ]  # fmt: skip
        self.supervisor = Supervisor(specs, folder / "logs")
        self.client = Client(KafkaTransport(bootstrap, codec, self.keyring.verifier()), self.keyring.validator_public(), OPTIONS)

    async def start(self) -> None:
        await self.supervisor.start()
        try:
            await self.bus.start()
            await self.supervisor.ready(READY_SECONDS)
            await self.client.__aenter__()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await self.client.__aexit__(None, None, None)
        await self.bus.close()
        await self.supervisor.stop()

    def run(self, subject: str = "anna", groups: Sequence[str] = STAFF, *, intent: str = "", **more: Any) -> Run:
        token = self.keyring.issuer.token(subject, TENANT, groups, agent=AGENT, person=more.pop("person", ""))
        return self.client.run(token, intent=intent, **more)

    def approver(self, subject: str, groups: Sequence[str]) -> httpx.AsyncClient:
        token = self.keyring.issuer.token(subject, TENANT, groups, audience=APPROVALS_AUDIENCE)
        return httpx.AsyncClient(base_url=self.approver_url, headers={"Authorization": f"Bearer {token}"}, timeout=30)

    async def query(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a question to the audit's door."""
        async with httpx.AsyncClient(timeout=60) as http:
            headers = {"Authorization": f"Bearer {self.keyring.door_token()}"}
            answer = await http.post(f"http://{self.door}/?default_format=JSON", content=sql, headers=headers)
            return list(answer.raise_for_status().json()["data"])

    async def records(self, topic: str) -> list[Envelope]:
        return await self.bus.opened(topic)

    async def count(self, topic: str) -> int:
        """How many records lie on a topic, valid or not."""
        return len(await self.bus.records(topic))

    async def append(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> Position:
        return await self.bus.raw.append(topic, key, value, partition)

    async def set_audit_away(self, away: bool) -> None:
        """The sink's process, which is the embedded store's too, stands still; or goes on, and has caught up on return."""
        self.supervisor.signal("audit", signal.SIGSTOP if away else signal.SIGCONT)
        if not away:
            await eventually(self._audited, READY_SECONDS)

    async def _audited(self) -> bool:
        """Whether the newest watermark of every ledger partition is fresh and at the partition's end."""
        ends, now_ms = await self.bus.ends(CALLS_LEDGER), time.time() * 1000
        marks = [e.record for e in await self.records(AUDIT_WATERMARKS) if e.record.topic == CALLS_LEDGER]
        saved = {mark.partition: mark.offset for mark in marks if now_ms - mark.said_ms < 3_000}
        return all(saved.get(number, -1) >= end for number, end in ends.items())

    async def set_policies(self, text: str, result: str = "taken") -> None:
        """Writes the file that the processes watch; returns once each of them has found it."""
        sample = f'fourgates_policies_loads_total{{result="{result}"}}'
        before = {name: await self._metric(name, sample) for name in JUDGES}
        self._policies.write_text(text, encoding="utf-8")
        for name in JUDGES:
            await eventually(lambda name=name: self._grown(name, sample, before[name]))

    async def _grown(self, process: str, sample: str, before: float) -> bool:
        return await self._metric(process, sample) > before

    async def _metric(self, process: str, sample: str) -> float:
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"{self.health[process]}/metrics")).raise_for_status().text
        values = [line.rpartition(" ")[2] for line in text.splitlines() if line.startswith(sample)]
        return float(values[0]) if values else 0.0

    async def kill(self, stage: str, seconds: float = READY_SECONDS) -> None:
        """kill -9; returns once the process that takes over is ready."""
        watched = self.supervisor.watched[stage]
        before = watched.pid
        self.supervisor.signal(stage, signal.SIGKILL)
        await eventually(lambda: _taken_over(watched, before), seconds)


def _taken_over(watched: Watched, before: int | None) -> bool:
    return watched.pid not in (None, before) and watched.ready.is_set()
