"""What the API answers, as models: the answers and the OpenAPI document are made of the same."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Principal, Risk
from fourgates.gates.approval import HoldStatus, objection_to_person

from .deciding import ending
from .view import HoldView


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HoldSummary(_Answer):
    """A hold in a list. Times are ms since the epoch, broker time."""

    hold_id: str
    call_id: str
    state: HoldStatus
    reason: HoldReason
    tool: str
    risk: Risk
    target: str | None = Field(description="by the tool's preview; null where there is none")
    amount: str
    asked_by: str
    agent: str
    alike: str = Field(description="the same for equal calls of one agent; each is decided by itself")
    group: str = Field(description="who may decide")
    quorum: int = Field(description="how many persons must say yes")
    approvers: list[str] = Field(description="who has said yes")
    approvable: bool = Field(description="false: what it would do cannot be shown, it can only be denied")
    held_ms: int
    expires_ms: int | None = Field(description="null: never (in doubt)")
    not_before_ms: int = Field(description="before this, not_applied does not count")
    may_decide: bool = Field(description="false: this person may only look")
    verdict: str = Field(description="of a call in doubt, once it is resolved")
    ended_ms: int
    ended_by: str
    ended: str = Field(description="how it ended, in words; empty while it is open")


class Said(_Answer):
    """One decision as it stands in the log."""

    person: str
    verdict: str
    reason: str
    tell_model: bool
    at_ms: int
    counted: bool


class HoldWhole(HoldSummary):
    """A hold with what people are shown."""

    shown: str = Field(description="RFC 8785 JSON text of everything that a decision is about; parse it without rounding")
    shown_digest: str = Field(description="its sha256, which a decision has to name")
    decisions: list[Said]


class Holds(_Answer):
    """Open holds, the most pressing first: by risk, in doubt first, then by the time that is left."""

    holds: list[HoldSummary]
    next: str | None = Field(description="`after` of the next page; null: this is the last")
    waiting: int = Field(description="how many wait in all")


class Ended(_Answer):
    """Ended holds, newest first."""

    holds: list[HoldWhole]
    before: int | None = Field(description="`before` of the next page; null: this is the last")


class Told(_Answer):
    """What became of a decision, or why a request was refused."""

    outcome: str = Field(description="a word for programs: what the hold has become, or why the decision did not count")
    message: str = Field(description="a sentence for people")
    hold: HoldSummary | None


class Me(_Answer):
    """Who is asking."""

    person: str
    subject: str
    tenant: str
    groups: list[str]
    may_decide: bool = Field(description="false: the sign-in is too old for a decision")


class Changed(_Answer):
    """The data of an event of the stream."""

    hold_id: str
    type: Literal["hold"] = "hold"


def summary_of(view: HoldView, who: Principal) -> HoldSummary:
    return HoldSummary(**_summary(view, who))


def whole_of(view: HoldView, who: Principal) -> HoldWhole:
    """The hold with the exact text whose sha256 a decision has to name."""
    said = [
        Said(person=one.person, verdict=one.verdict, reason=one.reason, tell_model=one.tell_model, at_ms=one.at_ms,
             counted=one.counted)
        for one in view.said
    ]  # fmt: skip
    return HoldWhole(**_summary(view, who), shown=view.text, shown_digest=view.state.shown_digest, decisions=said)


def _summary(view: HoldView, who: Principal) -> dict[str, object]:
    shown, hold = view.shown, view.state
    preview = shown["preview"] or {}
    return {
        "hold_id": hold.hold_id, "call_id": hold.call_id, "state": hold.status, "reason": hold.reason,
        "tool": shown["tool"], "risk": view.risk, "target": preview.get("target"),
        "amount": preview.get("amount", ""), "asked_by": shown["asked_by"]["person"], "agent": shown["agent"],
        "alike": view.alike, "group": hold.group, "quorum": hold.quorum, "approvers": list(hold.approvers),
        "approvable": hold.approvable,
        "held_ms": hold.held_ms, "expires_ms": hold.expires_ms, "not_before_ms": hold.not_before_ms,
        "may_decide": objection_to_person(hold, who) is None, "verdict": hold.verdict, "ended_ms": hold.ended_ms,
        "ended_by": hold.ended_by, "ended": "" if hold.open else ending(hold, view.withdrawn),
    }  # fmt: skip
