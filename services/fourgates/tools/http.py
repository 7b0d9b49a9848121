"""A tool that is an HTTP endpoint: one fixed host, the call's key handed on, answers as the contract reads them."""

from __future__ import annotations

import asyncio
import email.utils
import json
import re
import ssl
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import httpx

from fourgates.catalog import Tool, ToolContext, ToolError, ToolErrorKind
from fourgates.contract.canonical import digest
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import Declared, away, done, silent
from fourgates.tools.http_request import HttpRequest
from fourgates.tools.sources import MISSING, as_json, complaints_about, point

_STATUS: Final = re.compile(r"[1-5](xx|[0-9]{2})")
_REDIRECTS: Final = 3
_LONGEST_RETRY_AFTER: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a status means, where it means something else than its class: a 2xx is done, all others are not understood."""

    status: str
    """`409`, or `4xx`."""
    means: Declared | None
    """None: it is done all the same (a 409 that says `already so`)."""
    at: str = ""
    """JSON Pointer into the body; with `equals`, the answer counts only where that value stands there."""
    equals: Any = None

    def fits(self, status: int, body: Any) -> bool:
        if self.status not in (str(status), f"{status // 100}xx"):
            return False
        return not self.at or point(self.at, body) == self.equals


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one exchange may cost."""

    answer_bytes: int = 1_000_000
    connect_s: float = 5.0
    """Seconds for the connection; the whole exchange has the attempt's time."""
    connections: int = 20
    """At once, from one process."""


class HttpTool:
    """`run` of a tool: one request, and what its answer means.

    Not executed is only what the contract declares so, and a connection that never came about. Of a write, every other failure
    is in doubt. A read follows at most three redirects on the same host, a write none. `authorization` gives the header's value
    for each request, without waiting for anything, and is no part of the tool's version; `tls` are other roots or a client
    certificate.
    """

    def __init__(
        self,
        request: HttpRequest,
        *,
        answers: tuple[Answer, ...] = (),
        result: str = "",
        limits: HttpLimits | None = None,
        authorization: Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.request, self._answers, self._result = request, answers, result
        self._limits, self._authorization, self._tls = limits or HttpLimits(), authorization, tls
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        if odd := next((answer.status for answer in answers if not _STATUS.fullmatch(answer.status)), None):
            raise ConfigurationError(f"answers: {odd!r} is no status; write 409 or 4xx")
        if result and not result.startswith("/"):
            raise ConfigurationError(f"result: {result!r} is no JSON Pointer; write one such as /data, or leave it out")

    @property
    def target(self) -> str:
        """Everything that decides whom a call reaches, with what, and how its answer is read."""
        read = [[a.status, a.means and a.means.words(), a.at, a.equals] for a in self._answers]
        words = [self.request.words(), read, self._result, self._limits.answer_bytes]
        return f"http:{self.request.method} {self.request.url}#{digest(words)[:32]}"

    def complaints(self, tool: Tool) -> Iterator[str]:
        """What its contract promises and this request does not keep."""
        yield from complaints_about(self.request.sources(), tool)
        if tool.writes and tool.honours_key and not self.request.sends("@key"):
            yield "honours_key, but its request does not send @key: a second send would have a second effect"
        if tool.writes and self.request.method in ("GET", "HEAD"):
            yield f"it is a write by {self.request.method}, which caches and proxies may repeat; use another method"

    async def __call__(self, args: Any, ctx: ToolContext | None) -> Any:
        """As `run(args, ctx)`."""
        status, headers, raw = await self.exchange(as_json(args), ctx)
        body = read_body(headers, raw)
        for answer in self._answers:
            if answer.fits(status, body):
                if answer.means is None:
                    return done(self.told(body))
                raise answer.means.error(_retry_after(headers))
        if 200 <= status < 300:
            return done(self.told(body))
        if status in (429, 503):
            raise _later(status, headers)
        if status >= 500:
            raise silent(f"http_{status}")
        raise ToolError(f"http_{status}", "The tool refused the request.")

    async def exchange(self, args: Mapping[str, Any], ctx: ToolContext | None) -> tuple[int, httpx.Headers, bytes]:
        """One request and its whole answer, as they are. Raises ToolError where there is none."""
        url, headers, body = self.request.made(args, ctx)
        headers["Accept-Encoding"] = "identity"  # what is counted is what is read: nothing unfolds to a thousand times its size
        if self._authorization is not None:
            try:
                headers["Authorization"] = self._authorization()
            except Exception as fault:  # whoever keeps the credential may raise anything; nothing was sent
                raise away("no_credential") from fault
        for _ in range(_REDIRECTS + 1):
            status, told, raw = await self._once(url, headers, body)
            where = self._redirect(status, told, url)
            if where is None:
                return status, told, raw
            url = where
        raise ToolError("too_many_redirects", "The tool sends from one place to another.")

    async def close(self) -> None:
        """Closes the connections of this loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _once(self, url: str, headers: dict[str, str], body: bytes | None) -> tuple[int, httpx.Headers, bytes]:
        sent = False

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal sent
            sent = sent or event.endswith("send_request_headers.started")

        try:
            async with self._client().stream(
                self.request.method, url, headers=headers, content=body, extensions={"trace": trace}
            ) as answer:
                raw = bytearray()
                async for chunk in answer.aiter_raw():
                    raw += chunk
                    if len(raw) > self._limits.answer_bytes:
                        raise ToolError("answer_too_large", f"The answer is larger than {self._limits.answer_bytes} bytes.")
                return answer.status_code, answer.headers, bytes(raw)
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            raise silent("answer_lost") if sent else away("not_reached") from fault
        except asyncio.CancelledError as wish:
            if sent:
                raise
            raise away("not_reached") from wish  # stopped here, it is known that nothing happened

    def _redirect(self, status: int, headers: httpx.Headers, url: str) -> str | None:
        """Where a read goes on; None where the answer itself counts."""
        if status not in (301, 302, 303, 307, 308) or self.request.method not in ("GET", "HEAD"):
            return None
        there = urljoin(url, str(headers.get("Location", "")))
        parts = urlsplit(there)
        try:
            origin = parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        except ValueError:  # a port that is none
            origin = ("", "", 0)
        if origin != self.request.origin or parts.username is not None:
            raise ToolError("redirected_elsewhere", "The tool points to another place.")
        return there

    def told(self, body: Any) -> Any:
        """The part of an answer that is the result."""
        found = point(self._result, body)
        return None if found is MISSING else found

    def _client(self) -> httpx.AsyncClient:
        """One a loop. Nothing of the environment (proxies, netrc) counts, and no cookie is kept from one call to the next."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            limits = self._limits
            client = self._clients[loop] = httpx.AsyncClient(
                trust_env=False, follow_redirects=False, verify=self._tls or self.request.origin[0] == "https",
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                timeout=httpx.Timeout(None, connect=limits.connect_s, pool=limits.connect_s),
                limits=httpx.Limits(max_connections=limits.connections, max_keepalive_connections=limits.connections),
            )  # fmt: skip
        return client


def read_body(headers: httpx.Headers, raw: bytes) -> Any:
    """JSON where it says so and is; else text."""
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ToolError("answer_unreadable", "The answer came in an encoding that was not asked for.")
    if "json" in headers.get("Content-Type", ""):
        try:
            return json.loads(raw, parse_constant=_no_number)
        except (ValueError, RecursionError):
            pass
    return raw.decode(errors="replace")


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _later(status: int, headers: httpx.Headers) -> ToolError:
    return ToolError(f"http_{status}", "The tool is busy.", ToolErrorKind.TRANSIENT, retry_after_s=_retry_after(headers))


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds (RFC 9110: seconds, or a date), at most a day; None where it says nothing that can be read."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_RETRY_AFTER)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return min(max(0.0, when.timestamp() - time.time()), _LONGEST_RETRY_AFTER)
