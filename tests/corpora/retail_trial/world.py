"""Where the tasks are played: all stages on the in-process bus, or one process a stage on a real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from corpora.retail_shop.shop import CATALOG, VARIABLE, make_catalog
from corpora.retail_shop.store import Shops
from corpora.retail_trial.tasks import Data
from fourgates.contract import ids
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.ports import Envelope, Log
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.gates.identity import APPROVALS_AUDIENCE
from fourgates.gates.result_box import open_result
from fourgates.runtime.keys import Keyring
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.topics import create_topics
from fourgates.sdk import Client, Options
from fourgates.testing import Pipeline
from support.kafka_world import KafkaWorld

ROOT = Path(__file__).resolve().parents[3]
OPTIONS = Options(wait_s=60.0, ask_again_s=20.0, budget_s=120.0)
_PATIENCE = {
    "FOURGATES_STAGES__EXECUTOR__DRAIN": "5", "FOURGATES_STAGES__EXECUTOR__AUDIT_WAIT": "5",
    "FOURGATES_STAGES__EXECUTOR__AUDIT_LAG": "10", "FOURGATES_WORKER__SESSION": "30", "FOURGATES_WORKER__REBALANCE": "60",
    "FOURGATES_WORKER__DRAIN": "20",
}  # fmt: skip
"""The stages' own times: nothing dies here, so nothing has to be found out quickly."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a call before anything was cleaned for the model: the tool's result, or the sentence of an error."""

    ok: bool
    answer: object
    refused_by: str = ""
    """The reason of the gate that refused it, such as a rule's name; empty where the tool itself has spoken."""


class Endings:
    """The first last word of each call, from the ledger, with the tool's raw result."""

    def __init__(self, keyring: Keyring) -> None:
        self._keys = keyring.result_keys()
        self._entries: dict[str, LedgerEntry] = {}
        self._awaited: dict[str, asyncio.Event] = {}

    def take(self, envelope: Envelope) -> None:
        entry: LedgerEntry = envelope.record
        if entry.kind in (LedgerKind.FINISHED, LedgerKind.REFUSED):
            self._entries.setdefault(entry.call_id, entry)
            self._awaited.setdefault(entry.call_id, asyncio.Event()).set()

    async def of(self, call_id: str) -> Outcome:
        """Once the ledger shows it. TimeoutError where it does not."""
        async with asyncio.timeout(30):
            await self._awaited.setdefault(call_id, asyncio.Event()).wait()
        entry = self._entries[call_id]
        if entry.kind is LedgerKind.REFUSED:
            return Outcome(False, entry.sentence, entry.reason or entry.code)
        if entry.outcome != "committed":
            return Outcome(False, entry.sentence)
        assert entry.result is not None
        assert not entry.result.blob_ref, "no result of this shop is so large that it travels by reference"
        return Outcome(True, open_result(entry.result, self._keys, call_id))


@dataclass(frozen=True, slots=True)
class RetailWorld:
    """A pipeline over the retail catalog."""

    shops: Shops
    client: Client
    keyring: Keyring
    endings: Endings
    open_http: Callable[[], httpx.AsyncClient]

    def token(self, subject: str, tenant: str, groups: tuple[str, ...], agent: str) -> str:
        """What this agent calls with on the subject's behalf."""
        return self.keyring.issuer.token(subject, tenant, groups, agent=agent)

    def call_id(self, run_id: str, tool_call_id: str, subject: str, tenant: str, agent: str) -> str:
        """The key of that call, under which a tool's entry is noted."""
        return ids.call_id(self.keyring.issuer.name, tenant, subject, agent, run_id, tool_call_id)

    def approver(self, subject: str, tenant: str, groups: tuple[str, ...]) -> httpx.AsyncClient:
        """The approver's HTTP API, signed in as that person."""
        http = self.open_http()
        token = self.keyring.issuer.token(subject, tenant, groups, audience=APPROVALS_AUDIENCE)
        http.headers["Authorization"] = f"Bearer {token}"
        return http


@asynccontextmanager
async def open_world(bus: str, data: Data, folder: Path) -> AsyncIterator[RetailWorld]:
    """`bus` is `memory` or `kafka`; everything that is written lies in `folder`."""
    shops = Shops(folder / "shops")
    (folder / "shops").mkdir(parents=True)
    shops.prepare(data.store)
    opened = {"memory": _on_memory, "kafka": _on_kafka}[bus]
    async with opened(shops, folder) as world:
        yield world


async def _follow(log: Log, keyring: Keyring) -> Endings:
    endings = Endings(keyring)
    await log.follow(CALLS_LEDGER, endings.take)
    return endings


@asynccontextmanager
async def _on_memory(shops: Shops, folder: Path) -> AsyncIterator[RetailWorld]:
    async with Pipeline(make_catalog(shops), options=OPTIONS) as gates:
        endings = await _follow(gates.bus, gates.keyring)
        yield RetailWorld(shops, gates.client, gates.keyring, endings, lambda: gates.approver("nobody"))


@asynccontextmanager
async def _on_kafka(shops: Shops, folder: Path) -> AsyncIterator[RetailWorld]:
    broker = LocalBroker(folder / "kafka", libs=ROOT / "build" / "kafka-libs")
    async with broker:
        await create_topics(broker.bootstrap)
        world = KafkaWorld(broker.bootstrap, folder, CATALOG, {VARIABLE: str(folder / "shops"), **_PATIENCE})
        await world.start()
        try:
            endings = await _follow(world.bus, world.keyring)
            yield RetailWorld(
                shops, world.client, world.keyring, endings,
                lambda: httpx.AsyncClient(base_url=world.approver_url, timeout=60),
            )  # fmt: skip
        finally:
            await world.stop()
