"""Follows the approvals and tells people: level-triggered, so that a crash at any point costs at most one notice told twice."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

import httpx

from fourgates.contract.events import ApprovalKind
from fourgates.contract.ports import Clock, Envelope, Following, Log
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import ApprovalFold, HoldState

from .journal import Journal
from .schedule import due, notice_id, times_of
from .sending import Line
from .settings import Hook, NoticeKind, NoticeSettings
from .wording import Notice

_LOOK_S = 0.5


class Notifier:
    """At least once for each receiver, with an id that stays the same. One process should do it, where several could.

    Every look asks of a hold what is to be told now, and whether that was told; nothing has to be remembered between looks.
    """

    def __init__(
        self, log: Log, proven: Callable[[Envelope], bool], clock: Clock, http: httpx.AsyncClient, journal: Journal,
        settings: NoticeSettings,
    ) -> None:  # fmt: skip
        self._log, self._clock, self._http, self._journal, self._settings = log, clock, http, journal, settings
        self._page = settings.page.rstrip("/")
        self._fold = ApprovalFold(proven)
        self._times: list[tuple[int, str]] = []
        self._under_way: set[str] = set()
        self._lines: list[Line] = []
        self._following: Following | None = None
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Notifier:
        self._lines = [
            Line(hook, self._settings, self._http, self._clock, self._wanted, self._done) for hook in self._settings.hooks
        ]
        self._following = await self._log.follow(APPROVALS, self._take)
        await self._following.reached_end()
        self._journal.keep([
            mark for hold in self._fold.open_holds() for kind in NoticeKind for mark in self._marks(hold.hold_id, kind)
        ])  # fmt: skip
        self._task = asyncio.create_task(self._looks())
        return self

    async def __aexit__(self, *fault: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for line in self._lines:
            await line.close()
        if self._following is not None:
            await self._following.close()
        self._journal.close()

    def _take(self, envelope: Envelope) -> None:
        change = self._fold.apply(envelope)
        if change.counted and change.after is not None and envelope.record.kind is ApprovalKind.REQUESTED:
            for at_ms in times_of(change.after, self._settings).values():
                heapq.heappush(self._times, (at_ms, change.after.hold_id))

    async def _looks(self) -> None:
        while True:
            now_ms = self._clock.now_ms()
            while self._times and self._times[0][0] <= now_ms:
                if (hold := self._fold.hold(heapq.heappop(self._times)[1])) is not None:
                    self._tell(hold, now_ms)
            await self._clock.sleep(_LOOK_S)

    def _tell(self, hold: HoldState, now_ms: int) -> None:
        for line in self._lines:
            hook = line.hook
            kind = due(hold, self._settings, now_ms, hook.kinds) if hook.may_hear(hold.tenant, hold.group) else None
            if kind is None or (mark := _mark(hook, hold.hold_id, kind)) in self._under_way or self._journal.told(mark):
                continue
            self._under_way.add(mark)
            line.put(Notice(hold, kind, self._page))

    def _wanted(self, hook: Hook, notice: Notice) -> bool:
        """Not where the hold has ended, nor where a later notice of it has become due, which is sent by itself."""
        hold = self._fold.hold(notice.hold.hold_id)
        return hold is not None and due(hold, self._settings, self._clock.now_ms(), hook.kinds) is notice.kind

    def _done(self, hook: Hook, notice: Notice, arrived: bool) -> None:
        mark = _mark(hook, notice.hold.hold_id, notice.kind)
        self._under_way.discard(mark)
        if arrived:
            self._journal.note(mark)

    def _marks(self, hold_id: str, kind: NoticeKind) -> list[str]:
        return [_mark(hook, hold_id, kind) for hook in self._settings.hooks]


def _mark(hook: Hook, hold_id: str, kind: NoticeKind) -> str:
    """One receiver's copy of a notice. Its address stands for the receiver, without what may be secret in it."""
    return notice_id(f"{hold_id} {hook.url} {hook.tenant}", kind)
