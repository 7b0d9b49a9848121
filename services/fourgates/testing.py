"""The whole pipeline on the in-process bus, for users' tests: the same stages, seals and folds as on Kafka, without a broker.

`audit_store` takes the audit's rows: by default they stay in memory, as `MemoryRows`.

async with Pipeline(catalog) as gates:
    run = gates.run("anna", groups=["support"], intent="refund order A-1")
    obs = await run.call("refund_order", '{"order_id": "A-1"}', tool_call_id="1")
    [hold] = await gates.holds("ben", groups=["approvers"])
    await gates.decide(hold["hold_id"], "approve", "ben", groups=["approvers"])
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any

import httpx

from fourgates.approval.service.app import ServicePorts, build_app
from fourgates.approval.service.settings import ServiceSettings
from fourgates.assembly import STAGES, StageSettings, World, build_stage, last_word, load_policies
from fourgates.audit.build import build_rows, build_sink
from fourgates.audit.columns import Row
from fourgates.audit.settings import SinkSettings
from fourgates.audit.sink import Inserts
from fourgates.catalog import Catalog
from fourgates.contract.avro import AvroCodec
from fourgates.contract.errors import Transient
from fourgates.contract.ports import Clock, Envelope, Publisher
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.topology import AUDITED
from fourgates.gates.identity import APPROVALS_AUDIENCE, TokenVerifier
from fourgates.gates.live_policies import LivePolicies
from fourgates.runtime.blobs import MemoryBlobStore
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.data import data_folder
from fourgates.runtime.intake import RecordHandler
from fourgates.runtime.keys import Keyring, new_development_content
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_batches import MemoryBatches
from fourgates.runtime.memory_worker import MemoryWorker
from fourgates.runtime.metrics import Metrics
from fourgates.runtime.registry import LocalRegistry
from fourgates.sdk import Client, Options, Run
from fourgates.sdk.transport import BusTransport

PRODUCER = "in-process"


class MemoryRows:
    """An audit store that keeps its rows in a dict; `away` makes every insert fail, as a server that is down."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int, int], Row] = {}
        self.away = False

    def insert(self, rows: Sequence[Row]) -> None:
        self.alive()
        for row in rows:
            self.rows[str(row["topic"]), int(row["partition"]), int(row["offset"])] = row

    def insert_native(self, blocks: Sequence[bytes]) -> None:
        """Never asked for: here rows are made one by one."""
        raise TypeError("rows in memory are no blocks of ClickHouse's")

    def alive(self) -> None:
        if self.away:
            raise Transient("the audit store is away")


class Pipeline:
    """All processes of the pipeline in this one. Times are real unless a `ManualClock` is given."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        policies: str | None = None,
        settings: StageSettings | None = None,
        clock: Clock | None = None,
        tenant: str = "acme",
        options: Options | None = None,
        audit_store: Inserts | None = None,
    ) -> None:
        self.catalog, self.tenant = catalog, tenant
        self.clock: Clock = clock or SystemClock()
        self.keyring = Keyring(new_development_content(), "the in-process pipeline")
        self.codec = AvroCodec(LocalRegistry(data_folder("schemas")))
        self.opener = RecordOpener(self.codec, self.keyring.verifier())
        self.metrics = Metrics()
        """What all workers of this pipeline count, and the bus."""
        self.bus = MemoryBus(self.opener, self.clock, self.metrics)
        self.audit_store: Inserts = audit_store or MemoryRows()
        self._settings = settings or StageSettings()
        self.policies = LivePolicies(load_policies(catalog, policies))
        """`replace` puts another set in its place while calls are under way."""
        self.world = World(
            catalog=catalog, policies=self.policies, keyring=self.keyring,
            issuers=self.keyring.issuer.trust(), log=self.bus, clock=self.clock, publisher=self.publisher,
            raw_blobs=MemoryBlobStore(), result_blobs=MemoryBlobStore(),
        )  # fmt: skip
        self.workers: dict[str, MemoryWorker] = {}
        self.client = Client(
            BusTransport(self.bus, self.codec), self.keyring.validator_public(), options or Options(), self.clock
        )
        self._stack = AsyncExitStack()
        self._service: httpx.ASGITransport | None = None

    def publisher(self, writer: str) -> Publisher:
        """Appends records sealed with that writer's key."""
        return self.bus.publisher(RecordWriter(self.codec, self.keyring.signer(writer)))

    async def __aenter__(self) -> Pipeline:
        try:
            await self._start_audit()
            for name in STAGES:
                await self.start_stage(name)
            await self._start_approver()
            await self._stack.enter_async_context(self.client)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        await self._stop()

    async def start_stage(self, name: str) -> None:
        """Starts a worker of the stage at its committed offsets."""
        stage = build_stage(name, self.world, self._settings, PRODUCER)
        handler = RecordHandler(
            stage, self.opener, self.publisher(name), self.clock, PRODUCER, last_word(stage, PRODUCER), self.metrics
        )
        self.workers[name] = MemoryWorker(self.bus, stage, handler, self.clock)
        await self.workers[name].start()

    async def crash_stage(self, name: str) -> None:
        """As kill -9: what was under way is gone and uncommitted."""
        await self.workers.pop(name).crash()

    async def stop_stage(self, name: str) -> None:
        """A clean end: what is under way is finished and committed."""
        await self.workers.pop(name).stop()

    def token(self, subject: str, groups: Sequence[str] = (), agent: str = "", person: str = "") -> str:
        """A development token for an agent's calls on behalf of `subject`."""
        return self.keyring.issuer.token(subject, self.tenant, groups, agent=agent, person=person, now_ms=self.clock.now_ms())

    def run(
        self, subject: str, groups: Sequence[str] = (), *, agent: str = "", person: str = "", intent: str = "", **more: Any
    ) -> Run:
        """A run of the SDK for that subject; further arguments as of `Client.run`."""
        return self.client.run(self.token(subject, groups, agent, person), intent=intent, **more)

    def approver(self, subject: str, groups: Sequence[str] = (), person: str = "") -> httpx.AsyncClient:
        """An HTTP client of the approver service, signed in as that person."""
        token = self.keyring.issuer.token(
            subject, self.tenant, groups, person=person, audience=APPROVALS_AUDIENCE, now_ms=self.clock.now_ms()
        )
        if self._service is None:
            raise RuntimeError("the pipeline was not started")
        return httpx.AsyncClient(
            transport=self._service, base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}
        )

    async def holds(self, subject: str, groups: Sequence[str] = ()) -> list[dict[str, Any]]:
        """What that person may see that waits, the most pressing first."""
        found: list[dict[str, Any]] = []
        turning = {"limit": 1_000}
        async with self.approver(subject, groups) as http:
            while True:
                page = (await http.get("/api/holds", params=turning)).raise_for_status().json()
                found += page["holds"]
                if page["next"] is None:
                    return found
                turning["after"] = page["next"]

    async def decide(
        self, hold_id: str, verdict: str, subject: str, groups: Sequence[str] = (), reason: str = "", **more: Any
    ) -> httpx.Response:
        """Sees the hold as the person would, then decides about exactly that."""
        async with self.approver(subject, groups) as http:
            shown = (await http.get(f"/api/holds/{hold_id}")).raise_for_status().json()
            body = {"verdict": verdict, "shown_digest": shown["shown_digest"], "reason": reason, **more}
            return await http.post(f"/api/holds/{hold_id}/decision", json=body)

    def records(self, topic: str) -> list[Envelope]:
        """Every valid record of a topic, oldest first."""
        return self.bus.opened(topic)

    async def drained(self) -> None:
        """Returns once no stage has anything under way."""
        for worker in tuple(self.workers.values()):
            await worker.drained()

    async def _start_audit(self) -> None:
        rows = build_rows(self.opener, self.keyring.placeholder_key(), self.catalog)
        sink = build_sink(
            self.audit_store, rows, self.publisher("audit"), self.clock, PRODUCER, SinkSettings(age=0.01, heartbeat=0.2)
        )
        batches = MemoryBatches(self.bus, "audit", AUDITED)
        running = asyncio.create_task(sink.run(batches))

        async def stop() -> None:
            if isinstance(self.audit_store, MemoryRows):
                self.audit_store.away = False
            await batches.close()
            await running

        self._stack.push_async_callback(stop)

    async def _start_approver(self) -> None:
        issuer = self.keyring.issuer
        ports = ServicePorts(
            log=self.bus, publisher=self.publisher("approver"), tokens=TokenVerifier(issuer.trust(APPROVALS_AUDIENCE)),
            seals=self.keyring.verifier(), clock=self.clock, producer=PRODUCER,
        )  # fmt: skip
        app = build_app(ports, ServiceSettings())
        await self._stack.enter_async_context(app.router.lifespan_context(app))
        self._service = httpx.ASGITransport(app)

    async def _stop(self) -> None:
        for name in reversed(STAGES):
            if name in self.workers:
                await self.stop_stage(name)
        await self._stack.aclose()
