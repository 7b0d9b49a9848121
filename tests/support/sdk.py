"""A host's SDK without a pipeline behind it: the test plays the pipeline, and time moves by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fourgates.contract.codes import Code
from fourgates.contract.errors import Transient
from fourgates.contract.events import CallCompleted, CallRequested
from fourgates.contract.observation import Observation
from fourgates.contract.parts import Principal
from fourgates.contract.ports import Envelope, Position, Signer, Sink
from fourgates.contract.seals import RecordWriter
from fourgates.gates.identity import GrantBook, TokenVerifier
from fourgates.runtime.clock import ManualClock
from fourgates.sdk import Client, Options, Run, TokenSource
from support.records import codec
from support.tokens import NOW_MS, keyring, token

Reply = Callable[[CallRequested], Observation | None]


class PlayedTransport:
    """Keeps what was asked, in its proven form, and gives the answers that the test says."""

    def __init__(self, clock: ManualClock, reply: Reply | None = None) -> None:
        self.asked: list[CallRequested] = []
        self.principals: list[Principal] = []
        self.grants = GrantBook(keyring().validator_private(), TokenVerifier(keyring().issuer.trust()))
        self.reply, self.away = reply, False
        self.gap: Callable[[], None] = lambda: None
        self._clock = clock
        self._sink: Sink = lambda envelope: None
        self._arrived = asyncio.Condition()

    async def publish(self, request: CallRequested, signer: Signer) -> None:
        if self.away:
            raise Transient("the log is away")
        topic, _, value = RecordWriter(codec(), signer).encode(request)
        record = codec().decode(topic, value)
        assert isinstance(record, CallRequested)
        principal = self.grants.open(record, value, self._clock.now_ms())
        assert isinstance(principal, Principal), principal
        self.principals.append(principal)
        async with self._arrived:
            self.asked.append(record)
            self._arrived.notify_all()
        if self.reply is not None and (observation := self.reply(record)) is not None:
            self.tell(observation)

    async def follow_completed(self, sink: Sink, missed: Callable[[], None]) -> None:
        self._sink, self.gap = sink, missed

    async def close(self) -> None:
        self._sink = lambda envelope: None

    async def requests(self, count: int) -> CallRequested:
        """Waits for so many requests and returns the last one."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.asked) >= count)
        return self.asked[-1]

    def tell(self, observation: Observation, text: str | None = None) -> None:
        """Completes a call, as the sanitizer does."""
        asked = next((r for r in self.asked if r.call_id == observation.call_id), None)
        record = CallCompleted(
            event_id="e" * 32, producer="test", call_id=observation.call_id, run_id=asked.run_id if asked else "",
            tenant="acme", tool_call_id=asked.tool_call_id if asked else "", code=observation.code.value,
            final=observation.final, observation=observation.to_json() if text is None else text,
        )  # fmt: skip
        self._sink(Envelope(record, Position("calls.completed", 0, 0), self._clock.now_ms(), "sanitizer"))


def ok(request: CallRequested, content: str = "done", **more: Any) -> Observation:
    return Observation(Code.OK, request.call_id, content=content, **more)


def says(code: Code, **more: Any) -> Reply:
    """A pipeline that always answers so."""
    return lambda request: Observation(code, request.call_id, **more)


@asynccontextmanager
async def host(
    reply: Reply | None = None, principal: TokenSource | None = None, options: Options | None = None, **run: Any
) -> AsyncIterator[tuple[Run, PlayedTransport, ManualClock]]:  # fmt: skip
    """One run of a client whose pipeline the test plays."""
    clock = ManualClock(NOW_MS)
    transport = PlayedTransport(clock, reply)
    async with Client(transport, keyring().validator_public(), options or Options(), clock) as client:
        yield client.run(principal or token(), **run), transport, clock


async def pass_time(clock: ManualClock, seconds: float) -> None:
    """Time passes in steps that are short beside everything that the SDK waits for."""
    for _ in range(round(seconds * 10)):
        await clock.advance(0.1)
        for _ in range(5):
            await asyncio.sleep(0)
