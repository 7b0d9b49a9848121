"""The query door: ClickHouse's HTTP protocol on loopback, read-only, with a token. So `curl`, Grafana and the CLI can ask."""

from __future__ import annotations

import ast
import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from typing import Any

from clickhouse_connect.driver.exceptions import ClickHouseError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fourgates.audit.compression import BadEncoding, TooLong, packed, unpacked
from fourgates.audit.reading import Readers, TooManyQueries
from fourgates.audit.statement import StatementRefused

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_TRANSPORT = frozenset({
    "query", "default_format", "database", "query_id", "session_id", "session_timeout", "session_check", "user", "quota_key",
    "role", "enable_http_compression", "wait_end_of_query", "buffer_size", "client_protocol_version",
    "send_progress_in_http_headers", "http_headers_progress_interval_ms",
})  # fmt: skip
"""Parameters of the protocol that change no answer here; every other name would be a setting, and those are fixed."""
_CODE = re.compile(r"Code: (\d+)")
_READONLY, _AUTHENTICATION, _TOO_MANY, _UNKNOWN, _CANNOT_DECOMPRESS, _BAD_ARGUMENT = 164, 516, 202, 1002, 271, 36
_STATUS = {
    **dict.fromkeys((36, 43, 53, 62, 456, 457), 400), **dict.fromkeys((46, 47, 60, 73, 81), 404), 159: 408, 164: 403, 497: 403,
}  # fmt: skip
_TYPES = {
    "JSON": "application/json", "JSONCompact": "application/json", "JSONEachRow": "application/x-ndjson", "CSV": "text/csv",
    "CSVWithNames": "text/csv", "TabSeparated": "text/tab-separated-values", "TSV": "text/tab-separated-values",
    "TabSeparatedWithNames": "text/tab-separated-values",
}  # fmt: skip
_ARRAYS = re.compile(r"\{\s*(\w+)\s*:\s*Array\(")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}


def build_door(readers: Readers, token: str, body_bytes: int) -> Starlette:
    """The door's application. The caller binds it to loopback and closes the readers."""
    door = _Door(readers, token, body_bytes)
    return Starlette(routes=[Route("/ping", _alive), Route("/", door.answer, methods=["GET", "POST"])])


async def _alive(request: Request) -> Response:
    return PlainTextResponse("Ok.\n")


class _Door:
    def __init__(self, readers: Readers, token: str, body_bytes: int) -> None:
        self._readers, self._token, self._body_bytes = readers, token.encode(), body_bytes
        self._too_long = f"the statement is longer than {body_bytes} bytes"

    async def answer(self, request: Request) -> Response:
        if _host(request) not in LOOPBACK_HOSTS:  # a page on another name that resolves to us is not a local caller
            return PlainTextResponse("the Host header must name a loopback address\n", status_code=403)
        said = _token_of(request)
        if said is None:
            missing = _error(_AUTHENTICATION, "a token is required: Authorization: Bearer, X-ClickHouse-Key or a password", 401)
            missing.headers["WWW-Authenticate"] = 'Basic realm="fourgates audit"'
            return missing
        if not hmac.compare_digest(said.encode(), self._token):
            return _error(_AUTHENTICATION, "Authentication failed: the token is wrong", 403)
        for name in request.query_params:
            if name not in _TRANSPORT and not name.startswith("param_"):
                return _error(_READONLY, f"Cannot modify '{name[:80]}' setting in readonly mode", 403)
        try:
            sql = request.query_params.get("query", "") + await self._body(request)
        except StatementRefused as refused:
            return _error(_READONLY, str(refused), 413)
        except BadEncoding as bad:
            return _error(_CANNOT_DECOMPRESS, str(bad), 400)
        except UnicodeDecodeError:
            return _error(62, "the statement is not UTF-8", 400)
        return PlainTextResponse("Ok.\n") if not sql.strip() else await self._run(request, sql)

    async def _body(self, request: Request) -> str:
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > self._body_bytes:
                raise StatementRefused(self._too_long)
        try:
            return unpacked(bytes(data), request.headers.get("content-encoding", "").lower(), self._body_bytes).decode()
        except TooLong:
            raise StatementRefused(self._too_long) from None

    async def _run(self, request: Request, sql: str) -> Response:
        try:
            parameters = _parameters(request.query_params, sql)
        except ValueError as fault:
            return _error(_BAD_ARGUMENT, str(fault), 400)
        output = request.query_params.get("default_format") or request.headers.get("x-clickhouse-format") or "TabSeparated"
        try:
            result = await self._readers.run(sql, output, parameters)
        except StatementRefused as refused:
            return _error(_READONLY, str(refused), 403)
        except TooManyQueries:
            return _error(_TOO_MANY, "Too many simultaneous queries", 503)
        except ClickHouseError as fault:
            return _engine_error(fault)
        headers = {"X-ClickHouse-Format": output, "X-ClickHouse-Server-Display-Name": "fourgates", "Cache-Control": "no-store"}
        if request.query_params.get("enable_http_compression") == "1":
            result, encoding = packed(result, request.headers.get("accept-encoding", ""))
            headers |= {"Vary": "Accept-Encoding"} | ({"Content-Encoding": encoding} if encoding else {})
        return Response(result, media_type=_TYPES.get(output, "application/octet-stream"), headers=headers)


def _host(request: Request) -> str:
    host = request.headers.get("host", "")
    return host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]


def _token_of(request: Request) -> str | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return request.headers.get("x-clickhouse-key")


def _parameters(query: Mapping[str, str], sql: str) -> dict[str, Any]:
    """`param_x` values: arrays as literals, everything else in TabSeparated escaping. Raises ValueError for what is no array."""
    arrays, found = set(_ARRAYS.findall(sql)), dict[str, Any]()
    for name, value in query.items():
        if name.startswith("param_"):
            is_array = name[6:] in arrays
            found[name[6:]] = _array(name, value) if is_array else _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), value)
    return found


def _array(name: str, value: str) -> list[str | int | float]:
    """A flat array as ClickHouse writes one, which Python reads alike."""
    try:
        found = ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        found = None
    if not isinstance(found, list) or not all(type(one) in (str, int, float) for one in found):
        raise ValueError(f"{name[:80]} is not an array of texts or numbers such as ['a', 'b']")
    return found


def _engine_error(fault: ClickHouseError) -> Response:
    text = str(fault)
    found = _CODE.search(text)
    code = int(found[1]) if found else _UNKNOWN
    return _error(code, text, _STATUS.get(code, 500))


def _error(code: int, text: str, status: int) -> Response:
    body = text if text.startswith("Code:") else f"Code: {code}. DB::Exception: {text}"
    return PlainTextResponse(body + "\n", status_code=status, headers={"X-ClickHouse-Exception-Code": str(code)})
