"""HTTP tools: a model's argument never becomes more than a value, and an answer never more than the contract says."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Committed, ProbeVerdict, ToolContext, ToolError, ToolErrorKind
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import Declared
from fourgates.tools.http import Answer, HttpLimits, HttpTool
from fourgates.tools.http_asks import HttpFacts, HttpProbe
from fourgates.tools.http_request import HttpRequest
from fourgates.tools.sources import Constant
from support.eventually import eventually
from support.http_downstream import HttpDownstream, Say
from support.samples import PRINCIPAL

CONTEXT = ToolContext("k" * 64, 7, 1_800_000_000_000, PRINCIPAL, {"etag": "v3"})
HELD = Declared(reason="card_declined", sentence="The card was declined.", not_executed=True)


@pytest_asyncio.fixture
async def there() -> AsyncIterator[HttpDownstream]:
    async with HttpDownstream() as made:
        yield made


def get(there: HttpDownstream, path: str = "/orders/{/order}", **more: Any) -> HttpTool:
    fields = {name: more.pop(name) for name in ("query", "headers") if name in more}
    return HttpTool(HttpRequest(method="GET", url=there.url + path, **fields), **more)


def post(there: HttpDownstream, **more: Any) -> HttpTool:
    headers = {"Idempotency-Key": "@key", "X-Fence": "@fence", "If-Match": "@precondition/etag", "X-For": "@principal/subject"}
    body = {"/amount/cents": "/cents", "/amount/currency": Constant("EUR"), "/order": "/order"}
    return HttpTool(HttpRequest(method="POST", url=there.url + "/refunds", headers=headers, body=body), **more)


async def called(tool: HttpTool, **args: Any) -> Any:
    answer = await tool(args, CONTEXT)
    assert isinstance(answer, Committed)
    return answer.content


async def failed(tool: HttpTool, **args: Any) -> ToolError:
    with pytest.raises(ToolError) as told:
        await tool(args, CONTEXT)
    return told.value


async def test_arguments_context_and_constants_go_where_the_contract_says(there: HttpDownstream) -> None:
    """E12: key, fence, precondition and principal reach the downstream."""
    there.says = lambda seen: Say(201, {"data": {"id": "R-1"}})
    assert await called(post(there, result="/data"), order="A-1", cents=500) == {"id": "R-1"}
    [seen] = there.seen
    assert (seen.method, seen.target) == ("POST", "/refunds")
    assert json.loads(seen.body) == {"amount": {"cents": 500, "currency": "EUR"}, "order": "A-1"}
    expected = {"idempotency-key": "k" * 64, "x-fence": "7", "if-match": "v3", "x-for": "anna", "accept-encoding": "identity"}
    assert expected.items() <= seen.headers.items()


async def test_all_arguments_as_they_are(there: HttpDownstream) -> None:
    tool = HttpTool(HttpRequest(method="PUT", url=there.url + "/things", body={"": "", "/by": "@principal/subject"}))
    await called(tool, name="é", parts=[1, {"x": None}])
    assert json.loads(there.seen[0].body) == {"name": "é", "parts": [1, {"x": None}], "by": "anna"}


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "",
        "a/b",
        "..\\x",
        "%2e%2e",
        "%252e%252e%252f",
        "a\0",
        "a\nb",
        "..;x",
        "%2fetc",
        "a%0d%0aHost: x",
        "\x7f",
        "a\uff0fb",
        "\u2025",
        "%c0%ae%c0%ae",
        "%25c0%25af",
    ],
)
async def test_a_value_that_is_more_than_a_name_stays_out_of_the_path(there: HttpDownstream, value: str) -> None:
    """E10"""
    told = await failed(get(there), order=value)
    assert (told.reason, told.kind, told.not_executed) == ("unsafe_argument", ToolErrorKind.INVALID, True)
    assert there.seen == []


async def test_two_holes_cannot_make_a_step_upwards(there: HttpDownstream) -> None:
    """E10"""
    told = await failed(get(there, "/a/{/x}.{/y}"), x="", y="")
    assert told.reason == "unsafe_argument"
    two = get(there, "/a/{/x}{/y}/b")
    assert (await failed(two, x=".", y=".")).reason == "unsafe_argument"


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text(min_size=1))
def test_whatever_the_text_host_path_and_names_stay_as_they_are(query: str, header: str) -> None:
    """E10: percent-encoding is undone to exactly the value, and to nothing else."""
    request = HttpRequest(
        method="GET", url="https://shop.example/find", query={"q": "/q", "limit": Constant(5)}, headers={"X-Note": "/h"}
    )
    args = {"q": query.encode(errors="ignore").decode(), "h": header.encode(errors="ignore").decode()}
    url, headers, body = request.made(args, CONTEXT)
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.path, parts.fragment, body) == ("https", "shop.example", "/find", "", None)
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", args["q"]), ("limit", "5")]
    assert headers["X-Note"].isascii() and headers["X-Note"].isprintable()
    assert unquote(headers["X-Note"]) == args["h"]


async def test_missing_and_null_are_left_out_and_lists_repeat(there: HttpDownstream) -> None:
    tool = get(there, "/find", query={"tag": "/tags", "from": "/since", "all": "/all"}, headers={"X-None": "/nobody"})
    await called(tool, tags=["a&b", "c=d"], since=None, all=True)
    assert there.seen[0].target == "/find?tag=a%26b&tag=c%3Dd&all=true"
    assert "x-none" not in there.seen[0].headers


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [(400, ToolErrorKind.TERMINAL, "http_400"), (500, ToolErrorKind.TRANSIENT, "http_500"),
     (303, ToolErrorKind.TERMINAL, "http_303"), (429, ToolErrorKind.TRANSIENT, "http_429"),
     (503, ToolErrorKind.TRANSIENT, "http_503")],
)  # fmt: skip
async def test_no_status_of_itself_says_that_a_write_did_not_happen(
    there: HttpDownstream, status: int, kind: ToolErrorKind, reason: str
) -> None:
    """E6"""
    there.says = lambda seen: Say(status, {"error": "psql at 10.0.0.3 said no"}, {"Location": "/elsewhere"})
    told = await failed(post(there), order="A-1", cents=1)
    assert (told.reason, told.kind, told.not_executed) == (reason, kind, False)
    assert "psql" not in told.sentence
    assert len(there.seen) == 1


async def test_the_contract_says_which_answers_mean_what(there: HttpDownstream) -> None:
    """R7, E6"""
    answers = (
        Answer(status="402", means=HELD, at="/error", equals="declined"),
        Answer(status="409", means=None),
        Answer(status="4xx", means=Declared(reason="no_such_order", sentence="No such order.", kind=ToolErrorKind.INVALID)),
    )
    tool = post(there, answers=answers)
    there.says = lambda seen: Say(402, {"error": "declined"})
    told = await failed(tool, order="A-1", cents=1)
    assert (told.reason, told.not_executed) == ("card_declined", True)
    there.says = lambda seen: Say(402, {"error": "other"})
    told = await failed(tool, order="A-1", cents=1)
    assert (told.reason, told.kind, told.not_executed) == ("no_such_order", ToolErrorKind.INVALID, False)
    there.says = lambda seen: Say(409, {"already": True})
    assert await called(tool, order="A-1", cents=1) == {"already": True}


@pytest.mark.parametrize(
    "say", [Say(200, {"long": "answer"}, cut=5), Say(200, cut=0), Say(200, {"x": 1}, {"Content-Length": "999"}, cut=8)]
)
async def test_an_answer_that_is_lost_leaves_doubt(there: HttpDownstream, say: Say) -> None:
    """E3"""
    there.says = lambda seen: say
    told = await failed(post(there), order="A-1", cents=1)
    assert (told.reason, told.not_executed) == ("answer_lost", False)


async def test_nobody_there_is_the_one_thing_that_is_known_not_to_have_run() -> None:
    """E6"""
    async with HttpDownstream() as gone:
        tool = post(gone)
    told = await failed(tool, order="A-1", cents=1)
    assert (told.reason, told.kind, told.not_executed) == ("not_reached", ToolErrorKind.TRANSIENT, True)


async def test_retry_after_is_heard(there: HttpDownstream) -> None:
    """E9"""
    later = email.utils.formatdate(time.time() + 60, usegmt=True)
    for said, low, high in (("7", 7, 7), (later, 50, 60), ("99999999", 86_400, 86_400)):
        there.says = lambda seen, said=said: Say(429, None, {"Retry-After": said})
        waits = (await failed(get(there), order="A-1")).retry_after_s
        assert waits is not None and low <= waits <= high
    for said in ("soon", "-5", ""):
        there.says = lambda seen, said=said: Say(503, None, {"Retry-After": said})
        assert (await failed(get(there), order="A-1")).retry_after_s is None


async def test_a_read_follows_on_its_host_and_nowhere_else(there: HttpDownstream) -> None:
    """E10: no redirect leads a request, and what it carries, to another host."""
    there.says = lambda seen: Say(302, None, {"Location": "/orders/B-2"}) if "A-1" in seen.target else Say(200, seen.target)
    assert await called(get(there), order="A-1") == "/orders/B-2"
    async with HttpDownstream() as other:
        port = other.url.rpartition(":")[2]
        for place in (other.url, f"//127.0.0.1:{port}/", f"http://user@127.0.0.1:{there.url.rpartition(':')[2]}/", "http://localhost/",
                      "file:///etc/passwd", "https://127.0.0.1/"):  # fmt: skip
            there.says = lambda seen, place=place: Say(302, None, {"Location": place})
            assert (await failed(get(there), order="A-1")).reason == "redirected_elsewhere"
        assert other.seen == []
    there.says = lambda seen: Say(302, None, {"Location": "http://127.0.0.1:x/"})
    assert (await failed(get(there), order="A-1")).reason == "answer_lost"
    there.says = lambda seen: Say(302, None, {"Location": seen.target})
    assert (await failed(get(there), order="A-1")).reason == "too_many_redirects"


async def test_answers_end_at_their_limit_also_those_that_unfold(there: HttpDownstream) -> None:
    """R1"""
    tool = get(there, limits=HttpLimits(answer_bytes=100))
    there.says = lambda seen: Say(200, "x" * 200)
    assert (await failed(tool, order="A-1")).reason == "answer_too_large"
    there.says = lambda seen: Say(200, gzip.compress(b"0" * 10_000), {"Content-Encoding": "gzip"})
    assert (await failed(tool, order="A-1")).reason == "answer_unreadable"
    assert (await failed(post(there, limits=HttpLimits(answer_bytes=5)), order="A-1", cents=1)).not_executed is False


async def test_what_is_no_json_is_text(there: HttpDownstream) -> None:
    there.says = lambda seen: Say(200, b"caf\xc3\xa9 \xff", {"Content-Type": "text/plain"})
    assert await called(get(there), order="A-1") == "café �"
    there.says = lambda seen: Say(200, b'{"x": NaN}')
    assert await called(get(there), order="A-1") == '{"x": NaN}'
    there.says = lambda seen: Say(200, b"[" * 100_000)
    assert isinstance(await called(get(there), order="A-1"), str)


async def test_no_cookie_and_no_proxy_of_the_environment_counts(there: HttpDownstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: one caller's session does not become the next one's."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9/")
    tool = get(there, authorization=lambda: "Bearer " + "s" * 10)
    there.says = lambda seen: Say(200, None, {"Set-Cookie": "session=1; Path=/"})
    await called(tool, order="A-1")
    await called(tool, order="A-1")
    assert all("cookie" not in seen.headers and seen.headers["authorization"] == "Bearer ssssssssss" for seen in there.seen)
    assert "ssssss" not in tool.target


async def test_without_its_credential_nothing_is_sent(there: HttpDownstream) -> None:
    """E6"""

    def gone() -> str:
        raise OSError("the vault is away")

    told = await failed(post(there, authorization=gone), order="A-1", cents=1)
    assert (told.reason, told.kind, told.not_executed) == ("no_credential", ToolErrorKind.TRANSIENT, True)
    assert there.seen == []


async def test_cancelled_it_hangs_up(there: HttpDownstream) -> None:
    """E7"""
    there.says = lambda seen: Say(hang=True)
    call = asyncio.create_task(called(post(there), order="A-1", cents=1))
    await eventually(lambda: there.seen)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(there.hung_up.wait(), 5)


async def test_closed_it_holds_no_connection(there: HttpDownstream) -> None:
    tool = get(there)
    await called(tool, order="A-1")
    assert there.open == 1
    await tool.close()
    await eventually(lambda: there.open == 0)
    await tool.close()
    assert await called(tool, order="A-1") is None


async def test_a_probe_knows_what_the_contract_lets_it_know(there: HttpDownstream) -> None:
    """E6: not found is unknown."""
    probe = HttpProbe(get(there, "/refunds/{@key}"), never=(410,))
    for status, verdict in (
        (200, ProbeVerdict.COMMITTED),
        (404, ProbeVerdict.UNKNOWN),
        (500, ProbeVerdict.UNKNOWN),
        (410, ProbeVerdict.NEVER),
    ):
        there.says = lambda seen, status=status: Say(status, {"id": "R-1"})
        answer = await probe({}, CONTEXT)
        assert answer.verdict is verdict
        assert answer.content == ({"id": "R-1"} if status == 200 else None)
    assert there.seen[0].target == f"/refunds/{'k' * 64}"
    with pytest.raises(ConfigurationError, match="@key"):
        HttpProbe(get(there))


async def test_facts_are_an_object_or_not_there(there: HttpDownstream) -> None:
    """B2"""
    facts = HttpFacts(get(there, headers={"X-For": "@principal/subject"}))
    there.says = lambda seen: Say(200, {"owner": seen.headers["x-for"]})
    assert await facts({"order": "A-1"}, PRINCIPAL) == {"owner": "anna"}
    there.says = lambda seen: Say(200, [])
    with pytest.raises(ToolError, match="facts_unreadable"):
        await facts({"order": "A-1"}, PRINCIPAL)
    with pytest.raises(ConfigurationError, match="GET"):
        HttpFacts(post(there))


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"method": "TRACE"}, "method"), ({"url": "/orders"}, "scheme"), ({"url": "ftp://x/"}, "scheme"),
     ({"url": "https://{/host}/"}, "host is fixed"), ({"url": "https://x/?q=1"}, "no query"), ({"url": "https://u@x/"}, "user"),
     ({"url": "https://x/{order}"}, "brace"), ({"url": "https://x/{@secret}"}, "names nothing"),
     ({"headers": {"Host": "/x"}}, "cannot be set"), ({"headers": {"A\r\nB": "/x"}}, "cannot be set"),
     ({"query": {"a": "@principal"}}, "names nothing"), ({"body": {"": ""}}, "no body"),
     ({"method": "POST", "body": {"a": "/a"}}, "JSON Pointers")],
)  # fmt: skip
def test_what_could_be_sent_elsewhere_or_never_is_refused_when_written(fields: dict[str, Any], says: str) -> None:
    """C1"""
    with pytest.raises(ConfigurationError, match=says):
        HttpRequest(**{"method": "GET", "url": "https://shop.example/orders", **fields})


class Refund(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order: str
    cents: int


def registered(run: HttpTool, **more: Any) -> Catalog:
    catalog = Catalog("shop")
    fields = {"name": "refund", "description": "Refunds.", "arguments": Refund, "risk": "write", "timeout": 5, **more}
    catalog.register(run, **fields)
    return catalog


def test_a_contract_that_the_request_does_not_keep_is_refused() -> None:
    """C1"""
    plain = HttpRequest(method="POST", url="https://shop.example/refunds", body={"": ""})
    with pytest.raises(ConfigurationError, match="does not send @key"):
        registered(HttpTool(plain), honours_key=True)
    with pytest.raises(ConfigurationError, match="no argument"):
        registered(HttpTool(HttpRequest(method="POST", url="https://shop.example/{/id}")))
    with pytest.raises(ConfigurationError, match="write by GET"):
        registered(HttpTool(HttpRequest(method="GET", url="https://shop.example/refund/{/order}")))
    with pytest.raises(ConfigurationError, match="no status"):
        HttpTool(plain, answers=(Answer(status="40", means=None),))
    registered(HttpTool(plain))


def test_where_it_goes_and_how_its_answer_is_read_are_part_of_the_version() -> None:
    """B6"""
    url, body = "https://shop.example/refunds", {"": ""}
    tools = [
        HttpTool(HttpRequest(method="POST", url=url, body=body)),
        HttpTool(HttpRequest(method="POST", url="https://other.example/refunds", body=body)),
        HttpTool(HttpRequest(method="PUT", url=url, body=body)),
        HttpTool(HttpRequest(method="POST", url=url, body=body, query={"q": "/order"})),
        HttpTool(HttpRequest(method="POST", url=url, body=body, query={"q": Constant("/order")})),
        HttpTool(HttpRequest(method="POST", url=url, body=body), answers=(Answer(status="402", means=HELD),)),
        HttpTool(HttpRequest(method="POST", url=url, body=body), result="/data"),
    ]
    versions = {tool.version for run in tools for tool in registered(run)}
    assert len(versions) == len(tools)
    again = HttpTool(HttpRequest(method="POST", url=url, body=body))
    assert again.target == tools[0].target
