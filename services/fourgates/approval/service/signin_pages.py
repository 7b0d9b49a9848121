"""The pages on which people sign in: at the OpenID provider, with a token, in development by choosing who they are."""

from __future__ import annotations

import re
import secrets
from typing import Any
from urllib.parse import urlencode, urlsplit

from jinja2 import Environment
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from fourgates.contract.errors import Transient
from fourgates.gates.refusal import Refusal

from .openid import BEGUN_MS, CodeFlow
from .settings import ServiceSettings
from .signin import Doorkeeper, Session

SESSION_COOKIE, SIGNIN_COOKIE, OPENID_COOKIE = "fourgates_session", "fourgates_signin", "fourgates_openid"
STALE_FORM = "This form is too old or not ours. Try again."
_OWN_PAGES = re.compile(r"/(?:holds/[0-9A-Za-z-]{1,80}|history)?")
_BINDING_CHARS = 43
_AWAY = "The issuer does not answer; try again in a moment."
_WHY = {
    "not_a_person": "Only a person can decide, not an agent or a service.",
    "not_recent": "The provider let you in by an earlier sign-in. Sign in there anew.",
    "unknown_state": "This sign-in was not begun in this browser, or has ended already. Begin it again.",
    "too_late": "That took too long. Begin the sign-in again.",
}


def own_page(path: str) -> str:
    """A page of ours that somebody wanted to see; anything else is the inbox, so that no link leads elsewhere."""
    return path if _OWN_PAGES.fullmatch(path) else "/"


def signin_address(request: Request) -> str:
    """Where to sign in, to come back to what was asked for."""
    goal = own_page(request.url.path)
    return "/signin" if goal == "/" else f"/signin?{urlencode({'next': goal}, safe='/')}"


def single(form: FormData) -> dict[str, str]:
    """A form in which every field stands once, as text; anything else is an empty form."""
    fields = {name: value for name, value in form.multi_items() if isinstance(value, str)}
    return fields if len(fields) == len(form.multi_items()) else {}


class SigninPages:
    """/signin and /signout, and the way to the OpenID provider and back."""

    def __init__(self, door: Doorkeeper, flow: CodeFlow | None, settings: ServiceSettings, env: Environment) -> None:
        self._door, self._flow, self._settings, self._env = door, flow, settings, env

    def routes(self) -> list[Route]:
        return [
            Route("/signin", self._page),
            Route("/signin", self._sign_in, methods=["POST"]),
            Route("/signin/openid", self._begin),
            Route("/signin/callback", self._end),
            Route("/signout", self._sign_out, methods=["POST"]),
        ]

    def session_of(self, request: Request) -> Session | None:
        """The session that the browser shows, while it lasts."""
        return self._door.session(request.cookies.get(self._name(SESSION_COOKIE), ""))

    async def _page(self, request: Request) -> Response:
        return self._form(own_page(request.query_params.get("next", "/")))

    def _form(self, goal: str, message: str = "", status: int = 200) -> Response:
        """The form carries a value that only this browser's cookie repeats, so that nobody can sign another person in."""
        key, openid = secrets.token_urlsafe(32), self._settings.openid
        values: dict[str, Any] = {
            "key": key, "goal": goal, "message": message, "users": self._settings.development_users,
            "provider": urlsplit(openid.issuer).netloc if openid is not None and self._flow is not None else "",
        }  # fmt: skip
        page = HTMLResponse(self._env.get_template("signin.html").render(values), status)
        self._set_cookie(page, SIGNIN_COOKIE, key, "strict")
        return page

    async def _sign_in(self, request: Request) -> Response:
        fields = single(await request.form())
        goal = own_page(fields.get("next", "/"))
        key = request.cookies.get(self._name(SIGNIN_COOKIE), "")
        if not key or not secrets.compare_digest(key.encode(), fields.get("key", "").encode()):
            return self._form(goal, STALE_FORM, 403)
        token = self._token(fields)
        try:
            session = self._door.open_with(token) if token else None
        except Transient:
            return self._form(goal, _AWAY, 503)
        if session is None or isinstance(session, Refusal):
            return self._refused(session.reason if session else "no_token", goal)
        return self._let_in(request, session, goal)

    def _token(self, fields: dict[str, str]) -> str | None:
        user = fields.get("user", "")
        if user and any(user == known.name for known in self._settings.development_users):
            return self._door.development_token(user)
        return fields.get("token", "").strip() or None

    async def _begin(self, request: Request) -> Response:
        """To the provider. One secret binds all sign-ins that this browser has begun."""
        goal = own_page(request.query_params.get("next", "/"))
        if self._flow is None:
            return self._form(goal, "There is no OpenID provider to sign in at.", 404)
        known = request.cookies.get(self._name(OPENID_COOKIE), "")
        binding = known if len(known) == _BINDING_CHARS else secrets.token_urlsafe(32)
        try:
            address = await self._flow.begin(binding, self._callback(request), goal)
        except Transient:
            return self._form(goal, _AWAY, 503)
        response = RedirectResponse(address, 303)
        # Lax: it has to come along when the provider sends the browser back.
        self._set_cookie(response, OPENID_COOKIE, binding, "lax", BEGUN_MS // 1_000)
        return response

    async def _end(self, request: Request) -> Response:
        if self._flow is None:
            return self._form("/", "There is no OpenID provider to sign in at.", 404)
        answer = dict(request.query_params)
        try:
            arrived = await self._flow.end(request.cookies.get(self._name(OPENID_COOKIE), ""), answer)
        except Transient:
            return self._form("/", _AWAY, 503)
        if isinstance(arrived, Refusal):
            return self._refused(arrived.reason, "/")
        session = self._door.open(arrived.proven)
        if isinstance(session, Refusal):
            return self._refused(session.reason, arrived.goal)
        return self._let_in(request, session, arrived.goal)

    def _refused(self, reason: str, goal: str) -> Response:
        return self._form(goal, _WHY.get(reason, f"This does not let anybody in ({reason})."), 403)

    def _let_in(self, request: Request, session: Session, goal: str) -> Response:
        """On to the page that was asked for; what this browser was signed in as before is over."""
        self._door.close(request.cookies.get(self._name(SESSION_COOKIE), ""))
        response = RedirectResponse(goal, 303)
        # Lax, so that a link in a message finds its reader signed in; every change needs the form's own secret besides.
        self._set_cookie(response, SESSION_COOKIE, session.id, "lax")
        for name in (SIGNIN_COOKIE, OPENID_COOKIE):
            response.delete_cookie(self._name(name), path="/", secure=self._settings.https, httponly=True)
        return response

    async def _sign_out(self, request: Request) -> Response:
        session = self.session_of(request)
        if session is not None and session.csrf_fits(single(await request.form()).get("csrf", "")):
            self._door.close(session.id)
        return RedirectResponse("/signin", 303)

    def _callback(self, request: Request) -> str:
        scheme = "https" if self._settings.https else "http"
        return f"{scheme}://{request.headers['host']}/signin/callback"  # a host of ours: others were refused before

    def _name(self, name: str) -> str:
        """`__Host-`: no other host, no subdomain and no http page can set it."""
        return f"__Host-{name}" if self._settings.https else name

    def _set_cookie(self, response: Response, name: str, value: str, same_site: Any, max_age: int | None = None) -> None:
        response.set_cookie(
            self._name(name), value, httponly=True, samesite=same_site, secure=self._settings.https, path="/", max_age=max_age
        )
