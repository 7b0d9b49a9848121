"""The whole pipeline on this machine: addresses, a local broker, topics, one supervised process each."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from fourgates.cli.run import PROCESSES
from fourgates.cli.settings import PREFIX, Address, Settings, child_environment, read_settings
from fourgates.cli.standing import hold
from fourgates.contract.errors import ConfigurationError
from fourgates.runtime.local_broker import LocalBroker, kafka_available
from fourgates.runtime.supervisor import ProcessSpec, Supervisor, Watched
from fourgates.runtime.topics import DURABLE_IN_SYNC, DURABLE_REPLICATION, Replication, await_broker, create_topics

READY_SECONDS = 120.0
_END_SECONDS = 20.0
"""Beside what work under way may take, before a process is killed."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What else is to run and to be set, for a catalog that brings its own surroundings."""

    specs: Sequence[ProcessSpec] = ()
    settings: Mapping[str, str] | None = None
    """Settings of all processes, by name."""
    environment: Mapping[str, str] | None = None
    """Variables of the catalog's own."""


@dataclass(frozen=True, slots=True)
class Local:
    """The pipeline while it runs."""

    settings: Settings
    supervisor: Supervisor
    broker: LocalBroker | None
    """None where the broker is somebody else's."""


@asynccontextmanager
async def local_pipeline(
    settings: Settings, *, local_broker: bool | None, extra: Extra, on_change: Callable[[Watched], None],
    progress: Callable[[str], None],
) -> AsyncIterator[Local]:  # fmt: skip
    """Everything started and ready; ended in order when the block ends: the processes, then the broker.

    `local_broker` None: where no bootstrap servers are set. Raises ConfigurationError, and ProcessFailed with a process's last
    words.
    """
    async with AsyncExitStack() as stack:
        standing = stack.enter_context(hold(settings.home))
        chosen = {
            "home": str(settings.home.absolute()),
            "catalog": settings.catalog,
            **_addresses(settings),
            **(extra.settings or {}),
        }
        broker: LocalBroker | None = None
        if local_broker or (local_broker is None and "bootstrap" not in settings.model_fields_set):
            broker = await stack.enter_async_context(_broker(settings, progress))
            chosen["bootstrap"] = broker.bootstrap
        settings = read_settings(**chosen)
        await await_broker(settings.bootstrap, seconds=settings.start_wait, progress=progress)
        in_sync = DURABLE_IN_SYNC if settings.replication >= DURABLE_REPLICATION else 1
        await create_topics(settings.bootstrap, Replication(settings.replication, in_sync))
        standing.tell(chosen)
        environment = {**child_environment(**chosen), **(extra.environment or {})}
        supervisor = Supervisor([*extra.specs, *_specs(settings, environment)], settings.home / "logs", on_change)
        stack.push_async_callback(supervisor.stop)
        await supervisor.start()
        await supervisor.ready(READY_SECONDS)
        yield Local(settings, supervisor, broker)


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _broker(settings: Settings, progress: Callable[[str], None]) -> LocalBroker:
    libs = settings.kafka_folder
    if (reason := kafka_available(libs)) is not None:
        raise ConfigurationError(f"{PREFIX}BOOTSTRAP: not set, and no Kafka can be started here: {reason}")
    default = Address.parse(f"{PREFIX}BOOTSTRAP", str(Settings.model_fields["bootstrap"].default))
    return LocalBroker(settings.home / "kafka", libs=libs, port=default.port if _is_free(default) else 0, progress=progress)


def _addresses(settings: Settings) -> dict[str, str]:
    """Approver and audit door: where the settings say, else at their default ports, else at free ones."""
    names = [name for name in ("approver", "audit_door") if name not in settings.model_fields_set]
    defaults = {name: Address.parse(PREFIX + name.upper(), getattr(settings, name)) for name in names}
    free = dict(zip(names, free_ports(len(names)), strict=True))
    chosen = {name: where.port if _is_free(where) else free[name] for name, where in defaults.items()}
    return {name: f"{defaults[name].host}:{port}" for name, port in chosen.items()}


def _is_free(where: Address) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((where.host, where.port))
        except OSError:
            return False
    return True


def _specs(settings: Settings, environment: Mapping[str, str]) -> list[ProcessSpec]:
    ports = free_ports(len(PROCESSES))
    drain = settings.worker.drain + _END_SECONDS
    return [
        ProcessSpec(
            name, (sys.executable, "-m", "fourgates.cli", "run", name), f"http://127.0.0.1:{port}/readyz",
            {**environment, f"{PREFIX}HEALTH": f"127.0.0.1:{port}"}, drain,
        )
        for name, port in zip(PROCESSES, ports, strict=True)
    ]  # fmt: skip
