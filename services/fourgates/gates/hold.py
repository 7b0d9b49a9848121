"""What is known of one hold: a question to people about one call, and how it stands."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fourgates.contract.events import Held, HoldReason
from fourgates.contract.ids import length_prefixed
from fourgates.contract.parts import CallRef, EffectClaim
from fourgates.contract.ports import Position


def _digest(*parts: str) -> str:
    return hashlib.sha256(length_prefixed(parts)).hexdigest()[:32]


class HoldStatus(StrEnum):
    HELD = "held"
    REQUESTED = "requested"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    RESOLVED = "resolved"
    JOINED = "joined"


OPEN = frozenset({HoldStatus.HELD, HoldStatus.REQUESTED})
_CLEARANCE = "clearance"


@dataclass(frozen=True, slots=True)
class Binding:
    """What a yes is about. Holds of one call with the same binding are one question; a further one joins the first."""

    about: str
    """`clearance`, `near_duplicate` or `in_doubt`: a yes to one of them answers no other."""
    args_digest: str
    supersedes: tuple[EffectClaim, ...] = ()
    claim_id: str = ""
    attempts: int = 0
    instead_of: str = ""
    """The hold whose yes did not cover what the call would have done any more; it answers this question neither."""

    @property
    def digest(self) -> str:
        """32 hex digits: many holds are kept, and all that is asked of a binding is whether it is the same.

        Of the plain question, whether this call may run, they are those of its arguments.
        """
        if self.about == _CLEARANCE and not (self.supersedes or self.claim_id or self.attempts or self.instead_of):
            return self.args_digest[:32]
        claims = "".join(f" {claim.call_id}/{claim.fence}" for claim in self.supersedes)
        return _digest(self.about, self.args_digest, claims, self.claim_id, str(self.attempts), self.instead_of)


def binding_of(held: Held) -> Binding:
    """What a yes to this hold would be about."""
    args_digest = held.call.args_digest
    match held.reason:
        case HoldReason.NEAR_DUPLICATE:
            return Binding("near_duplicate", args_digest, supersedes=held.supersedes, instead_of=held.instead_of)
        case HoldReason.IN_DOUBT:
            return Binding("in_doubt", args_digest, claim_id=held.claim_id, attempts=held.attempts)
    return Binding(_CLEARANCE, args_digest, instead_of=held.instead_of)


def alike(held: Held) -> str:
    """A name for holds that ask the same of the same people: one agent's equal calls. They are shown as one group.

    People still decide about each call by itself; the name is no part of what they sign.
    """
    call, who = held.call, held.call.principal
    return _digest(who.tenant, who.agent or who.subject, call.tool, call.args_digest, held.reason.value, held.group)


class HoldState(NamedTuple):
    """What the entries so far say about one hold. A named tuple, quickly made: at start a fold makes two of each hold."""

    hold_id: str
    call_id: str
    position: Position
    """Where its Held lies: the call and its seals are read there when they are needed again."""
    held_ms: int
    status: HoldStatus
    reason: HoldReason
    binding: str
    """`Binding.digest` of what a yes is about."""
    about: CallRef
    """The call in short."""
    asker: str
    """The person who asked for the call; their own word never counts."""
    group: str
    quorum: int
    expires_ms: int | None
    """Broker time; None: never (in doubt)."""
    not_before_ms: int
    joined_to: str = ""
    requested_ms: int = 0
    shown_digest: str = ""
    preview_digest: str = ""
    approvable: bool = True
    approvers: tuple[str, ...] = ()
    """Distinct persons who said yes, in the order in which they did."""
    verdict: str = ""
    """Resolved: committed or not_applied."""
    ended_by: str = ""
    """The person whose word ended it; empty where time or the ledger did."""
    ended_ms: int = 0

    @property
    def open(self) -> bool:
        return self.status in OPEN

    @property
    def in_doubt(self) -> bool:
        return self.reason is HoldReason.IN_DOUBT

    @property
    def tenant(self) -> str:
        return self.about.tenant

    @property
    def whose(self) -> tuple[str, str]:
        """Tenant and agent; without an agent the account. How much may wait is bounded for each."""
        return self.about.tenant, self.about.agent or self.about.subject
