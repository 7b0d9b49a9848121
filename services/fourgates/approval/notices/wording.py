"""What a notice says. Nothing in it comes from a model: no arguments, no preview, no intent; whoever may see them signs in."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fourgates.gates.approval import HoldState

from .schedule import notice_id
from .settings import Form, Hook, NoticeKind

_WHY = {
    "risk": "tools of this kind need a person",
    "policy": "a policy asks for a person",
    "origin_breach": "a value in it does not come from where it may",
    "near_duplicate": "another call seems to have done the same already",
    "in_doubt": "nobody knows whether it has happened",
}
_HEAD = {
    NoticeKind.ASKED: "waits for a decision", NoticeKind.REMINDER: "still waits for a decision",
    NoticeKind.ESCALATION: "is about to run out of time",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing to tell about one hold."""

    hold: HoldState
    kind: NoticeKind
    page: str
    """Where the approver's page is, without a slash at the end."""

    @property
    def id(self) -> str:
        return notice_id(self.hold.hold_id, self.kind)

    @property
    def link(self) -> str:
        return f"{self.page}/holds/{self.hold.hold_id}"

    @property
    def title(self) -> str:
        late = _HEAD[self.kind]
        if self.kind is NoticeKind.ESCALATION and self.hold.in_doubt:
            late = "has been in doubt for long"
        return f"{self.hold.about.risk.capitalize()} call of {self.hold.about.tool} {late}"

    @property
    def sentence(self) -> str:
        hold = self.hold
        people = "one person" if hold.quorum == 1 else f"{hold.quorum} persons"
        until = "It does not end by itself." if hold.expires_ms is None else f"It expires at {_time(hold.expires_ms)}."
        return f"Held because {_WHY[hold.reason.value]}. Needs {people} of {hold.group}. {until}"


def body(notice: Notice, hook: Hook) -> bytes:
    """The request's body in the hook's form."""
    made = {Form.PLAIN: _plain, Form.SLACK: _slack, Form.EMAIL: _email}[hook.form](notice, hook)
    return json.dumps(made, ensure_ascii=False).encode()


def _plain(notice: Notice, hook: Hook) -> dict[str, Any]:
    hold = notice.hold
    return {
        "notice_id": notice.id, "kind": notice.kind.value, "hold_id": hold.hold_id, "call_id": hold.call_id,
        "tenant": hold.tenant, "group": hold.group, "quorum": hold.quorum, "tool": hold.about.tool, "risk": hold.about.risk,
        "reason": hold.reason.value, "asked_ms": hold.requested_ms, "expires_ms": hold.expires_ms, "link": notice.link,
        "title": notice.title, "text": notice.sentence,
    }  # fmt: skip


def _slack(notice: Notice, hook: Hook) -> dict[str, Any]:
    said = f"*{_mrkdwn(notice.title)}*\n{_mrkdwn(notice.sentence)}"
    style = {"style": "danger"} if notice.kind is NoticeKind.ESCALATION else {"style": "primary"}
    button = {"type": "button", "text": {"type": "plain_text", "text": "Look and decide"}, "url": notice.link, **style}
    return {
        "text": notice.title,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": said}},
            {"type": "actions", "block_id": notice.id, "elements": [button]},
        ],
    }


def _email(notice: Notice, hook: Hook) -> dict[str, Any]:
    title, sentence, link = (html.escape(text) for text in (notice.title, notice.sentence, notice.link))
    return {
        "message_id": f"<{notice.id}@fourgates>", "to": list(hook.to), "subject": notice.title,
        "text": f"{notice.title}.\n\n{notice.sentence}\n\nLook and decide: {notice.link}\n",
        "html": f'<p><strong>{title}.</strong></p><p>{sentence}</p><p><a href="{link}">Look and decide</a></p>',
    }  # fmt: skip


def _mrkdwn(text: str) -> str:
    """Slack's three characters; a tool's or a group's name must not become a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
