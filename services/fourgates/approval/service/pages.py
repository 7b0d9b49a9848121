"""The pages that people decide on: plain forms that work without a script; the script keeps them up to date."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fourgates.contract.events import HoldReason
from fourgates.gates.approval import objection_to_person

from .deciding import SIGN_IN_AGAIN, Answer, Deciding, Decision
from .listing import Search, inbox_of, past_of
from .presenting import to_type, typed_fits
from .settings import ServiceSettings
from .signin import Doorkeeper, Session
from .signin_pages import STALE_FORM, SigninPages, signin_address, single
from .view import ApprovalView, HoldView, may_see

Page = Callable[[Request, Session], Awaitable[Response]]
NOT_YOURS = Answer(403, "not_yours", "This call is not yours to see or decide.")
UNKNOWN = Answer(404, "unknown_hold", "Nobody is asked about such a call.")
STALE = Answer(403, "stale_form", STALE_FORM)
MALFORMED = Answer(422, "malformed", "That was not a decision. Try again.")


@dataclass(frozen=True, slots=True)
class Draft:
    """What somebody has filled in, kept where their decision did not count."""

    reason: str = ""
    tell_model: bool = False
    typed: str = ""


class Pages:
    """Inbox, detail, decision, history and the stream that says what has changed."""

    def __init__(
        self, view: ApprovalView, deciding: Deciding, door: Doorkeeper, signin: SigninPages, settings: ServiceSettings,
        env: Environment,
    ) -> None:  # fmt: skip
        self._view, self._deciding, self._door, self._signin = view, deciding, door, signin
        self._settings, self._env = settings, env

    def routes(self) -> list[Route]:
        return [
            Route("/", self._signed_in(self._inbox)),
            Route("/inbox", self._signed_in(self._inbox_part)),
            Route("/history", self._signed_in(self._history)),
            Route("/events", self._signed_in(self._events)),
            Route("/holds/{hold_id}", self._signed_in(self._hold)),
            Route("/holds/{hold_id}/state", self._signed_in(self._hold_state)),
            Route("/holds/{hold_id}/decision", self._signed_in(self._decide), methods=["POST"]),
        ]

    def _html(self, template: str, session: Session, status: int = 200, **values: Any) -> HTMLResponse:
        common = {"session": session, "now_ms": self._deciding.now_ms()}
        return HTMLResponse(self._env.get_template(template).render(common | values), status)

    def _signed_in(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            session = self._signin.session_of(request)
            if session is None:
                whole = request.headers.get("sec-fetch-dest", "document") == "document"
                return RedirectResponse(signin_address(request), 303) if whole else Response(status_code=401)
            return await page(request, session)

        return checked

    def _inbox_of(self, session: Session) -> Any:
        return inbox_of(self._view.open_for(session.who), session.who, self._settings.listed)

    async def _inbox(self, request: Request, session: Session) -> Response:
        return self._html("inbox.html", session, inbox=self._inbox_of(session))

    async def _inbox_part(self, request: Request, session: Session) -> Response:
        return self._html("_inbox.html", session, inbox=self._inbox_of(session))

    async def _history(self, request: Request, session: Session) -> Response:
        asked = {name: value for name, value in request.query_params.items() if value}
        try:
            search = Search.model_validate(asked)
        except ValidationError:
            return RedirectResponse("/history", 303)
        past = past_of(self._view.ended_for(session.who), session.who, search, self._settings.history)
        older = "/history?" + urlencode(asked | {"before": past.before}) if past.before is not None else ""
        return self._html("history.html", session, past=past, search=search, searched=bool(asked), older=older)

    async def _hold(self, request: Request, session: Session) -> Response:
        found = self._found(request, session)
        if isinstance(found, Answer):
            return self._html("problem.html", session, found.status, answer=found)
        return self._detail(found, session)

    async def _hold_state(self, request: Request, session: Session) -> Response:
        found = self._found(request, session)
        if isinstance(found, Answer):
            return Response(status_code=found.status)
        return self._html("_state.html", session, view=found)

    async def _decide(self, request: Request, session: Session) -> Response:
        found = self._found(request, session)
        if isinstance(found, Answer):
            return self._html("problem.html", session, found.status, answer=found)
        fields = single(await request.form())
        typed = fields.pop("typed", "")
        draft = Draft(fields.get("reason", ""), fields.get("tell_model") == "yes", typed)
        if not session.csrf_fits(fields.pop("csrf", "")):
            return self._detail(found, session, STALE, draft)
        try:
            decision = Decision.model_validate(fields | {"tell_model": draft.tell_model})
        except ValidationError:
            return self._detail(found, session, MALFORMED, draft)
        if not self._door.recent(session.signed_in):
            return self._detail(found, session, SIGN_IN_AGAIN, draft)
        asked = to_type(found)
        if decision.verdict == "approve" and asked and found.state.open and not typed_fits(asked, typed):
            answer = Answer(422, "not_typed", f"This destroys something. To approve it, type {asked} below.")
            return self._detail(found, session, answer, draft)
        answer = await self._deciding.decide(session.who, found, decision)
        if answer.counted:  # what the page then says is read from the fold
            return RedirectResponse(f"/holds/{found.state.hold_id}", 303)
        return self._detail(found, session, answer, draft)

    def _detail(self, view: HoldView, session: Session, answer: Answer | None = None, draft: Draft | None = None) -> Response:
        who, hold = session.who, view.state
        inbox = self._inbox_of(session)
        equal = next((group for group in (*inbox.mine, *inbox.others) if view in group.views), None)
        return self._html(
            "hold.html", session, 200 if answer is None else answer.status, view=view, shown=view.shown,
            may=objection_to_person(hold, who) is None, recent=self._door.recent(session.signed_in), answer=answer,
            draft=draft or Draft(), inbox=inbox, equals=len(equal.views) if equal else 1,
            next=inbox.mine[0].first if inbox.mine else None, firsts=self._firsts(view, session),
        )  # fmt: skip

    def _firsts(self, view: HoldView, session: Session) -> list[tuple[str, HoldView | None]]:
        """Of a near duplicate: the calls that had the effect before, as far as people were asked about them."""
        if view.state.reason is not HoldReason.NEAR_DUPLICATE:
            return []
        calls = (str(claim["call_id"]) for claim in view.shown["supersedes"])
        return [(call_id, self._view.first_of(call_id, session.who)) for call_id in calls]

    def _found(self, request: Request, session: Session) -> HoldView | Answer:
        view = self._view.find(request.path_params["hold_id"])
        if view is None or not view.asked:
            return UNKNOWN
        return view if may_see(view.state, session.who) else NOT_YOURS

    async def _events(self, request: Request, session: Session) -> Response:
        changes = self._view.changes(session.who)

        async def events() -> AsyncIterator[ServerSentEvent]:
            async for hold_id in changes:
                if self._door.session(session.id) is None:
                    return  # the browser asks again and is sent to sign in
                yield ServerSentEvent(event="hold", data=json.dumps({"hold_id": hold_id}))

        return EventSourceResponse(events(), ping=15)
