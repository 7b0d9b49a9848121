"""The JSON API: bearer tokens only, so that no browser's cookie can ever decide through it."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fourgates.contract.errors import Transient
from fourgates.contract.parts import Principal
from fourgates.gates.approval import objection_to_person
from fourgates.gates.refusal import Refusal
from fourgates.gates.strict_json import Limits, strict_parse

from .deciding import Deciding, Decision, ending
from .signin import Doorkeeper
from .view import ApprovalView, HoldView, may_see

BODY_LIMITS = Limits(bytes=65_536, depth=4)
Handler = Callable[[Request, Principal], Awaitable[Response]]


def summary_of(view: HoldView, who: Principal) -> dict[str, Any]:
    """A hold in a list."""
    shown, hold = view.shown, view.state
    preview = shown["preview"] or {}
    return {
        "hold_id": hold.hold_id, "call_id": hold.call_id, "state": hold.status.value, "reason": hold.reason.value,
        "tool": shown["tool"], "risk": shown["risk"], "target": preview.get("target"), "amount": preview.get("amount", ""),
        "asked_by": shown["asked_by"]["person"], "agent": shown["agent"], "group": hold.group, "quorum": hold.quorum,
        "approvers": list(hold.approvers), "approvable": hold.approvable, "held_ms": hold.held_ms,
        "expires_ms": hold.expires_ms, "not_before_ms": hold.not_before_ms, "may_decide": objection_to_person(hold, who) is None,
        "verdict": hold.verdict, "ended_ms": hold.ended_ms, "ended_by": hold.ended_by,
        "ended": "" if hold.open else ending(hold),
    }  # fmt: skip


def whole_of(view: HoldView, who: Principal) -> dict[str, Any]:
    """A hold with what people are shown: `shown` is the exact text whose sha256 a decision has to name."""
    assert view.requested is not None
    said = [dataclasses.asdict(one) for one in view.said]
    whole = {"shown": view.requested.shown, "shown_digest": view.requested.shown_digest, "decisions": said}
    return summary_of(view, who) | whole


def refused(status: int, outcome: str, message: str, hold: dict[str, Any] | None = None) -> JSONResponse:
    headers = {"WWW-Authenticate": 'Bearer realm="fourgates-approvals"'} if status == 401 else None
    return JSONResponse({"outcome": outcome, "message": message, "hold": hold}, status, headers=headers)


class Api:
    """The endpoints under /api."""

    def __init__(self, view: ApprovalView, deciding: Deciding, door: Doorkeeper, history: int) -> None:
        self._view, self._deciding, self._door, self._history = view, deciding, door, history

    def routes(self) -> list[Route]:
        return [
            Route("/api/holds", self._with_person(self._list)),
            Route("/api/holds/{hold_id}", self._with_person(self._one)),
            Route("/api/holds/{hold_id}/decision", self._with_person(self._decide), methods=["POST"]),
            Route("/api/history", self._with_person(self._ended)),
        ]

    def _with_person(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                return refused(401, "no_token", "Send a bearer token of the audience fourgates-approvals.")
            try:
                proven = self._door.prove(token.strip())
            except Transient:
                return refused(503, "keys_unavailable", "The issuer's keys are being fetched; try again in a moment.")
            if isinstance(proven, Refusal):
                status = 403 if proven.reason == "not_a_person" else 401
                return refused(status, proven.reason, "This token does not let anybody decide.")
            return await handler(request, proven[0])

        return checked

    async def _list(self, request: Request, who: Principal) -> Response:
        return JSONResponse({"holds": [summary_of(view, who) for view in self._view.open_for(who)]})

    async def _ended(self, request: Request, who: Principal) -> Response:
        return JSONResponse({"holds": [whole_of(view, who) for view in self._view.ended_for(who, self._history)]})

    async def _one(self, request: Request, who: Principal) -> Response:
        found = self._found(request, who)
        return found if isinstance(found, Response) else JSONResponse(whole_of(found, who))

    async def _decide(self, request: Request, who: Principal) -> Response:
        found = self._found(request, who)
        if isinstance(found, Response):
            return found
        try:
            body = strict_parse((await request.body()).decode(), BODY_LIMITS)
            decision = Decision.model_validate(body)
        except (UnicodeDecodeError, ValidationError):
            body = None
        if body is None or isinstance(body, Refusal):
            message = "Send {verdict, shown_digest, reason, tell_model}: the verdict approve, deny, committed or not_applied."
            return refused(422, "malformed", message)
        answer = await self._deciding.decide(who, found, decision)
        content = {"outcome": answer.outcome, "message": answer.message, "hold": summary_of(found, who)}
        return JSONResponse(content, answer.status)

    def _found(self, request: Request, who: Principal) -> HoldView | Response:
        view = self._view.find(request.path_params["hold_id"])
        if view is None or view.requested is None:
            return refused(404, "unknown_hold", "Nobody is asked about such a call.")
        if not may_see(view.state, who):
            return refused(403, "not_yours", "This call is not yours to see or decide.")
        return view
