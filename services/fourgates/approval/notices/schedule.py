"""When what is to be told about a hold. Pure: the same hold gives the same times, whoever asks and however often."""

from __future__ import annotations

from collections.abc import Collection

from fourgates.contract import ids
from fourgates.gates.approval import HoldState, HoldStatus

from .settings import NoticeKind, NoticeSettings


def times_of(hold: HoldState, settings: NoticeSettings) -> dict[NoticeKind, int]:
    """Milliseconds since the epoch for each kind, in the order in which they come."""
    asked = hold.requested_ms
    if hold.expires_ms is None:
        late = asked + _ms(settings.doubt_s)
    else:
        late = max(hold.expires_ms - _ms(settings.escalate_before_s), asked + (hold.expires_ms - asked) * 3 // 4)
    end = late if hold.expires_ms is None else hold.expires_ms
    remind = min(asked + _ms(settings.remind_after_s), asked + (end - asked) // 2)
    return {NoticeKind.ASKED: asked, NoticeKind.REMINDER: remind, NoticeKind.ESCALATION: late}


def due(
    hold: HoldState, settings: NoticeSettings, now_ms: int, heard: Collection[NoticeKind] = tuple(NoticeKind)
) -> NoticeKind | None:
    """The one thing that is to be told now to who hears such kinds: the latest whose time has come, which says it all."""
    if hold.status is not HoldStatus.REQUESTED:
        return None
    if hold.expires_ms is not None and now_ms >= hold.expires_ms:
        return None
    come = [kind for kind, at_ms in times_of(hold, settings).items() if at_ms <= now_ms and kind in heard]
    return come[-1] if come else None


def notice_id(hold_id: str, kind: NoticeKind) -> str:
    """The same for every attempt and from every process: a receiver that heard it before may leave it alone."""
    return ids.event_id(hold_id, "approver", "Notice", kind.value)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
