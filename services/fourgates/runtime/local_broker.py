"""A local Apache Kafka for development and tests: one KRaft node, fetched by Maven, on loopback, gone with this process."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.children import end_group, signal_group, spawn
from fourgates.runtime.data import data_folder

JAVA_AT_LEAST = 17
_FETCH_SECONDS, _START_SECONDS, _STOP_SECONDS = 300.0, 60.0, 15.0
_POM_SPACE = {"m": "http://maven.apache.org/POM/4.0.0"}
Progress = Callable[[str], None]


def broker_version() -> str:
    """The version of Apache Kafka that deploy/kafka/pom.xml names."""
    pom = ElementTree.parse(data_folder("deploy/kafka") / "pom.xml")  # noqa: S314 - our own file
    found = pom.find(".//m:dependency[m:artifactId='kafka_2.13']/m:version", _POM_SPACE)
    if found is None or not found.text:
        raise ConfigurationError("deploy/kafka/pom.xml names no version of org.apache.kafka:kafka_2.13.")
    return found.text.strip()


def _fetched(libs: Path) -> bool:
    return (libs / f"kafka_2.13-{broker_version()}.jar").exists()


def kafka_available(libs: Path) -> str | None:
    """Why no local broker can run here, as one sentence; None where one can."""
    if shutil.which("java") is None:
        return f"There is no `java` on the PATH; the local Kafka needs Java {JAVA_AT_LEAST} or newer."
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S607
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_AT_LEAST:
        said = version[1] if version else "nothing readable"
        return f"`java -version` says {said}; the local Kafka needs {JAVA_AT_LEAST} or newer."
    if not _fetched(libs) and shutil.which("mvn") is None:
        return f"There is no `mvn` on the PATH, and {libs} does not hold Kafka {broker_version()} yet; Maven fetches it once."
    return None


async def fetch_kafka(libs: Path, progress: Progress = lambda line: None) -> None:
    """Brings Kafka's jars into `libs` where they are not there yet. Raises ConfigurationError with Maven's last words."""
    if (reason := kafka_available(libs)) is not None:
        raise ConfigurationError(reason)
    if _fetched(libs):
        return
    progress(f"fetching Apache Kafka {broker_version()} (44 MB, once)")
    libs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=libs.parent, prefix=".kafka-libs-") as folder:
        fresh, log = Path(folder) / "libs", Path(folder) / "maven.log"
        pom = data_folder("deploy/kafka") / "pom.xml"
        code = await _run(
            ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}",
             "-DincludeScope=runtime"], log, _FETCH_SECONDS)  # fmt: skip
        if code != 0 or not _fetched(fresh):
            raise ConfigurationError(f"Maven could not fetch Apache Kafka {broker_version()}: {_last_words(log)}")
        if not _fetched(libs):  # another process may have been faster
            shutil.rmtree(libs, ignore_errors=True)
            fresh.rename(libs)


async def _run(argv: list[str], log: Path, seconds: float) -> int:
    """Runs a command to its end; one that takes longer than `seconds`, or is not awaited any more, is killed."""
    child = spawn(argv, log)
    try:
        return await asyncio.to_thread(child.wait, seconds)
    except subprocess.TimeoutExpired:
        raise ConfigurationError(f"`{argv[0]}` did not end within {seconds:.0f} s: {_last_words(log)}") from None
    finally:
        signal_group(child, signal.SIGKILL)
        child.wait()


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.exists() else []
    return " | ".join(lines[-3:]) or "it said nothing"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    """Whether a broker on `port` answers an ApiVersions request; the port alone listens before it does."""
    request = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            head = connection.recv(10)
    except OSError:
        return False
    return len(head) == 10 and struct.unpack(">iih", head)[1:] == (1, 0)


class LocalBroker:
    """One broker whose data lies in `data`. Started again on the same folder it has the same records and the same address.

    Without a `port` it takes any free one. `settings` overrides server properties by name. Raises ConfigurationError where it
    cannot start, saying why.
    """

    def __init__(
        self, data: Path, *, libs: Path, port: int = 0, settings: Mapping[str, str] | None = None,
        progress: Progress = lambda line: None,
    ) -> None:  # fmt: skip
        self._data, self.libs, self._progress = data.absolute(), libs.absolute(), progress
        self._settings = dict(settings or {})
        self._port, self._controller_port = port, 0
        self._child: subprocess.Popen[bytes] | None = None
        self.log = self._data / "broker.log"
        """What the broker itself says, for people."""
        self.version = broker_version()

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """The broker's process, None where none runs."""
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    async def __aenter__(self) -> LocalBroker:
        try:
            await self.start()
        except BaseException:
            await self.kill()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self.stop()

    async def start(self) -> None:
        """Fetches what is missing, formats a new folder, starts, and returns once the broker answers."""
        if self.pid is not None:
            return
        await fetch_kafka(self.libs, self._progress)
        self._port = self._port or _free_port()
        self._controller_port = self._controller_port or _free_port()
        self._data.mkdir(parents=True, exist_ok=True)
        config = self._data / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in self._properties().items()))
        if not (self._data / "log" / "meta.properties").exists():
            await self._format(config)
        self._child = spawn([*self._java(), "kafka.Kafka", str(config)], self.log)
        await self._listening()

    async def stop(self) -> None:
        """Ends the broker in order; after 15 seconds by force."""
        child, self._child = self._child, None
        if child is not None:
            signal_group(child, signal.SIGCONT)
            try:
                await asyncio.to_thread(end_group, child, _STOP_SECONDS)
            except BaseException:  # a second ctrl-C does not wait
                signal_group(child, signal.SIGKILL)
                raise

    async def kill(self) -> None:
        """kill -9, as when a machine goes."""
        child, self._child = self._child, None
        if child is not None:
            signal_group(child, signal.SIGKILL)
            await asyncio.to_thread(child.wait)

    async def restart(self) -> None:
        """Starts again, on the same folder and address, whatever state it is in."""
        await self.stop()
        await self.start()

    def pause(self) -> None:
        """Freezes the broker: connections stay open and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Ends a `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is None or self._child is None:
            raise RuntimeError("the broker is not running")
        signal_group(self._child, number)

    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-cp", f"{self.libs}{os.sep}*"]

    async def _format(self, config: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        log = self._data / "format.log"
        code = await _run(
            [*self._java(), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(config)],
            log,
            _START_SECONDS,
        )
        if code != 0:
            raise ConfigurationError(f"Kafka could not format {self._data}: {_last_words(log)}")

    async def _listening(self) -> None:
        child, until = self._child, time.monotonic() + _START_SECONDS
        assert child is not None
        while not await asyncio.to_thread(_answers, self._port):
            if child.poll() is not None:
                raise ConfigurationError(f"The local Kafka ended with {child.returncode}: {_last_words(self.log)}")
            if time.monotonic() > until:
                raise ConfigurationError(f"The local Kafka did not answer within {_START_SECONDS:.0f} s: {_last_words(self.log)}")
            await asyncio.sleep(0.05)

    def _properties(self) -> dict[str, str]:
        client, controller = f"127.0.0.1:{self._port}", f"127.0.0.1:{self._controller_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{client}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._data / "log"),
            "auto.create.topics.enable": "false",
            "log.message.timestamp.type": "LogAppendTime",
            # One node: the topics that Kafka makes for itself cannot have three copies.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            # A fresh group begins at once instead of waiting three seconds for more members.
            "group.initial.rebalance.delay.ms": "0",
            # After a kill -9 the node may register again only when its old session is over; the default is 9 s.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            # Small: it shares its machine with all stages.
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.num.partitions": "2",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.dedupe.buffer.size": "33554432",
            **self._settings,
        }
