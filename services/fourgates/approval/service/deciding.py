"""A person's decision: published, read back, and answered by what the fold made of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.contract import ids
from fourgates.contract.errors import Transient
from fourgates.contract.events import ApprovalEvent, ApprovalKind, Decided
from fourgates.contract.parts import Cause, Principal
from fourgates.contract.ports import Clock, Publisher
from fourgates.contract.topology import APPROVALS
from fourgates.gates.approval import HoldState, HoldStatus, Objection, objection_to

from .view import ApprovalView, HoldView, Seen


class Decision(BaseModel):
    """What a person sends. Strict: nothing is taken for a yes that is not the word itself."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    verdict: Literal["approve", "deny", "committed", "not_applied"]
    shown_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    reason: str = Field(default="", max_length=2_000)
    tell_model: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person is told."""

    status: int
    outcome: str
    """A word for programs: what the hold has become, or why the decision did not count."""
    message: str
    """A sentence for people."""

    @property
    def counted(self) -> bool:
        return self.status == 200


SIGN_IN_AGAIN = Answer(403, "sign_in_again", "Your sign-in is too old to decide with. Sign in again.")
_OBJECTIONS: dict[Objection, tuple[int, str]] = {
    Objection.NOT_A_PERSON: (403, "Only a person can decide, not an agent or a service."),
    Objection.OTHER_TENANT: (403, "This call is not yours to decide."),
    Objection.WRONG_GROUP: (403, "This call is not yours to decide."),
    Objection.REQUESTER: (403, "You asked for this call yourself, so somebody else has to decide."),
    Objection.NOT_REQUESTED: (409, "This call is still being prepared; nobody can decide on it yet."),
    Objection.SHOWN_DIFFERS: (409, "You decided on something else than what is asked. Look at it again."),
    Objection.EXPIRED: (410, "The time to decide is over; nothing will run."),
    Objection.UNKNOWN_VERDICT: (422, "This call cannot be answered with that word."),
    Objection.NOT_APPROVABLE: (409, "What this call would do cannot be shown, so it can only be denied."),
    Objection.TOO_EARLY: (409, "The last attempt may still take effect; it is too early to say that it did not."),
    Objection.ALREADY_COUNTED: (409, "You have approved this already; it takes another person."),
}
_ENDS: dict[HoldStatus, str] = {
    HoldStatus.APPROVED: "approved by {who}",
    HoldStatus.DENIED: "denied by {who}",
    HoldStatus.RESOLVED: "answered by {who}",
    HoldStatus.WITHDRAWN: "withdrawn, because {why}",
    HoldStatus.JOINED: "joined to an earlier question about the same call",
}


_WITHDRAWN = {
    "tool_version": "this version of the tool is gone", "run_stopped": "its run was stopped",
    "tool_disabled": "the tool was switched off", "agent_disabled": "the agent was switched off",
    "tenant_disabled": "the tenant was switched off",
}  # fmt: skip


def ending(hold: HoldState, withdrawn: str = "") -> str:
    """How a hold ended, in words. `withdrawn`: the waiter's word for why."""
    if hold.status is HoldStatus.EXPIRED:
        return "expired, because nobody decided in time"
    why = _WITHDRAWN.get(withdrawn, "the call has ended otherwise")
    return _ENDS[hold.status].format(who=", ".join(hold.approvers) or hold.ended_by, why=why)


def _counted(hold: HoldState) -> Answer:
    match hold.status:
        case HoldStatus.APPROVED:
            return Answer(200, "approved", "Approved. The call may run now, once.")
        case HoldStatus.DENIED:
            return Answer(200, "denied", "Denied. The call will not run.")
        case HoldStatus.RESOLVED:
            return Answer(200, "resolved", f"Noted: {hold.verdict.replace('_', ' ')}.")
    more = hold.quorum - len(hold.approvers)
    return Answer(200, "counted", f"Your yes is counted. It takes {more} more.")


def _lost(hold: HoldState, why: Objection, withdrawn: str) -> Answer:
    if why is Objection.ENDED:
        status = 410 if hold.status is HoldStatus.EXPIRED else 409
        return Answer(status, hold.status.value, f"Your decision did not count: this was already {ending(hold, withdrawn)}.")
    status, message = _OBJECTIONS[why]
    return Answer(status, why.value, message)


class Deciding:
    """Takes decisions to the log and tells what became of them."""

    def __init__(self, view: ApprovalView, publisher: Publisher, clock: Clock, producer: str, confirm_s: float) -> None:
        self._view, self._publisher, self._clock = view, publisher, clock
        self._producer, self._confirm_s = producer, confirm_s

    def now_ms(self) -> int:
        """The clock that decisions are looked at by, before the broker's counts."""
        return self._clock.now_ms()

    async def decide(self, who: Principal, view: HoldView, decision: Decision) -> Answer:
        """Says that it counts only where the fold of the log says so."""
        said = Decided(
            verdict=decision.verdict, shown_digest=decision.shown_digest, principal=who, reason=decision.reason,
            tell_model=decision.tell_model,
        )  # fmt: skip
        if (why := objection_to(view.state, said, self._clock.now_ms())) is not None:
            return _lost(view.state, why, view.withdrawn)
        seen = await self._say(view, said)
        if isinstance(seen, Answer):
            return seen
        before, after = seen.change.before, seen.change.after
        assert before is not None  # it was requested, so the fold knows it
        assert after is not None
        if seen.change.counted:
            return _counted(after)
        return _lost(before, objection_to(before, said, seen.time_ms) or Objection.ENDED, view.withdrawn)

    async def _say(self, view: HoldView, said: Decided) -> Seen | Answer:
        hold = view.state
        record = ApprovalEvent(
            event_id=ids.random_id(), producer=self._producer, kind=ApprovalKind.DECIDED,
            cause=Cause(event_id=view.requested_id, topic=APPROVALS, partition=hold.position.partition, offset=view.requested_at),
            hold_id=hold.hold_id, call_id=hold.call_id, decided=said,
        )  # fmt: skip
        with self._view.awaiting(record.event_id) as seen:
            try:
                async with asyncio.timeout(self._confirm_s):
                    await self._publisher.publish(record)
                    return await seen
            except (TimeoutError, Transient):
                message = "The log has not shown your decision yet; it may not have arrived. Look again before you repeat it."
                return Answer(503, "not_confirmed", message)
