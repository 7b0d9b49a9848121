"""The pages that people decide on: plain forms that work without a script; the script keeps them up to date."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from pydantic import ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fourgates.contract.errors import Transient
from fourgates.contract.parts import Principal
from fourgates.gates.approval import objection_to_person
from fourgates.gates.refusal import Refusal

from .deciding import Answer, Deciding, Decision
from .rendering import environment
from .settings import ServiceSettings
from .signin import Doorkeeper, Session
from .view import ApprovalView, HoldView, may_see

Page = Callable[[Request, Session, Principal], Awaitable[Response]]
SESSION_COOKIE, SIGNIN_COOKIE = "fourgates_session", "fourgates_signin"
NOT_YOURS = Answer(403, "not_yours", "This call is not yours to see or decide.")
UNKNOWN = Answer(404, "unknown_hold", "Nobody is asked about such a call.")
STALE_FORM = Answer(403, "stale_form", "This form is too old or not ours. Try again.")
MALFORMED = Answer(422, "malformed", "That was not a decision. Try again.")


def single(form: FormData) -> dict[str, str]:
    """A form in which every field stands once, as text; anything else is an empty form."""
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    return fields if len(fields) == len(form.multi_items()) else {}


class Pages:
    """Everything but the API, the sign-in and the static files."""

    def __init__(self, view: ApprovalView, deciding: Deciding, door: Doorkeeper, settings: ServiceSettings) -> None:
        self._view, self._deciding, self._door, self._settings = view, deciding, door, settings
        self._env = environment()

    def routes(self) -> list[Route]:
        return [
            Route("/", self._signed_in(self._inbox)),
            Route("/inbox", self._signed_in(self._inbox_part)),
            Route("/history", self._signed_in(self._history)),
            Route("/events", self._signed_in(self._events)),
            Route("/holds/{hold_id}", self._signed_in(self._hold)),
            Route("/holds/{hold_id}/state", self._signed_in(self._hold_state)),
            Route("/holds/{hold_id}/decision", self._signed_in(self._decide), methods=["POST"]),
            Route("/signin", self._signin_page),
            Route("/signin", self._signin, methods=["POST"]),
            Route("/signout", self._signed_in(self._signout), methods=["POST"]),
        ]

    def _html(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._env.get_template(template).render(**values), status)

    def _signed_in(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            found = self._door.session(request.cookies.get(SESSION_COOKIE, ""))
            if found is None:
                whole = request.headers.get("sec-fetch-dest", "document") == "document"
                return RedirectResponse("/signin", 303) if whole else Response(status_code=401)
            return await page(request, *found)

        return checked

    async def _inbox(self, request: Request, session: Session, who: Principal) -> Response:
        return self._html("inbox.html", session=session, who=who, holds=self._view.open_for(who))

    async def _inbox_part(self, request: Request, session: Session, who: Principal) -> Response:
        return self._html("_inbox.html", holds=self._view.open_for(who))

    async def _history(self, request: Request, session: Session, who: Principal) -> Response:
        holds = self._view.ended_for(who, self._settings.history)
        return self._html("history.html", session=session, who=who, holds=holds)

    async def _hold(self, request: Request, session: Session, who: Principal) -> Response:
        found = self._found(request, who)
        if isinstance(found, Answer):
            return self._problem(found, session, who)
        return self._detail(found, session, who)

    async def _hold_state(self, request: Request, session: Session, who: Principal) -> Response:
        found = self._found(request, who)
        return Response(status_code=found.status) if isinstance(found, Answer) else self._html("_state.html", view=found)

    async def _decide(self, request: Request, session: Session, who: Principal) -> Response:
        found = self._found(request, who)
        if isinstance(found, Answer):
            return self._problem(found, session, who)
        fields = single(await request.form())
        if not session.csrf_fits(fields.pop("csrf", "")):
            return self._detail(found, session, who, STALE_FORM)
        try:
            decision = Decision.model_validate(fields | {"tell_model": fields.get("tell_model") == "yes"})
        except ValidationError:
            return self._detail(found, session, who, MALFORMED)
        answer = await self._deciding.decide(who, found, decision)
        if answer.counted:  # what the page then says is read from the fold
            return RedirectResponse(f"/holds/{found.state.hold_id}", 303)
        return self._detail(found, session, who, answer)

    def _detail(self, view: HoldView, session: Session, who: Principal, answer: Answer | None = None) -> Response:
        may = objection_to_person(view.state, who) is None
        values = {"session": session, "who": who, "view": view, "shown": view.shown, "may": may, "answer": answer}
        return self._html("hold.html", 200 if answer is None else answer.status, **values)

    def _problem(self, answer: Answer, session: Session, who: Principal) -> Response:
        return self._html("problem.html", answer.status, answer=answer, session=session, who=who)

    def _found(self, request: Request, who: Principal) -> HoldView | Answer:
        view = self._view.find(request.path_params["hold_id"])
        if view is None or view.requested is None:
            return UNKNOWN
        return view if may_see(view.state, who) else NOT_YOURS

    async def _events(self, request: Request, session: Session, who: Principal) -> Response:
        async def events() -> AsyncIterator[ServerSentEvent]:
            async for hold_id in self._view.changes(who):
                if self._door.session(session.id) is None:
                    return  # the browser asks again and is sent to sign in
                yield ServerSentEvent(event="hold", data=json.dumps({"hold_id": hold_id}))

        return EventSourceResponse(events(), ping=15)

    async def _signin_page(self, request: Request) -> Response:
        return self._signin_form()

    def _signin_form(self, message: str = "", status: int = 200) -> Response:
        """The form carries a value that only this browser's cookie repeats, so that nobody can sign another person in."""
        key = secrets.token_urlsafe(32)
        page = self._html("signin.html", status, key=key, message=message, users=self._settings.development_users)
        self._set_cookie(page, SIGNIN_COOKIE, key)
        return page

    async def _signin(self, request: Request) -> Response:
        fields = single(await request.form())
        key = request.cookies.get(SIGNIN_COOKIE, "")
        if not key or not secrets.compare_digest(key.encode(), fields.get("key", "").encode()):
            return self._signin_form(STALE_FORM.message, 403)
        token = self._token(fields)
        try:
            session = self._door.open(token) if token else None
        except Transient:
            return self._signin_form("The issuer's keys are being fetched; try again in a moment.", 503)
        if session is None or isinstance(session, Refusal):
            reason = session.reason if session else "no_token"
            return self._signin_form(f"This does not let anybody in ({reason}).", 403)
        response = RedirectResponse("/", 303)
        self._set_cookie(response, SESSION_COOKIE, session.id)
        response.delete_cookie(SIGNIN_COOKIE)
        return response

    def _token(self, fields: dict[str, str]) -> str | None:
        user = fields.get("user", "")
        if user and any(user == known.name for known in self._settings.development_users):
            return self._door.development_token(user)
        return fields.get("token", "").strip() or None

    async def _signout(self, request: Request, session: Session, who: Principal) -> Response:
        if session.csrf_fits(single(await request.form()).get("csrf", "")):
            self._door.close(session.id)
        return RedirectResponse("/signin", 303)

    def _set_cookie(self, response: Response, name: str, value: str) -> None:
        response.set_cookie(name, value, httponly=True, samesite="strict", secure=self._settings.https, path="/")
