"""The JSON API: bearer tokens only, so that no browser's cookie can ever decide through it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from pydantic import BaseModel, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fourgates.contract.errors import Transient
from fourgates.gates.refusal import Refusal
from fourgates.gates.strict_json import Limits, strict_parse

from .answers import Changed, Ended, Holds, Me, Told, summary_of, whole_of
from .deciding import SIGN_IN_AGAIN, Deciding, Decision
from .listing import Search, Turning, past_of, waiting_of
from .openapi import document
from .settings import ServiceSettings
from .signin import Doorkeeper, SignedIn
from .view import ApprovalView, HoldView, may_see

BODY_LIMITS = Limits(bytes=65_536, depth=4)
Handler = Callable[[Request, SignedIn], Awaitable[Response]]


def answered(content: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content.model_dump_json(), status, headers, media_type="application/json")


def refused(status: int, outcome: str, message: str, challenge: str = "") -> Response:
    """`challenge` says to a program what kind of token would do (RFC 6750, RFC 9470)."""
    realm = 'Bearer realm="fourgates-approvals"'
    headers = {"WWW-Authenticate": realm + challenge} if status == 401 or challenge else None
    return answered(Told(outcome=outcome, message=message, hold=None), status, headers)


class Api:
    """The endpoints under /api."""

    def __init__(self, view: ApprovalView, deciding: Deciding, door: Doorkeeper, settings: ServiceSettings) -> None:
        self._view, self._deciding, self._door, self._settings = view, deciding, door, settings
        self._document = document()

    def routes(self) -> list[Route]:
        return [
            Route("/api/openapi.json", self._openapi),
            Route("/api/me", self._with_person(self._me)),
            Route("/api/holds", self._with_person(self._list)),
            Route("/api/holds/{hold_id}", self._with_person(self._one)),
            Route("/api/holds/{hold_id}/decision", self._with_person(self._decide), methods=["POST"]),
            Route("/api/history", self._with_person(self._ended)),
            Route("/api/events", self._with_person(self._events)),
        ]

    def _with_person(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def checked(request: Request) -> Response:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                return refused(401, "no_token", "Send a bearer token of the audience fourgates-approvals.")
            try:
                signed_in = self._door.prove(token.strip())
            except Transient:
                return refused(503, "keys_unavailable", "The issuer's keys are being fetched; try again in a moment.")
            if isinstance(signed_in, Refusal):
                status = 403 if signed_in.reason == "not_a_person" else 401
                return refused(status, signed_in.reason, "This token does not let anybody decide.")
            return await handler(request, signed_in)

        return checked

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def _me(self, request: Request, by: SignedIn) -> Response:
        who = by.who
        me = Me(person=who.person, subject=who.subject, tenant=who.tenant, groups=list(who.groups),
                may_decide=self._door.recent(by))  # fmt: skip
        return answered(me)

    async def _list(self, request: Request, by: SignedIn) -> Response:
        try:
            turning = Turning.model_validate(dict(request.query_params))
        except ValidationError:
            return refused(422, "malformed", "There is no such page; /api/openapi.json says how one is asked for.")
        page = waiting_of(self._view.open_for(by.who), turning)
        return answered(
            Holds(holds=[summary_of(view, by.who) for view in page.views], next=page.next or None, waiting=page.count)
        )

    async def _ended(self, request: Request, by: SignedIn) -> Response:
        try:
            search = Search.model_validate(dict(request.query_params))
        except ValidationError:
            return refused(422, "malformed", "The search has parts that there are not; /api/openapi.json lists them.")
        past = past_of(self._view.ended_for(by.who), by.who, search, self._settings.history)
        return answered(Ended(holds=[whole_of(view, by.who) for view in past.views], before=past.before))

    async def _one(self, request: Request, by: SignedIn) -> Response:
        found = self._found(request, by)
        return found if isinstance(found, Response) else answered(whole_of(found, by.who))

    async def _decide(self, request: Request, by: SignedIn) -> Response:
        found = self._found(request, by)
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
        if not self._door.recent(by):
            challenge = f', error="insufficient_user_authentication", max_age={int(self._settings.recent_s or 0)}'
            return refused(SIGN_IN_AGAIN.status, SIGN_IN_AGAIN.outcome, SIGN_IN_AGAIN.message, challenge)
        answer = await self._deciding.decide(by.who, found, decision)
        told = Told(outcome=answer.outcome, message=answer.message, hold=summary_of(found, by.who))
        return answered(told, answer.status)

    async def _events(self, request: Request, by: SignedIn) -> Response:
        changes = self._view.changes(by.who)

        async def events() -> AsyncIterator[ServerSentEvent]:
            async for hold_id in changes:
                if not self._door.lasts(by):
                    return
                yield ServerSentEvent(event="hold", data=Changed(hold_id=hold_id).model_dump_json())

        return EventSourceResponse(events(), ping=15)

    def _found(self, request: Request, by: SignedIn) -> HoldView | Response:
        view = self._view.find(request.path_params["hold_id"])
        if view is None or not view.asked:
            return refused(404, "unknown_hold", "Nobody is asked about such a call.")
        if not may_see(view.state, by.who):
            return refused(403, "not_yours", "This call is not yours to see or decide.")
        return view
