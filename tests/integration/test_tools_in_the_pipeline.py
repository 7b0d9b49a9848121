"""Every kind of tool through every gate: what it does, what its time and its caller's wish do to it, and what is left of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio

from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerKind
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import CALLS_LEDGER
from fourgates.runtime.local_broker import LocalBroker
from fourgates.runtime.topics import create_topics
from fourgates.sdk import Run
from fourgates.testing import Pipeline
from support import kinds
from support.bubblewrap import require_sandbox
from support.eventually import eventually
from support.http_downstream import HttpDownstream, Say, Seen
from support.kafka_world import KafkaWorld
from support.processes import processes_with
from support.worlds import AGENT, FAST, OPTIONS, STAFF, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")
ALL = [(verb, kind) for kind in kinds.KINDS for verb in ("look", "do")]
_orders = itertools.count(1)


class World(Protocol):
    """What is needed of either bus."""

    def run(self, subject: str, groups: Any, **more: Any) -> Run: ...

    async def records(self, topic: str) -> list[Envelope]: ...


class InProcess:
    """Everything in this process."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline

    def run(self, subject: str, groups: Any, **more: Any) -> Run:
        return self._pipeline.run(subject, groups, agent=AGENT, **more)

    async def records(self, topic: str) -> list[Envelope]:
        return self._pipeline.records(topic)


@dataclass
class Place:
    """A pipeline with a tool of each kind, and what they leave behind."""

    world: World
    folder: Path
    there: HttpDownstream

    def run(self) -> Run:
        return self.world.run("anna", STAFF)

    def entered(self, order: str) -> int:
        return self._noted(f"entered {order}") + sum(order.encode() in seen.body for seen in self.there.seen)

    def left(self, kind: str, order: str) -> str:
        """What still runs of a call that was entered; empty: nothing."""
        if kind == "http":
            return "a connection is held" if order in self.waiting else ""
        if kind == "command":
            return f"processes {found}" if (found := processes_with(kinds.SLEEP)) else ""
        return "" if self._noted(f"left {order}") == self._noted(f"entered {order}") else "it has not ended"

    @property
    def waiting(self) -> set[str]:
        """Orders of which the HTTP downstream keeps somebody waiting who has not hung up."""
        return {json.loads(seen.body)["order"] for seen in self.there.kept_waiting}

    def rows(self, order: str) -> int:
        with closing(sqlite3.connect(self.folder / "books.sqlite", timeout=30)) as db:
            return int(db.execute("SELECT count(*) FROM done WHERE what = ?", (order,)).fetchone()[0])

    def _noted(self, line: str) -> int:
        return kinds.noted(self.folder).count(line)


def answer(seen: Seen) -> Say:
    asked = json.loads(seen.body)
    return Say(hang=True) if asked["mode"] == "hang" else Say(201, {"order": asked["order"]})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def prepared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Path, HttpDownstream]]:
    """The folder of the kinds and the downstream of the HTTP tool, for one bus after the other."""
    require_sandbox()
    folder = tmp_path_factory.mktemp("kinds")
    async with HttpDownstream(answer) as there:
        await kinds.prepare(folder, there.url)
        yield folder, there


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def memory_place(prepared: tuple[Path, HttpDownstream]) -> AsyncIterator[Place]:
    made = kinds.make_catalog(prepared[0])
    async with Pipeline(made, settings=FAST, tenant=TENANT, options=OPTIONS) as pipeline:
        yield Place(InProcess(pipeline), *prepared)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def kafka_place(
    kafka_libs: Path, prepared: tuple[Path, HttpDownstream], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """One process a stage, on a broker of its own: others empty the session's topics between their tests."""
    async with LocalBroker(tmp_path_factory.mktemp("kinds-broker"), libs=kafka_libs) as broker:
        await create_topics(broker.bootstrap)
        extra = {kinds.VARIABLE: str(prepared[0])}
        world = KafkaWorld(broker.bootstrap, tmp_path_factory.mktemp("kinds-world"), catalog="support.kinds:catalog", extra=extra)
        await world.start()
        try:
            yield Place(world, *prepared)
        finally:
            await world.stop()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def place(request: pytest.FixtureRequest) -> Place:
    """The same on either bus."""
    found: Place = request.getfixturevalue(f"{request.param}_place")
    return found


async def asked(place: Place, run: Run, verb: str, kind: str, mode: str) -> tuple[str, Any]:
    """The order, and the first answer that says more than that there is none yet."""
    order = f"A-{next(_orders)}"
    obs = await run.call(f"{verb}_{kind}", {"order": order, "mode": mode}, tool_call_id=order, wait=4)
    for _ in range(10):
        if obs.reason != "no_answer_yet":
            break
        obs = await run.wait(obs.call_id, 2)
    return order, obs


async def test_every_kind_answers_through_every_gate(place: Place) -> None:
    """S1, E12: as a read and as a write, once."""
    run = place.run()
    told = await asyncio.gather(*(asked(place, run, verb, kind, "ok") for verb, kind in ALL))
    for (verb, kind), (order, obs) in zip(ALL, told, strict=True):
        assert obs.code is Code.OK, (verb, kind, obs)
        assert order in (obs.content or ""), (verb, kind, obs)
        assert place.entered(order) == 1, (verb, kind)
        again = await run.call(f"{verb}_{kind}", {"order": order, "mode": "ok"}, tool_call_id=order)
        assert (again.code, again.content) == (Code.OK, obs.content)
        assert place.entered(order) == 1, (verb, kind)
    keys = {seen.headers["idempotency-key"] for seen in place.there.seen}
    assert len(keys) == len(place.there.seen)


async def test_when_its_time_is_over_a_read_is_timeout_a_write_in_doubt_and_nothing_runs_on(place: Place) -> None:
    """E7: async, thread, database cursor, HTTP, MCP, process group."""
    run = place.run()
    told = await asyncio.gather(*(asked(place, run, verb, kind, "hang") for verb, kind in ALL))
    for (verb, kind), (order, obs) in zip(ALL, told, strict=True):
        expected = Code.TIMEOUT if verb == "look" else Code.IN_DOUBT
        assert (obs.code, obs.final) == (expected, False), (verb, kind, obs)
        assert place.entered(order) >= 1, (verb, kind)
        await eventually(lambda kind=kind, order=order: place.left(kind, order) == "", 10)
        assert place.rows(order) == 0, "what was interrupted was rolled back"


async def test_when_its_caller_cancels_it_stops_and_a_write_is_in_doubt(place: Place) -> None:
    """E7: the wish reaches what is running, of each kind, long before its time is over."""
    run = place.run()
    orders = {(verb, kind): f"C-{next(_orders)}" for verb, kind in ALL}
    loop = asyncio.get_running_loop()

    async def cancelled(verb: str, kind: str) -> tuple[Any, float]:
        order = orders[verb, kind]
        obs = await run.call(f"{verb}_{kind}", {"order": order, "mode": "hang"}, tool_call_id=order, wait=0)
        await eventually(lambda: place.entered(order), 10)
        began = loop.time()
        told = await run.cancel(obs.call_id, wait=3)
        while told.reason == "no_answer_yet" and loop.time() < began + 20:
            told = await run.wait(obs.call_id, 2)
        await eventually(lambda: place.left(kind, order) == "", 10) if kind != "command" else None
        return told, loop.time() - began

    told = dict(zip(ALL, await asyncio.gather(*(cancelled(*one) for one in ALL)), strict=True))
    for (verb, kind), (obs, _) in told.items():
        assert obs.code in ((Code.CANCELLED,) if verb == "look" else (Code.IN_DOUBT, Code.CANCEL_TOO_LATE)), (verb, kind, obs)
    await eventually(lambda: processes_with(kinds.SLEEP) == [], 10)
    entries = [envelope.record for envelope in await place.world.records(CALLS_LEDGER)]
    for (verb, kind), order in orders.items():
        mine = [entry for entry in entries if entry.about is not None and entry.about.tool_call_id == order]
        reasons = {entry.reason for entry in mine if entry.kind is LedgerKind.IN_DOUBT}
        assert verb == "look" or "cancelled" in reasons, (kind, reasons)
        assert place.rows(order) == 0
