"""In which order people see holds, which of them are one question asked several times, and how the past is searched."""

from __future__ import annotations

import base64
import heapq
import json
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

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


class Turning(BaseModel):
    """Which page of what waits somebody wants to see."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    limit: int = Field(default=200, ge=1, le=1_000)
    """So many at the most."""
    after: str = Field(default="", max_length=400)
    """`next` of the page before; empty: the first page, with the most pressing ones."""

    @field_validator("after")
    @classmethod
    def _one_of_ours(cls, after: str) -> str:
        _place_of(after)
        return after


@dataclass(frozen=True, slots=True)
class Waiting:
    """One page of what waits, the most pressing first."""

    views: tuple[HoldView, ...]
    next: str
    """What the next page comes after; empty: this is the last."""
    count: int
    """How many wait in all."""


_Place: TypeAlias = tuple[int, bool, int, int, str]


def waiting_of(views: Iterable[HoldView], turning: Turning) -> Waiting:
    """The page that was asked for. What begins to wait meanwhile, before that place, stands on the first page."""
    after, count, rest = _place_of(turning.after), 0, []
    for view in views:
        count += 1
        place = (*pressing(view), view.state.hold_id)
        if after is None or place > after:
            rest.append((place, view))
    page = heapq.nsmallest(turning.limit, rest, key=itemgetter(0))
    following = json.dumps(page[-1][0], separators=(",", ":")) if len(page) < len(rest) else ""
    return Waiting(tuple(view for _, view in page), base64.urlsafe_b64encode(following.encode()).decode(), count)


def _place_of(after: str) -> _Place | None:
    """Raises ValueError for what no page of ours ended with."""
    if not after:
        return None
    found = json.loads(base64.b64decode(after, altchars=b"-_", validate=True))
    kinds = [int, bool, int, int, str]
    if not isinstance(found, list) or [type(part) for part in found] != kinds:
        raise ValueError("not a place")
    risk, evidence, expires_ms, held_ms, hold_id = found
    return risk, evidence, expires_ms, held_ms, hold_id


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
