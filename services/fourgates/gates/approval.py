"""The fold of the approvals log, one hold: what people said, counted once, the same for waiter, service and command line.

A fold looks at nothing but entries, their order and their broker time. Void entries change nothing, the first terminal entry
wins, and whoever acts on a hold acts on what the fold says after reading back, never on what they appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from fourgates.contract.avro_beginning import RequestedBeginning
from fourgates.contract.events import ApprovalEvent, ApprovalKind, Decided, Held, HoldReason
from fourgates.contract.parts import Principal, ref_of
from fourgates.contract.ports import Envelope, Verifier
from fourgates.contract.seals import gates_needed, verdicts_fit
from fourgates.gates.hold import OPEN, Binding, HoldState, HoldStatus, alike, binding_of
from fourgates.gates.hold_states import HoldStates

__all__ = [
    "OPEN", "ApprovalFold", "Binding", "HoldChange", "HoldState", "HoldStatus", "Objection", "alike", "binding_of", "fold_hold",
    "objection_to", "objection_to_person", "proven_by",
]  # fmt: skip

_STANDING = OPEN | {HoldStatus.APPROVED}


class Objection(StrEnum):
    """Why a decision does not count."""

    NOT_A_PERSON = "not_a_person"
    OTHER_TENANT = "other_tenant"
    WRONG_GROUP = "wrong_group"
    REQUESTER = "requester"
    ENDED = "ended"
    NOT_REQUESTED = "not_requested"
    SHOWN_DIFFERS = "shown_differs"
    EXPIRED = "expired"
    UNKNOWN_VERDICT = "unknown_verdict"
    NOT_APPROVABLE = "not_approvable"
    TOO_EARLY = "too_early"
    ALREADY_COUNTED = "already_counted"


@dataclass(frozen=True, slots=True)
class HoldChange:
    """One entry's doing. `before` is `after` where it was void; both are None where no hold is known."""

    before: HoldState | None
    after: HoldState | None
    hold_id: str

    @property
    def counted(self) -> bool:
        return self.before is not self.after

    @property
    def ended(self) -> bool:
        """True where this very entry ended the hold."""
        return self.counted and self.before is not None and self.after is not None and not self.after.open


def objection_to_person(hold: HoldState, who: Principal) -> Objection | None:
    """Why this person may not decide on this hold, whatever they say; None where they may."""
    if who.agent or who.service or not who.person:
        return Objection.NOT_A_PERSON
    if who.tenant != hold.tenant:
        return Objection.OTHER_TENANT
    if hold.group not in who.groups:
        return Objection.WRONG_GROUP
    return Objection.REQUESTER if who.person == hold.asker else None


def objection_to(hold: HoldState, said: Decided, at_ms: int) -> Objection | None:
    """Why this decision, appended at `at_ms`, does not count; None where it does."""
    if (not_them := objection_to_person(hold, said.principal)) is not None:
        return not_them
    if not hold.open:
        return Objection.ENDED
    if hold.status is not HoldStatus.REQUESTED:
        return Objection.NOT_REQUESTED
    if said.shown_digest != hold.shown_digest:
        return Objection.SHOWN_DIFFERS
    if hold.expires_ms is not None and at_ms >= hold.expires_ms:
        return Objection.EXPIRED
    return _objection_to_verdict(hold, said, at_ms)


def _objection_to_verdict(hold: HoldState, said: Decided, at_ms: int) -> Objection | None:
    if said.verdict not in (("committed", "not_applied") if hold.in_doubt else ("approve", "deny")):
        return Objection.UNKNOWN_VERDICT
    if said.verdict == "not_applied" and at_ms < hold.not_before_ms:
        return Objection.TOO_EARLY
    if said.verdict == "approve" and not hold.approvable:
        return Objection.NOT_APPROVABLE
    if said.verdict == "approve" and said.principal.person in hold.approvers:
        return Objection.ALREADY_COUNTED
    return None


def _decided(hold: HoldState, said: Decided, at_ms: int) -> HoldState:
    person = said.principal.person
    if hold.in_doubt:
        return hold._replace(status=HoldStatus.RESOLVED, verdict=said.verdict, ended_by=person, ended_ms=at_ms)
    if said.verdict == "deny":
        return hold._replace(status=HoldStatus.DENIED, ended_by=person, ended_ms=at_ms)
    approvers = (*hold.approvers, person)
    if len(approvers) < hold.quorum:
        return hold._replace(approvers=approvers)
    return hold._replace(status=HoldStatus.APPROVED, approvers=approvers, ended_by=person, ended_ms=at_ms)


def fold_hold(hold: HoldState, entry: ApprovalEvent | RequestedBeginning, at_ms: int) -> HoldState:
    """The next state of a known hold; the same object where the entry is void. `at_ms` is the broker's time of the entry."""
    if not hold.open or entry.call_id != hold.call_id:
        return hold
    match entry.kind:
        case ApprovalKind.REQUESTED if entry.requested is not None and hold.status is HoldStatus.HELD:
            seen = entry.requested
            return hold._replace(
                status=HoldStatus.REQUESTED, requested_ms=at_ms, shown_digest=seen.shown_digest,
                preview_digest=seen.preview_digest, approvable=seen.approvable,
            )  # fmt: skip
        case ApprovalKind.DECIDED if entry.decided is not None and objection_to(hold, entry.decided, at_ms) is None:
            return _decided(hold, entry.decided, at_ms)
        case ApprovalKind.EXPIRED if hold.expires_ms is not None and at_ms >= hold.expires_ms:
            return hold._replace(status=HoldStatus.EXPIRED, ended_ms=at_ms)
        case ApprovalKind.WITHDRAWN:
            return hold._replace(status=HoldStatus.WITHDRAWN, ended_ms=at_ms)
    return hold


def proven_by(verifier: Verifier) -> Callable[[Envelope], bool]:
    """Whether a Held carries the seals of the gates that its call passed: the executor also holds what people cleared."""

    def proven(envelope: Envelope) -> bool:
        held: Held = envelope.record.held
        if envelope.writer != "executor":
            return verdicts_fit(verifier, held.call, held.verdicts, gates_needed(held=False), envelope.time_ms)
        # The executor passes on what the call was cleared by, and judged it then.
        return any(verdicts_fit(verifier, held.call, held.verdicts, gates_needed(asked)) for asked in (False, True))

    return proven


class ApprovalFold:
    """The states of all holds of some approvals partitions, kept by reading each partition once, in order.

    `proven` says whether a Held counts at all; everybody who folds must ask the same.
    """

    def __init__(self, proven: Callable[[Envelope], bool]) -> None:
        self._proven = proven
        self._holds = HoldStates()
        self._next: dict[int, int] = {}

    def apply(self, envelope: Envelope) -> HoldChange:
        """Folds one entry; an offset below the next expected one was folded before and is left alone."""
        entry, where = envelope.record, envelope.position
        hold_id: str = entry.event_id if entry.kind is ApprovalKind.HELD else entry.hold_id
        before = self._holds.get(hold_id)
        if where.offset < self._next.get(where.partition, 0):
            return HoldChange(before, before, hold_id)
        self._next[where.partition] = where.offset + 1
        after = self._held(envelope) if before is None else fold_hold(before, entry, envelope.time_ms)
        if after is not None and after is not before:
            self._holds.put(after)
        return HoldChange(before, after, hold_id)

    def hold(self, hold_id: str) -> HoldState | None:
        return self._holds.get(hold_id)

    def of_call(self, call_id: str) -> tuple[HoldState, ...]:
        """All holds of a call, oldest first."""
        return self._holds.of_call(call_id)

    def knows(self, call_id: str) -> bool:
        """Whether there is any hold of that call."""
        return self._holds.knows(call_id)

    def open_holds(self) -> Iterator[HoldState]:
        """Those that people may still decide, oldest first."""
        return self._holds.open()

    def __iter__(self) -> Iterator[HoldState]:
        return iter(self._holds)

    def __len__(self) -> int:
        return len(self._holds)

    def _held(self, envelope: Envelope) -> HoldState | None:
        entry, held = envelope.record, envelope.record.held
        if entry.kind is not ApprovalKind.HELD or held is None or held.call.call_id != entry.call_id:
            return None
        if not self._proven(envelope):
            return None
        binding = binding_of(held).digest
        standing = next((h for h in self.of_call(entry.call_id) if h.binding == binding and h.status in _STANDING), None)
        return HoldState(
            hold_id=entry.event_id, call_id=entry.call_id, position=envelope.position, held_ms=envelope.time_ms,
            status=HoldStatus.HELD if standing is None else HoldStatus.JOINED,
            joined_to="" if standing is None else standing.hold_id,
            reason=held.reason, binding=binding, about=ref_of(held.call), asker=held.call.principal.person,
            group=held.group, quorum=max(held.quorum, 1), not_before_ms=held.not_before_ms,
            expires_ms=None if held.reason is HoldReason.IN_DOUBT else held.expires_ms,
        )  # fmt: skip
