"""In which order people see holds, which of them are one question asked several times, and how the past is searched."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from fourgates.approval.visible import as_text
from fourgates.contract.parts import Principal
from fourgates.gates.approval import objection_to_person

from .view import HoldView

_RISKS = ("destructive", "write", "read")
_NEVER = 1 << 62


def pressing(view: HoldView) -> tuple[int, bool, int, int]:
    """Sorts by risk; a call in doubt comes first in it, for its effect may be there already; then by the time that is left."""
    hold = view.state
    return _RISKS.index(view.risk), not hold.in_doubt, hold.expires_ms or _NEVER, hold.held_ms


@dataclass(frozen=True, slots=True)
class Group:
    """Calls that ask for the same thing. They are shown together and decided one by one."""

    views: tuple[HoldView, ...]

    @property
    def first(self) -> HoldView:
        return self.views[0]


@dataclass(frozen=True, slots=True)
class Inbox:
    """What waits, for one person."""

    mine: tuple[Group, ...]
    """What they may decide now, the most pressing first."""
    others: tuple[Group, ...]
    """What they may see and somebody else has to decide: they asked for it, or have said yes already."""
    waiting: int
    """Calls that they may decide, the ones that are not listed included."""
    destructive: int
    hidden: int
    """Calls beyond those that are listed."""


def grouped(views: Iterable[HoldView]) -> tuple[Group, ...]:
    """Equal requests of one asker beside each other, in the order of the first of them."""
    groups: dict[tuple[str, str], list[HoldView]] = {}
    for view in views:
        groups.setdefault((view.alike, view.state.asker), []).append(view)
    return tuple(Group(tuple(found)) for found in groups.values())


def inbox_of(views: Iterable[HoldView], who: Principal, most: int) -> Inbox:
    """The inbox of this person, out of everything open that they may see."""
    mine: list[HoldView] = []
    others: list[HoldView] = []
    for view in views:
        decides = objection_to_person(view.state, who) is None and who.person not in view.state.approvers
        (mine if decides else others).append(view)
    listed, more = heapq.nsmallest(most, mine, key=pressing), heapq.nsmallest(most, others, key=pressing)
    return Inbox(
        grouped(listed), grouped(more), len(mine), sum(v.risk == "destructive" for v in mine),
        len(mine) - len(listed) + len(others) - len(more),
    )  # fmt: skip


class Search(BaseModel):
    """Which of the ended holds somebody wants to see. Every part narrows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: Literal["", "approved", "denied", "resolved", "expired", "withdrawn"] = ""
    risk: Literal["", "read", "write", "destructive"] = ""
    by: Literal["", "me"] = ""
    """`me`: what this person had a say in."""
    q: str = Field(default="", max_length=200)
    """Words that stand somewhere in tool, target, amount, arguments, asker, agent, decider or ids."""
    before: int | None = Field(default=None, ge=0)
    """Ended before this, ms since the epoch: the next page."""

    def fits(self, view: HoldView, who: Principal) -> bool:
        hold = view.state
        if self.state and hold.status.value != self.state:
            return False
        if self.risk and view.risk.value != self.risk:
            return False
        if self.before is not None and hold.ended_ms >= self.before:
            return False
        if self.by == "me" and not any(said.person == who.person and said.counted for said in view.said):
            return False
        words = self.q.casefold().split()
        return not words or all(word in _haystack(view) for word in words)


def _haystack(view: HoldView) -> str:
    shown, preview = view.shown, view.shown.get("preview") or {}
    parts = (
        shown["tool"], preview.get("target"), preview.get("amount"), shown["arguments"], shown["asked_by"]["person"],
        shown["asked_by"]["subject"], shown["agent"], view.state.ended_by, *view.state.approvers, view.state.call_id,
        view.state.hold_id,
    )  # fmt: skip
    return as_text("\n".join(str(part) for part in parts if part)).casefold()


@dataclass(frozen=True, slots=True)
class Past:
    """One page of the history, newest first."""

    views: tuple[HoldView, ...]
    before: int | None
    """Where the next page begins; None: this is the last."""


def past_of(views: Iterable[HoldView], who: Principal, search: Search, most: int) -> Past:
    """The newest that fit. Holds that ended in the same millisecond stay on one page."""
    fitting = sorted((v for v in views if search.fits(v, who)), key=lambda v: (-v.state.ended_ms, v.state.hold_id))
    if len(fitting) <= most:
        return Past(tuple(fitting), None)
    last = fitting[most - 1].state.ended_ms
    page = [view for view in fitting if view.state.ended_ms >= last]
    return Past(tuple(page), last if len(page) < len(fitting) else None)
