"""The waiter: turns a held call into a question to people, waits, and clears or refuses by what the fold says.

Nothing that it appended itself counts for it before it has read it back; all its answers follow from the approvals log.
"""

from __future__ import annotations

from collections.abc import Sequence

from fourgates.catalog import Catalog, Tool
from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import ApprovalEvent, ApprovalKind, Held
from fourgates.contract.parts import Call
from fourgates.contract.ports import Clock, Emit, Envelope, Following, Log, Verifier
from fourgates.contract.stage import BaseStage
from fourgates.contract.topology import APPROVALS, CALLS_LEDGER
from fourgates.gates.approval import ApprovalFold, HoldChange, HoldState, HoldStatus, proven_by
from fourgates.gates.ledger import CallState, Change, LedgerFold, Phase
from fourgates.gates.preview import Previewed, take_preview

from .due import Due
from .emits import STAGE, Emits
from .settings import WaiterSettings
from .shown import shown_of

CALL_ENDED = "call_ended"
UNPROVEN = "the seals of the gates before it do not fit the call, or it belongs to no call"


class WaiterStage(BaseStage):
    """Follows the approvals of its partitions, and the ledger of the same ones to see which calls have ended."""

    name = STAGE
    reads = APPROVALS
    restores = True

    def __init__(
        self, catalog: Catalog, log: Log, clock: Clock, verifier: Verifier, emits: Emits, settings: WaiterSettings
    ) -> None:
        self._catalog, self._log, self._clock = catalog, log, clock
        self._emits, self._settings = emits, settings
        self._proven = proven_by(verifier)
        self._following: Following | None = None
        self._forget()

    def _forget(self) -> None:
        self._holds = ApprovalFold(self._proven)
        self._ledger = LedgerFold(watch=self._on_ledger)
        self._due = Due(self._settings.repeat_s)

    async def assigned(self, partitions: Sequence[int]) -> None:
        """Learns from the ledger which calls have ended, before any hold of them is looked at."""
        self._forget()
        self._following = await self._log.follow(CALLS_LEDGER, self._read_ledger, partitions)
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
                self._due.look(hold)

    def fold(self, envelope: Envelope) -> HoldChange:
        change = self._holds.apply(envelope)
        if change.counted and change.after is not None:
            self._due.look(change.after)
        return change

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        change: HoldChange = envelope.folded
        if change.after is None:
            raise Poison("bad_held", UNPROVEN) if envelope.record.kind is ApprovalKind.HELD else Poison("unknown_hold")
        if envelope.record.kind is ApprovalKind.HELD:
            opened = change.counted and change.after.status is HoldStatus.HELD
            return await self._opened(envelope, change.after) if opened else await self._asked_again(envelope, change.after)
        return await self._ended(envelope, change.after) if change.ended else ()

    async def _opened(self, envelope: Envelope, hold: HoldState) -> Sequence[Emit]:
        """A new question: preview, Requested, and Pending for the asker; nothing of it where the call has ended."""
        groups = self._settings.deciding_groups
        if groups is not None and hold.group not in groups and not hold.in_doubt:
            refused = self._emits.refused(envelope, envelope.record.held.call, hold, Code.APPROVAL_REQUIRED)
            return (refused, self._emits.withdrawn(hold, "nobody_can_decide"))
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
            return (self._emits.replayed(envelope, envelope.record.held.call),)
        if asked.status is HoldStatus.APPROVED:
            return (self._emits.cleared(envelope, await self._held(asked), asked),)
        return (self._emits.pending(envelope, asked.hold_id),) if asked.open else ()

    async def _ended(self, envelope: Envelope, hold: HoldState) -> Sequence[Emit]:
        held = await self._held(hold)
        if hold.status is HoldStatus.WITHDRAWN:
            missed = envelope.record.reason == CALL_ENDED and self._ended_before_asked(hold)
            return (self._emits.replayed(envelope, held.call),) if missed else ()
        match hold.status:
            case HoldStatus.APPROVED:
                return (self._emits.cleared(envelope, held, hold),)
            case HoldStatus.RESOLVED:
                return (self._emits.resolved(envelope, held, hold),)
            case HoldStatus.DENIED:
                said = envelope.record.decided
                return (self._emits.refused(envelope, held.call, hold, Code.APPROVAL_DENIED, said),)
        return (self._emits.refused(envelope, held.call, hold, Code.APPROVAL_EXPIRED),)

    async def tick(self) -> Sequence[Emit]:
        """Expired and Withdrawn, said until the fold shows that they counted: clocks run fast, processes die."""
        emitted: list[ApprovalEvent] = []
        now_ms, monotonic = self._clock.now_ms(), self._clock.monotonic()
        for hold_id in self._due.take(now_ms, monotonic):
            hold = self._holds.hold(hold_id)
            entry = self._overdue(hold, now_ms) if hold is not None else None
            if entry is None:
                self._due.nothing(hold_id)
            else:
                self._due.said(hold_id, monotonic)
                emitted.append(entry)
        return emitted

    def _overdue(self, hold: HoldState, now_ms: int) -> ApprovalEvent | None:
        if not hold.open:
            return None
        if self._call(hold).phase is Phase.FINAL:
            return self._emits.withdrawn(hold, CALL_ENDED)
        expired = hold.expires_ms is not None and now_ms >= hold.expires_ms
        return self._emits.expired(hold) if expired else None

    def _call(self, hold: HoldState) -> CallState:
        return self._ledger.state(hold.call_id, self._clock.now_ms())

    def _ended_before_asked(self, hold: HoldState) -> bool:
        """Who asked about a call that had ended by then has missed its answer."""
        call = self._call(hold)
        return call.phase is Phase.FINAL and call.final_ms < (hold.requested_ms or hold.ended_ms + 1)

    def _tool(self, call: Call) -> Tool | None:
        tool = self._catalog.get(call.tool)
        return tool if tool is not None and tool.version == call.tool_version else None

    async def _held(self, hold: HoldState) -> Held:
        """The hold's Held, read where it lies: of a hundred thousand waiting calls only the deciding parts are kept."""
        held = (await self._log.read_at(hold.position)).record.held
        assert isinstance(held, Held)
        return held
