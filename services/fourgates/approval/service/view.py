"""The service's own view of the approvals log: the fold, and the words behind it for people to read."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

from fourgates.contract.events import ApprovalEvent, ApprovalKind
from fourgates.contract.parts import Principal, Risk
from fourgates.contract.ports import Envelope, Following, Log
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import ApprovalFold, HoldChange, HoldState, Objection, alike, objection_to_person


@dataclass(frozen=True, slots=True)
class Said:
    """One decision as it stands in the log."""

    person: str
    verdict: str
    reason: str
    tell_model: bool
    at_ms: int
    counted: bool


@dataclass(slots=True)
class HoldView:
    """Everything about one hold that a person may read. Many are kept, for as long as the log: what is shown lies packed."""

    state: HoldState
    risk: Risk
    alike: str
    """The same for holds that are shown as one group."""
    instead_of: str
    """The hold whose yes did not cover any more what the call would have done."""
    packed: bytes = b""
    """What people see, byte for byte; empty until they are asked."""
    requested_id: str = ""
    requested_at: int = -1
    """Offset of the Requested."""
    withdrawn: str = ""
    """Why it was withdrawn, a word of the waiter's."""
    words: dict[str, Said] | None = None
    """What people said, by the record's event_id: one that lands twice was said once."""

    @property
    def asked(self) -> bool:
        """Whether people are shown anything of it."""
        return bool(self.packed)

    @property
    def text(self) -> str:
        """What people see, as the text whose digest a decision names."""
        return zlib.decompress(self.packed).decode()

    @property
    def shown(self) -> Mapping[str, Any]:
        """What people see, as data; only to be asked for once there is a Requested."""
        return _shown(self.packed)

    @property
    def said(self) -> tuple[Said, ...]:
        return tuple((self.words or {}).values())


@lru_cache(maxsize=1_024)
def _shown(packed: bytes) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(zlib.decompress(packed)))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the fold made of a record that somebody waited for."""

    change: HoldChange
    time_ms: int


def may_see(hold: HoldState, who: Principal) -> bool:
    """Only the tenant and the group that could decide; the person who asked may look, not decide."""
    return objection_to_person(hold, who) in (None, Objection.REQUESTER)


class ApprovalView:
    """Follows all approvals. Everything that the service says comes from here."""

    def __init__(self, log: Log, proven: Callable[[Envelope], bool]) -> None:
        self._log = log
        self._fold = ApprovalFold(proven)
        self._views: dict[str, HoldView] = {}
        self._awaited: dict[str, asyncio.Future[Seen]] = {}
        self._listeners: WeakSet[_Listener] = WeakSet()
        self._following: Following | None = None
        self.ready = False

    async def start(self) -> None:
        """Returns once everything that is in the log has been read."""
        self._following = await self._log.follow(APPROVALS, self._take)
        await self._following.reached_end()
        self.ready = True

    async def close(self) -> None:
        self.ready = False
        for listener in self._listeners:
            listener.end()
        if self._following is not None:
            await self._following.close()

    def _take(self, envelope: Envelope) -> None:
        change = self._fold.apply(envelope)
        entry: ApprovalEvent = envelope.record
        if change.after is not None:
            self._note(envelope, change, change.after)
        if (waiting := self._awaited.pop(entry.event_id, None)) is not None and not waiting.done():
            waiting.set_result(Seen(change, envelope.time_ms))
        if change.counted:
            for listener in self._listeners:
                listener.tell(change.hold_id)

    def _note(self, envelope: Envelope, change: HoldChange, state: HoldState) -> None:
        entry: ApprovalEvent = envelope.record
        offset, time_ms = envelope.position.offset, envelope.time_ms
        view = self._views.get(state.hold_id)
        if view is None:
            assert entry.held is not None  # a hold is first known by its Held
            held = entry.held
            view = self._views[state.hold_id] = HoldView(state, held.call.risk, alike(held), held.instead_of)
        view.state = state
        if entry.kind is ApprovalKind.REQUESTED and change.counted:
            assert entry.requested is not None  # it counted
            view.packed = zlib.compress(entry.requested.shown.encode())
            view.requested_id, view.requested_at = entry.event_id, offset
        elif entry.kind is ApprovalKind.WITHDRAWN and change.counted:
            view.withdrawn = entry.reason
        elif entry.kind is ApprovalKind.DECIDED and entry.decided is not None:
            said = entry.decided
            words = Said(said.principal.person, said.verdict, said.reason, said.tell_model, time_ms, change.counted)
            view.words = view.words or {}
            view.words.setdefault(entry.event_id, words)

    def find(self, hold_id: str) -> HoldView | None:
        return self._views.get(hold_id)

    def open_for(self, who: Principal) -> Iterator[HoldView]:
        """What people are asked about now and this person may see, oldest first."""
        return (self._views[hold.hold_id] for hold in self._fold.open_holds() if hold.shown_digest and may_see(hold, who))

    def ended_for(self, who: Principal) -> Iterator[HoldView]:
        """What people were asked about and are not asked any more, as far as this person may see it."""
        asked = (view for view in self._views.values() if view.state.ended_ms and view.asked)
        return (view for view in asked if may_see(view.state, who))

    def first_of(self, call_id: str, who: Principal) -> HoldView | None:
        """What people were asked about this call first, where this person may see it."""
        views = (self._views[hold.hold_id] for hold in self._fold.of_call(call_id))
        return next((view for view in views if view.asked and may_see(view.state, who)), None)

    @contextmanager
    def awaiting(self, event_id: str) -> Iterator[asyncio.Future[Seen]]:
        """What the fold makes of the record with this id, to be asked for before it is published."""
        future = self._awaited[event_id] = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            self._awaited.pop(event_id, None)
            future.cancel()

    def changes(self, who: Principal) -> AsyncIterator[str]:
        """Ids of holds of which something changes from this call on, for this person; ends with the service. Slow readers
        miss nothing: what changes several times meanwhile is told once."""
        listener = _Listener()
        self._listeners.add(listener)  # forgotten with the iterator, also where nobody ever asks it

        async def told() -> AsyncIterator[str]:
            async for hold_id in listener:
                if may_see(self._views[hold_id].state, who):
                    yield hold_id

        return told()


class _Listener:
    """What one reader has not been told yet."""

    def __init__(self) -> None:
        self._news: dict[str, None] = {}
        self._arrived = asyncio.Event()
        self._ended = False

    def tell(self, hold_id: str) -> None:
        self._news[hold_id] = None
        self._arrived.set()

    def end(self) -> None:
        self._ended = True
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        while not self._ended:
            await self._arrived.wait()
            self._arrived.clear()
            while self._news and not self._ended:
                hold_id = next(iter(self._news))
                del self._news[hold_id]
                yield hold_id
