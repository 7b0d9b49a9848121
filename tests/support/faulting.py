"""A pipeline on real Kafka that is made to fail: failpoints in every process, second processes beside the first, a proxy."""

from __future__ import annotations

import dataclasses
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from fourgates.cli.local import free_ports
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.children import end_group, spawn
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.topics import create_topics
from support.eventually import eventually
from support.kafka_world import READY_SECONDS, KafkaWorld
from support.tcp_proxy import TcpProxy, proxying
from support.toolbox import POLICIES
from support.worker_process import WorkerProcess

CATALOG = "support.fault_tools:catalog"
EXPORTS = """
@id("exports") @approval("waived")
permit (principal in Fourgates::Group::"staff", action == Fourgates::Action::"archive", resource);
"""


class Points:
    """The folder of failpoints, as the test sees it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def arm(self, name: str, call_id: str = "", word: str = "hold") -> Path:
        """Returns the file that is there once a process has come to the point."""
        path = self.folder / f"{name}@{call_id}"
        draft = self.folder / f".{path.name}"
        draft.write_text(word, encoding="utf-8")
        draft.rename(path)
        return Path(f"{path}.hit")

    async def taken(self, hits: Iterable[Path], seconds: float = 60.0) -> None:
        """Returns once somebody has come to each."""
        missing = list(hits)

        def all_hit() -> bool:
            missing[:] = [hit for hit in missing if not hit.exists()]
            return not missing

        try:
            await eventually(all_hit, seconds)
        except AssertionError:
            raise AssertionError(f"nobody came to {[hit.name[:-4] for hit in missing]}") from None

    def clear(self) -> None:
        """Whoever is held goes on; nothing is armed any more."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)


class ProxiedBroker(LocalBroker):
    """A broker with a second listener, whose clients come through a proxy and are sent there again."""

    def __init__(self, data: Path, libs: Path) -> None:
        port, self.behind, self.proxied = free_ports(3)
        super().__init__(data, libs=libs, port=port)

    def _properties(self) -> dict[str, str]:
        found = super()._properties()
        found["listeners"] += f",PROXIED://127.0.0.1:{self.behind}"
        found["advertised.listeners"] += f",PROXIED://127.0.0.1:{self.proxied}"
        found["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
        found["inter.broker.listener.name"] = "PLAINTEXT"
        return found


class FaultWorld(KafkaWorld):
    """The processes reach the broker through the proxy; the test and its host directly."""

    def __init__(self, broker: ProxiedBroker, proxy: TcpProxy, folder: Path) -> None:
        self.points, self.broker, self.proxy = Points(folder / "failpoints"), broker, proxy
        policies = folder / "fault-policies.cedar"
        policies.write_text(POLICIES + EXPORTS, encoding="utf-8")
        self.environment = {
            "FOURGATES_BOOTSTRAP": f"127.0.0.1:{proxy.port}", "FOURGATES_FAILPOINTS": str(self.points.folder),
            "FOURGATES_POLICIES": str(policies), "FOURGATES_STAGES__EXECUTOR__AUDIT_WAIT": "3",
            "FOURGATES_STAGES__EXECUTOR__AUDIT_LAG": "20",  # the sink is killed as well, and has to catch up
        }  # fmt: skip
        super().__init__(broker.bootstrap, folder, CATALOG, self.environment)
        self._count = 0
        self._gates = {name: folder / f"{name}.gate" for name in self.supervisor.watched}
        for name, watched in self.supervisor.watched.items():
            argv = (sys.executable, "-m", "support.gated_process", str(self._gates[name]), *watched.spec.argv)
            watched.spec = dataclasses.replace(watched.spec, argv=argv)

    async def beside(self, stage: str, extra: Mapping[str, str] | None = None) -> WorkerProcess:
        """A second process of that stage, ready or not; the test ends it."""
        self._count += 1
        spec, [port] = self.supervisor.watched[stage].spec, free_ports(1)
        log = self.folder / "logs" / f"{stage}-{self._count}.log"
        env = {**(spec.env or {}), "FOURGATES_HEALTH": f"127.0.0.1:{port}", **(extra or {})}
        return WorkerProcess(spawn(list(spec.argv), log, env=env), log, port)

    @asynccontextmanager
    async def with_another(self, stage: str, extra: Mapping[str, str] | None = None) -> AsyncIterator[WorkerProcess]:
        """A second process of that stage, ended in order."""
        other = await self.beside(stage, extra)
        try:
            yield other
        finally:
            await eventually(lambda: _end(other), 40)

    async def rewind(self, stage: str, topic: str, seconds: float = READY_SECONDS) -> int:
        """Sets the group's offsets back to the beginning while the stage is down; how many partitions had moved."""
        watched, before = self.supervisor.watched[stage], self.supervisor.watched[stage].pid
        self._gates[stage].touch()
        try:
            self.supervisor.signal(stage, signal.SIGTERM)
            moved = await rewind_group(self.bootstrap, stage, topic)
        finally:
            self._gates[stage].unlink()
        await eventually(lambda: watched.pid not in (None, before) and watched.ready.is_set(), seconds)
        return moved

    def freeze(self, *stages: str) -> None:
        for stage in stages:
            self.supervisor.signal(stage, signal.SIGSTOP)

    def thaw(self, *stages: str) -> None:
        for stage in stages:
            self.supervisor.signal(stage, signal.SIGCONT)


def _end(other: WorkerProcess) -> bool:
    end_group(other.child, 20)
    return True


async def rewind_group(bootstrap: str, group: str, topic: str) -> int:
    """Commits the beginning of every partition, once the group has no members; how many partitions stood elsewhere."""
    tps = [TopicPartition(topic, number) for number in range(BY_NAME[topic].partitions)]
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(tps)

        async def empty() -> bool:
            try:
                await consumer.commit({tp: OffsetAndMetadata(0, "") for tp in tps})
            except KafkaError:  # somebody is still a member
                return False
            return True

        moved = len([tp for tp in tps if await consumer.committed(tp)])
        await eventually(empty, 60)
        return moved
    finally:
        await consumer.stop()


@asynccontextmanager
async def fault_world(folder: Path, libs: Path) -> AsyncIterator[FaultWorld]:
    """A broker, a proxy and all processes, up and ready."""
    broker = ProxiedBroker(folder / "broker", libs)
    async with broker, proxying(broker.behind, listen=broker.proxied) as proxy:
        await create_topics(broker.bootstrap)
        world = FaultWorld(broker, proxy, folder)
        await world.start()
        try:
            yield world
        finally:
            world.points.clear()
            world.thaw(*world.supervisor.watched)
            await world.stop()
