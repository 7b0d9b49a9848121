"""What a pipeline story needs of the world it plays in, and the world of the in-process bus."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

from fourgates.assembly import StageSettings, load_policies
from fourgates.catalog import Catalog, Tool
from fourgates.contract.avro import AvroCodec
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import Record
from fourgates.contract.ports import Envelope, Log, Position
from fourgates.contract.seals import RecordWriter
from fourgates.executor.settings import ExecutorSettings
from fourgates.runtime.data import data_folder
from fourgates.runtime.keys import Keyring
from fourgates.runtime.registry import LocalRegistry
from fourgates.sdk import Answer, Client, Options, Run
from fourgates.testing import MemoryRows, Pipeline
from support.bookings import Bookings
from support.downstream import Downstream
from support.toolbox import make_catalog

TENANT = "acme"
STAFF = ("staff",)
AGENT = "bot"
FAST = StageSettings(
    executor=ExecutorSettings(
        drain=0.5, audit_wait=3.0, audit_lag=3.0, retry_base=0.01, retry_cap=0.05, probe_every=0.1, room_wait=3.0
    )
)
"""Short leases, so that a story about a dead executor takes seconds."""
OPTIONS = Options(wait_s=15.0, ask_again_s=5.0, budget_s=20.0)
_orders = itertools.count(1)


def fresh_order(letter: str = "A") -> str:
    """An order that no other story uses."""
    return f"{letter}-{next(_orders)}"


class StoryWorld(Protocol):
    """The pipeline with its surroundings, on any bus."""

    downstream: Downstream
    bookings: Bookings
    client: Client
    keyring: Keyring
    """Every key of the pipeline: for what the tests seal themselves."""
    log: Log
    """Reads the topics as a process of the pipeline does."""

    def run(self, subject: str = "anna", groups: Sequence[str] = STAFF, *, intent: str = "", **more: Any) -> Run:
        """A run of the agent `bot` for that subject."""

    def approver(self, subject: str, groups: Sequence[str]) -> httpx.AsyncClient:
        """An HTTP client of the approver service, signed in."""

    async def records(self, topic: str) -> list[Envelope]:
        """Every valid record of a topic."""

    async def append(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> Position:
        """Raw bytes onto a topic, as any client of the broker could."""

    async def set_audit_away(self, away: bool) -> None:
        """The audit store stops answering, or does again."""

    async def set_policies(self, text: str, result: str = "taken") -> None:
        """Other policies from now on, without a restart; or `refused`: a set that could not decide."""

    async def kill(self, stage: str) -> None:
        """kill -9 of the stage's process; another one takes over."""


async def not_yet_final(run: Run, tool: str, raw: str, tool_call_id: str) -> Answer:
    """What is said of a call that people or evidence decide: the first word about it, however busy the machine is."""
    answer = await run.call(tool, raw, tool_call_id=tool_call_id, wait=0.5)
    while answer.reason == "no_answer_yet":
        answer = await run.wait(answer.call_id, 0.5)
    return answer


async def publish(world: StoryWorld, writer: str, record: Record) -> Position:
    """Appends the record as that writer seals it."""
    codec = AvroCodec(LocalRegistry(data_folder("schemas")))
    return await world.append(*RecordWriter(codec, world.keyring.signer(writer)).encode(record))


async def holds_of(
    world: StoryWorld, call_id: str, subject: str = "ben", groups: Sequence[str] = ("approvers", "finance")
) -> list[dict[str, Any]]:
    """The open holds of a call that this person may see."""
    async with world.approver(subject, groups) as http:
        answer = (await http.get("/api/holds", params={"limit": 1_000})).raise_for_status().json()
    return [hold for hold in answer["holds"] if hold["call_id"] == call_id]


async def decide(
    world: StoryWorld, hold_id: str, verdict: str, subject: str = "ben",
    groups: Sequence[str] = ("approvers", "finance"), **more: Any,
) -> httpx.Response:  # fmt: skip
    """Looks at the hold as a person would, and decides about exactly what was shown."""
    async with world.approver(subject, groups) as http:
        shown = (await http.get(f"/api/holds/{hold_id}")).raise_for_status().json()
        body = {"verdict": verdict, "shown_digest": shown["shown_digest"], **more}
        return await http.post(f"/api/holds/{hold_id}/decision", json=body)


class MemoryWorld:
    """Everything in this process."""

    def __init__(self, folder: Path, settings: StageSettings = FAST) -> None:
        self.downstream = Downstream(folder / "downstream.sqlite")
        self.bookings = Bookings(folder / "bookings.sqlite")
        self.pipeline = Pipeline(make_catalog(folder), settings=settings, tenant=TENANT, options=OPTIONS)
        self.keyring, self.client, self.log = self.pipeline.keyring, self.pipeline.client, self.pipeline.bus

    def catalog_with(self, name: str, change: Callable[[Tool], Tool]) -> Catalog:
        """The toolbox with one of its tools changed: what a process of another build would load."""
        changed = Catalog(self.pipeline.catalog.name, self.pipeline.catalog.policies)
        for tool in self.pipeline.catalog:
            changed.add(change(tool) if tool.name == name else tool)
        return changed

    async def start(self) -> None:
        await self.pipeline.__aenter__()

    async def stop(self) -> None:
        await self.pipeline.__aexit__(None, None, None)

    def run(self, subject: str = "anna", groups: Sequence[str] = STAFF, *, intent: str = "", **more: Any) -> Run:
        return self.pipeline.run(subject, groups, agent=AGENT, intent=intent, **more)

    def approver(self, subject: str, groups: Sequence[str]) -> httpx.AsyncClient:
        return self.pipeline.approver(subject, groups)

    async def records(self, topic: str) -> list[Envelope]:
        return self.pipeline.records(topic)

    async def append(self, topic: str, key: bytes, value: bytes | None, partition: int | None = None) -> Position:
        return self.pipeline.bus.append(topic, key, value, partition)

    async def set_audit_away(self, away: bool) -> None:
        store = self.pipeline.audit_store
        assert isinstance(store, MemoryRows)
        store.away = away

    async def set_policies(self, text: str, result: str = "taken") -> None:
        try:
            self.pipeline.policies.replace(load_policies(self.pipeline.catalog, text))
        except ConfigurationError:
            assert result == "refused"
        else:
            assert result == "taken"

    async def kill(self, stage: str) -> None:
        await self.pipeline.crash_stage(stage)
        await self.pipeline.start_stage(stage)
