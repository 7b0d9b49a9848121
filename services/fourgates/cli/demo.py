"""`fourgates demo`: the whole story on real Kafka where Java and Maven are, else on the in-process bus; and it says which."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import click
import httpx
from rich.console import Console

from fourgates.assembly import StageSettings
from fourgates.audit.build import open_store
from fourgates.audit.client import DoorClient
from fourgates.audit.settings import StoreSettings
from fourgates.audit.store import Query
from fourgates.authorizer.settings import AuthorizerSettings
from fourgates.catalog.loading import load_catalog
from fourgates.cli.board import Board
from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.lifetime import until_told
from fourgates.cli.local import Local, local_pipeline
from fourgates.cli.options import with_settings
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.shop import CATALOG, open_shop
from fourgates.cli.world import Base
from fourgates.contract.ports import Position
from fourgates.demo.config import VARIABLE, DemoConfig
from fourgates.demo.narrator import Terminal
from fourgates.demo.payments import Payments
from fourgates.demo.people import PEOPLE, TENANT, agent_token, approver_token
from fourgates.demo.play import Premises
from fourgates.demo.store import Store
from fourgates.demo.story import Outcome, tell
from fourgates.runtime.data import data_folder
from fourgates.runtime.local_broker import kafka_available
from fourgates.runtime.supervisor import Supervisor
from fourgates.sdk import Client
from fourgates.sdk.kafka import KafkaTransport
from fourgates.testing import Pipeline

HOLD_WAIT = timedelta(seconds=12)
"""So that a hold expires while one watches; longer than a scene takes to decide."""
_PROVIDER_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the story plays."""

    premises: Premises
    audit: Query
    bus: str
    broker: str


@click.command()
@click.option("--json", "json_file", type=click.Path(path_type=Path), default=Path("build/demo.json"), show_default=True,
              help="Where the figures go.")  # fmt: skip
@click.option("--in-process", is_flag=True, help="On the in-process bus, although there may be a Kafka.")
@with_settings
def demo(settings: Settings, json_file: Path, in_process: bool) -> None:
    """Tells the whole story, scene by scene, in a home of its own. Exit code 1 where anything is not as it should be."""
    console = Console(highlight=False)
    why_not = "you asked for it" if in_process else kafka_available(settings.kafka_folder)
    outcomes: list[tuple[str, str, Outcome]] = []
    home = Path(tempfile.mkdtemp(prefix="fourgates-demo-"))

    async def play() -> None:
        place = _in_process(home, why_not, console) if why_not is not None else _on_kafka(settings, home, console)
        async with place as stage:
            outcomes.append((stage.bus, stage.broker, await tell(stage.premises, Terminal(console), stage.audit)))

    try:
        told = until_told(play())
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if told or not outcomes:
        raise Fault("the story was interrupted", BROKEN)
    [(bus, broker, outcome)] = outcomes
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(outcome.to_json(bus, broker), indent=1) + "\n", encoding="utf-8")
    if outcome.differences:
        raise Fault(f"{len(outcome.differences)} differences: {'; '.join(outcome.differences)}", BROKEN)
    seconds = f"{outcome.seconds:.0f} s"
    console.print(f"\n{outcome.calls} calls, {outcome.charges_seen} of {outcome.charges_expected} refunds at the provider, "
                  f"{outcome.integrity_rows} rows of the integrity queries, {seconds}. Figures: {json_file}")  # fmt: skip


@asynccontextmanager
async def _on_kafka(settings: Settings, home: Path, console: Console) -> AsyncIterator[Stage]:
    """A broker, the provider and every process of the pipeline, in a home that is removed afterwards."""
    shop = open_shop(home)
    told = {**(shop.settings or {}), "stages__authorizer__wait": f"PT{HOLD_WAIT.seconds}S"}
    own = settings.model_copy(update={"home": home, "catalog": CATALOG})
    board = Board(console)
    async with AsyncExitStack() as stack:
        with board.shown():
            local = await stack.enter_async_context(
                local_pipeline(
                    own, local_broker=True, extra=type(shop)(shop.specs, told, shop.environment), on_change=board.changed,
                    progress=board.say,
                )
            )  # fmt: skip
        console.print(f"Apache Kafka {local.broker.version if local.broker else ''} at {local.settings.bootstrap}, "
                      f"{len(local.supervisor.watched)} processes")  # fmt: skip
        yield await _among_processes(local, DemoConfig.model_validate_json((home / "demo" / "demo.json").read_bytes()), stack)


async def _among_processes(local: Local, config: DemoConfig, stack: AsyncExitStack) -> Stage:
    settings, base = local.settings, Base(local.settings)
    issuer, bus = base.keyring.issuer, base.bus()
    await stack.enter_async_context(bus)
    transport = KafkaTransport(settings.bootstrap, base.codec, base.keyring.verifier())
    client = await stack.enter_async_context(Client(transport, base.keyring.validator_public()))
    payments, store = Payments(config.provider_url), Store(config.database)
    stack.push_async_callback(payments.close)
    page = Address.parse(f"{PREFIX}APPROVER", settings.approver).url

    async def append(topic: str, key: bytes, value: bytes) -> Position:
        return await bus.raw.append(topic, key, value)

    def approver(who: str) -> httpx.AsyncClient:
        bearer = {"Authorization": f"Bearer {approver_token(issuer, who)}"}
        return httpx.AsyncClient(base_url=page, headers=bearer, trust_env=False, timeout=30)

    premises = Premises(
        client=client, log=bus, codec=base.codec, append=append, token=lambda who: agent_token(issuer, who),
        approver=approver, payments=payments, store=store, hold_wait_s=HOLD_WAIT.total_seconds(),
    )  # fmt: skip
    door = stack.enter_context(
        DoorClient(Address.parse(f"{PREFIX}AUDIT_DOOR", settings.audit_door).url, base.keyring.door_token())
    )
    return Stage(premises, door, "kafka", local.broker.version if local.broker else "")


@asynccontextmanager
async def _in_process(home: Path, why: str, console: Console) -> AsyncIterator[Stage]:
    """The whole pipeline in this process, with the provider beside it and the embedded ClickHouse."""
    console.print(f"The in-process bus, not Kafka: {why}")
    shop = open_shop(home)
    config = DemoConfig.model_validate_json((home / "demo" / "demo.json").read_bytes())
    os.environ[VARIABLE] = str(home / "demo" / "demo.json")  # as every process of the demo gets it
    provider = Supervisor(shop.specs, home / "logs")
    await provider.start()
    audit, _ = open_store(StoreSettings(folder=home / "clickhouse"), data_folder("deploy/clickhouse"))
    payments, store = Payments(config.provider_url), Store(config.database)
    settings = StageSettings(authorizer=AuthorizerSettings(wait=HOLD_WAIT))
    try:
        await provider.ready(_PROVIDER_SECONDS)
        async with Pipeline(load_catalog(CATALOG), settings=settings, tenant=TENANT, audit_store=audit) as gates:

            async def append(topic: str, key: bytes, value: bytes) -> Position:
                return gates.bus.append(topic, key, value)

            yield Stage(
                Premises(
                    client=gates.client, log=gates.bus, codec=gates.codec, append=append,
                    token=lambda who: agent_token(gates.keyring.issuer, who),
                    approver=lambda who: gates.approver(who, PEOPLE[who].groups, PEOPLE[who].name), payments=payments,
                    store=store, hold_wait_s=HOLD_WAIT.total_seconds(),
                ),
                audit.query, "memory", "in-process",
            )  # fmt: skip
    finally:
        await payments.close()
        await provider.stop()
        await asyncio.to_thread(audit.close)
