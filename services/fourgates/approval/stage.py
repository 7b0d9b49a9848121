"""The waiter: turns a held call into a question to people, waits, and clears or refuses by what the fold says.

Nothing that it appended itself counts for it before it has read it back; all its answers follow from the approvals log.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fourgates.catalog import Catalog, Tool
from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import ApprovalEvent, ApprovalKind, Held, LedgerKind
from fourgates.contract.parts import Call
from fourgates.contract.ports import Clock, Emit, Envelope, Following, Log, Verifier
from fourgates.contract.stage import BaseStage
from fourgates.contract.topology import APPROVALS, CALLS_LEDGER
from fourgates.gates.approval import ApprovalFold, HoldChange, HoldState, HoldStatus, proven_by
from fourgates.gates.control_view import ControlView
from fourgates.gates.ledger import CallState, Change, LedgerFold, Phase, conflicts
from fourgates.gates.preview import Previewed, take_preview

from .due import Due
from .emits import STAGE, Emits
from .hopeless import CALL_ENDED, OTHER_CALL, Hopeless, told_for
from .settings import WaiterSettings
from .shown import shown_of

UNPROVEN = "the seals of the gates before it do not fit the call, or it belongs to no call"
_ENDS_NOTHING = frozenset({LedgerKind.PENDING, LedgerKind.REPLAYED, LedgerKind.BARRIER})
"""Ledger entries that are void for every state: most of the log where many calls wait, and not worth decoding."""
_AT_A_TIME = 500


@dataclass(frozen=True, slots=True)
class WaiterPorts:
    """What the waiter needs of the world."""

    log: Log
    clock: Clock
    verifier: Verifier


class Folded(NamedTuple):
    """What an entry did, and how many holds of the same agent were open after it."""

    change: HoldChange
    waiting: int


class WaiterStage(BaseStage):
    """Follows the approvals of its partitions, the ledger of the same ones to see which calls have ended, and the controls."""

    name = STAGE
    reads = APPROVALS
    restores = restores_briefly = True

    def __init__(self, catalog: Catalog, ports: WaiterPorts, emits: Emits, settings: WaiterSettings) -> None:
        self._catalog, self._log, self._clock = catalog, ports.log, ports.clock
        self._emits, self._settings = emits, settings
        self._proven = proven_by(ports.verifier)
        self._controls = ControlView(ports.log, self._on_control)
        self._hopeless = Hopeless(catalog, self._controls, settings)
        self._following: Following | None = None
        self._forget()

    def _forget(self) -> None:
        self._holds = ApprovalFold(self._proven)
        self._ledger = LedgerFold(watch=self._on_ledger)
        self._due = Due(self._settings.repeat_s)
        self._waiting: Counter[tuple[str, str]] = Counter()
        self._switched = False

    async def start(self) -> None:
        await self._controls.start()

    async def close(self) -> None:
        await self._controls.close()

    async def assigned(self, partitions: Sequence[int]) -> None:
        """Learns from the ledger which calls have ended, before any hold of them is looked at."""
        self._forget()
        self._following = await self._log.follow(
            CALLS_LEDGER, self._read_ledger, partitions, wanted=lambda kind, call_id: kind not in _ENDS_NOTHING
        )
        await self._following.reached_end()

    async def revoked(self) -> None:
        if self._following is not None:
            await self._following.close()
            self._following = None
        self._forget()

    def _read_ledger(self, envelope: Envelope) -> None:
        self._ledger.apply(envelope)

    def _on_ledger(self, envelope: Envelope, change: Change) -> None:
        if change.counted and change.after.phase is Phase.FINAL:
            for hold in self._holds.of_call(envelope.record.call_id):
                self._due.look(hold.hold_id)

    def _on_control(self) -> None:
        self._switched = True

    def fold(self, envelope: Envelope) -> Folded:
        change = self._holds.apply(envelope)
        hold = change.after
        if hold is None:
            return Folded(change, 0)
        if change.counted:
            self._noted(change, hold)
        return Folded(change, self._waiting[hold.whose])

    def _noted(self, change: HoldChange, hold: HoldState) -> None:
        counts = not hold.in_doubt  # an agent does not choose its doubts
        if change.before is None and hold.open:
            self._waiting[hold.whose] += counts
            if hold.expires_ms is not None:
                self._due.at(hold.expires_ms, hold.hold_id)
        elif change.ended:
            self._waiting[hold.whose] -= counts
            self._due.done(hold.hold_id)
        elif self._call(hold).phase is Phase.FINAL or (counts and self._hopeless.by_now(hold)):
            self._due.look(hold.hold_id)

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        folded: Folded = envelope.folded
        change, hold = folded.change, folded.change.after
        if hold is None:
            raise Poison("bad_held", UNPROVEN) if envelope.record.kind is ApprovalKind.HELD else Poison("unknown_hold")
        if envelope.record.kind is ApprovalKind.HELD:
            opened = change.counted and hold.status is HoldStatus.HELD
            return await (self._opened(envelope, hold, folded.waiting) if opened else self._asked_again(envelope, hold))
        return await self._ended(envelope, hold) if change.ended else ()

    async def _opened(self, envelope: Envelope, hold: HoldState, waiting: int) -> Sequence[Emit]:
        """A new question: preview, Requested, and Pending for the asker; nothing of it where no answer could help."""
        if not hold.in_doubt:
            word = OTHER_CALL if self._conflicts(hold) else self._hopeless.from_the_start(hold, waiting)
            if word:
                return (self._emits.withdrawn(hold, word),)
        tool = self._tool(envelope.record.held.call)
        timeout_s = self._settings.preview_timeout_s
        previewed = await take_preview(tool, envelope.record.held.call, timeout_s) if tool else Previewed()
        if self._call(hold).phase is Phase.FINAL:
            return (self._emits.withdrawn(hold, CALL_ENDED),)
        requested = self._emits.requested(envelope, shown_of(envelope.record, tool, previewed, self._settings.shown_bytes))
        # To be told "a person decides, it has not run" would be a lie about a call in doubt.
        return (requested,) if hold.in_doubt else (requested, self._emits.pending(envelope, hold.hold_id))

    async def _asked_again(self, envelope: Envelope, hold: HoldState) -> Sequence[Emit]:
        """A further Held of a call that people were asked about already: the asker hears how that stands."""
        asked = self._holds.hold(hold.joined_to) if hold.joined_to else hold
        assert asked is not None
        if asked.in_doubt:
            return ()  # the executor itself says that it is in doubt
        if self._call(hold).phase is Phase.FINAL:
            return (self._emits.replayed(envelope, hold),)
        if asked.status is HoldStatus.APPROVED:
            return (self._emits.cleared(envelope, await self._held(asked), asked),)
        over = asked.expires_ms is not None and self._clock.now_ms() >= asked.expires_ms  # it is about to be told so
        return (self._emits.pending(envelope, asked.hold_id),) if asked.open and not over else ()

    async def _ended(self, envelope: Envelope, hold: HoldState) -> Sequence[Emit]:
        match hold.status:
            case HoldStatus.APPROVED:
                return (self._emits.cleared(envelope, await self._held(hold), hold),)
            case HoldStatus.RESOLVED:
                return (self._emits.resolved(envelope, await self._held(hold), hold),)
            case HoldStatus.DENIED:
                return (self._emits.refused(envelope, hold, Code.APPROVAL_DENIED),)
            case HoldStatus.EXPIRED:
                return (self._emits.refused(envelope, hold, Code.APPROVAL_EXPIRED),)
        reason: str = envelope.record.reason
        if reason != CALL_ENDED:
            return (self._emits.refused(envelope, hold, told_for(reason), reason),)
        return (self._emits.replayed(envelope, hold),) if self._ended_before_asked(hold) else ()

    async def tick(self) -> Sequence[Emit]:
        """Expired and Withdrawn, said until the fold shows that they counted: clocks run fast, processes die."""
        if self._switched:
            await self._look_at_all()
        emitted: list[ApprovalEvent] = []
        now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
        for hold_id in self._due.take(now_ms, monotonic):
            hold = self._holds.hold(hold_id)
            entry = self._overdue(hold, now_ms) if hold is not None else None
            if entry is None:
                self._due.done(hold_id)
            else:
                self._due.said(hold_id, monotonic)
                emitted.append(entry)
        return emitted

    async def _look_at_all(self) -> None:
        """Something was switched off, or on: what cannot run any more is not left to people. In slices, for there are many."""
        self._switched = False
        for number, hold in enumerate(self._holds.open_holds()):
            if not hold.in_doubt and self._hopeless.by_now(hold):
                self._due.look(hold.hold_id)
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)

    def _overdue(self, hold: HoldState, now_ms: int) -> ApprovalEvent | None:
        if not hold.open:
            return None
        if self._call(hold).phase is Phase.FINAL:
            return self._emits.withdrawn(hold, CALL_ENDED)
        if not hold.in_doubt and (word := self._hopeless.by_now(hold)):
            return self._emits.withdrawn(hold, word)
        expired = hold.expires_ms is not None and now_ms >= hold.expires_ms
        return self._emits.expired(hold) if expired else None

    def _call(self, hold: HoldState) -> CallState:
        return self._ledger.state(hold.call_id, self._clock.now_ms())

    def _conflicts(self, hold: HoldState) -> bool:
        """Whether the key stands for another call: in the ledger, or in what people are asked or have approved already."""
        about = hold.about
        if conflicts(self._call(hold), about.tool, about.args_digest):
            return True
        earlier = (other for other in self._holds.of_call(hold.call_id) if other.open or other.status is HoldStatus.APPROVED)
        first = next(earlier, hold)
        return (first.about.tool, first.about.args_digest) != (about.tool, about.args_digest)

    def _ended_before_asked(self, hold: HoldState) -> bool:
        """Who asked about a call that had ended by then has missed its answer."""
        call = self._call(hold)
        return call.phase is Phase.FINAL and call.final_ms < (hold.requested_ms or hold.ended_ms + 1)

    def _tool(self, call: Call) -> Tool | None:
        tool = self._catalog.get(call.tool, call.tool_version)
        return tool if tool is not None and tool.version == call.tool_version else None

    async def _held(self, hold: HoldState) -> Held:
        """The hold's Held, read where it lies: of a hundred thousand waiting calls only the deciding parts are kept."""
        held = (await self._log.read_at(hold.position)).record.held
        assert isinstance(held, Held)
        return held
