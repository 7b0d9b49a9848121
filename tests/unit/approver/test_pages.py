"""The approver's pages: what a person sees, what a hostile argument cannot do, and what another site cannot do."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fourgates.approval.service.app import build_app
from fourgates.approval.service.presenting import difference
from fourgates.approval.service.rendering import HERE, visible
from fourgates.approval.service.settings import ServiceSettings
from fourgates.approval.visible import as_text, pieces
from fourgates.catalog import Preview
from fourgates.contract.events import ApprovalKind, HoldReason, LedgerKind
from fourgates.contract.parts import Breach
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person
from support.approver import BASE, approver, hidden, ports_of, sign_in, token
from support.samples import PRINCIPAL
from support.serving import served
from support.waiting import Waiting, call_of

H, D = "h" * 32, "d" * 32
HOSTILE = "<script>alert(1)</script>\"'>{{7*7}}\u202e\u200b\u2066"


@pytest.fixture
async def ben(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Signed in by the development form."""
    assert (await sign_in(client, user="ben")).status_code == 303
    return client


async def decide(client: httpx.AsyncClient, hold_id: str = H, **fields: str) -> httpx.Response:
    """Fills in the form of a hold's page."""
    page = await client.get(f"/holds/{hold_id}")
    filled = {"csrf": hidden(page, "csrf"), "shown_digest": hidden(page, "shown_digest")} | fields
    return await client.post(f"/holds/{hold_id}/decision", data=filled)


def text_of(page: httpx.Response) -> str:
    """The page as it is read, tags taken out."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", page.text)).split())


@pytest.mark.parametrize("path", ["/", "/history", f"/holds/{H}", f"/holds/{H}/state", "/inbox"])
async def test_who_is_not_signed_in_sees_nothing(client: httpx.AsyncClient, path: str) -> None:
    """A7"""
    answer = await client.get(path)
    assert answer.status_code == 303 and answer.headers["location"].split("?")[0] == "/signin"
    assert (await client.get(path, headers={"sec-fetch-dest": "empty"})).status_code == 401


@pytest.mark.usefixtures("asked")
async def test_detail_answers_what_to_what_who_and_why(ben: httpx.AsyncClient) -> None:
    """A2"""
    inbox = text_of(await ben.get("/"))
    assert "1 call waits" in inbox and "100.00 EUR" in inbox and "order A-1001" in inbox
    seen = text_of(await ben.get(f"/holds/{H}"))
    expected = (
        "refund_order",
        "100.00 EUR",
        "order A-1001",
        "It cannot be undone.",
        '{"amount":100,"order_id":"A-1001"}',
        "anna",
    )
    for part in (*expected, "support-bot", "refund order A-1001", "untrusted", "no policy says", "refunds-need-people"):
        assert part in seen, part


@pytest.mark.usefixtures("asked")
async def test_page_says_approved_only_when_the_fold_says_so(
    world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient
) -> None:
    """A8"""
    answer = await decide(ben, verdict="approve", reason="fine")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/holds/{H}")
    page = await ben.get(f"/holds/{H}")
    assert "It was approved by ben." in text_of(page) and "data-decide" not in page.text
    assert "approved by ben" in text_of(await ben.get("/history"))
    assert "Nothing waits for you." in text_of(await ben.get("/"))
    await world.settle(worker)
    assert world.cleared()[0].approvers == ("ben",)


@pytest.mark.usefixtures("asked")
async def test_second_tab_is_told_who_won(world: Waiting, ben: httpx.AsyncClient) -> None:
    """A6"""
    page = await ben.get(f"/holds/{H}")
    digest = hidden(page, "shown_digest")
    await world.publish("approver", decided(H, "deny", person("dora"), shown_digest=digest))
    fields = {"csrf": hidden(page, "csrf"), "shown_digest": digest, "verdict": "approve"}
    answer = await ben.post(f"/holds/{H}/decision", data=fields)
    assert answer.status_code == 409 and "already denied by dora" in text_of(answer)
    assert "approved by" not in text_of(answer).lower()


@pytest.mark.usefixtures("asked")
async def test_denial_keeps_its_reason_from_the_model_unless_marked(
    world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient
) -> None:
    """A4, A11"""
    await decide(ben, verdict="deny", reason="looks like fraud")
    await world.settle(worker)
    assert world.ledger(LedgerKind.REFUSED)[0].sentence == ""
    assert "looks like fraud" in text_of(await ben.get(f"/holds/{H}"))


async def test_hostile_text_is_shown_and_does_nothing(world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient) -> None:
    """A2: in every field that somebody else writes."""
    world.shop.preview = lambda args: Preview(HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: 1}, True, amount=HOSTILE)
    asker = PRINCIPAL.__class__(
        issuer=HOSTILE, subject=HOSTILE, tenant=PRINCIPAL.tenant, person=HOSTILE, agent=HOSTILE, groups=(HOSTILE,)
    )
    call = call_of(world.shop, arguments={"order_id": HOSTILE}, principal=asker, intent=HOSTILE)
    breach = Breach(pointer=HOSTILE, origin=HOSTILE, allowed=(HOSTILE,), on_breach="hold", source=HOSTILE, quote=HOSTILE)
    await world.hold(call=call, reason=HoldReason.ORIGIN_BREACH, breaches=(breach,), detail=HOSTILE, facts=HOSTILE)
    await world.settle(worker)
    await decide(ben, verdict="deny", reason=HOSTILE)
    for path in ("/", f"/holds/{H}", "/history", f"/holds/{H}/state"):
        page = await ben.get(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert not set("\u202e\u200b\u2066") & set(page.text)
    assert "U+202E" in (await ben.get(f"/holds/{H}")).text


async def test_long_arguments_are_not_cut(world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient) -> None:
    """A2"""
    await world.hold(call=call_of(world.shop, arguments={"order_id": "x" * 100_000 + "END"}))
    await world.settle(worker)
    assert "x" * 100_000 + "END" in (await ben.get(f"/holds/{H}")).text


async def test_big_integers_stay_whole_on_the_page(world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient) -> None:
    """A2"""
    world.shop.preview = lambda args: Preview("x", {"n": 9007199254740991}, {"n": 9007199254740990}, True)
    await world.hold()
    await world.settle(worker)
    page = text_of(await ben.get(f"/holds/{H}"))
    assert "9007199254740991" in page and "9007199254740990" in page


@pytest.mark.usefixtures("asked")
async def test_form_without_its_secret_decides_nothing(world: Waiting, ben: httpx.AsyncClient) -> None:
    """A6"""
    page = await ben.get(f"/holds/{H}")
    fields = {"shown_digest": hidden(page, "shown_digest"), "verdict": "approve"}
    for csrf in ({}, {"csrf": ""}, {"csrf": "x" * 43}):
        assert (await ben.post(f"/holds/{H}/decision", data=fields | csrf)).status_code == 403
    twice = f"csrf={hidden(page, 'csrf')}&shown_digest={fields['shown_digest']}&verdict=deny&verdict=approve"
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert (await ben.post(f"/holds/{H}/decision", content=twice, headers=kind)).status_code == 403
    assert world.approvals(ApprovalKind.DECIDED) == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("fields", [{}, {"verdict": "yes"}, {"verdict": "approve", "quorum": "1"}, {"verdict": ""}])
async def test_form_that_is_no_decision_is_refused(world: Waiting, ben: httpx.AsyncClient, fields: dict[str, str]) -> None:
    """A6"""
    assert (await decide(ben, **fields)).status_code == 422
    assert world.approvals(ApprovalKind.DECIDED) == []


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"origin": "http://127.0.0.1:9"}, {"sec-fetch-site": "cross-site"},
     {"sec-fetch-site": "same-site"}],
)  # fmt: skip
@pytest.mark.usefixtures("asked")
async def test_other_sites_cannot_decide(world: Waiting, ben: httpx.AsyncClient, headers: dict[str, str]) -> None:
    """A6"""
    page = await ben.get(f"/holds/{H}")
    fields = {"csrf": hidden(page, "csrf"), "shown_digest": hidden(page, "shown_digest"), "verdict": "approve"}
    assert (await ben.post(f"/holds/{H}/decision", data=fields, headers=headers)).status_code == 403
    assert world.approvals(ApprovalKind.DECIDED) == []
    same = {"origin": BASE, "sec-fetch-site": "same-origin"}
    assert (await ben.post(f"/holds/{H}/decision", data=fields, headers=same)).status_code == 303


@pytest.mark.usefixtures("asked")
async def test_cookie_does_not_open_the_api(ben: httpx.AsyncClient) -> None:
    """A7"""
    assert (await ben.get("/api/holds")).status_code == 401


async def test_request_for_another_host_is_refused(client: httpx.AsyncClient) -> None:
    """A8: a name that somebody points at us does not reach the page."""
    assert (await client.get("/signin", headers={"host": "evil.example"})).status_code == 400
    assert (await client.get("/signin", headers={"host": "localhost:8080"})).status_code == 200


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("path", ["/", f"/holds/{H}", "/signin", "/static/page.js", "/api/holds", "/nowhere"])
async def test_every_answer_forbids_scripts_that_are_not_ours(ben: httpx.AsyncClient, path: str) -> None:
    """A2"""
    answer = await ben.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")


def test_templates_hold_no_inline_script_or_style_and_nothing_from_elsewhere() -> None:
    """A8"""
    foreign = re.compile(r"<script(?![^>]*src=\"/static/)|<style|\sstyle=|\son\w+=|https?://|\|\s*safe")
    for template in (HERE / "templates").glob("*.html"):
        assert not foreign.search(template.read_text()), template.name


async def test_session_cookie_is_out_of_reach_and_ends(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7"""
    answer = await sign_in(client, user="ben")
    (cookie,) = [c for c in answer.headers.get_list("set-cookie") if c.startswith("fourgates_session")]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert (await client.get("/")).status_code == 200
    await world.clock.advance(1_801)
    assert (await client.get("/")).status_code == 303


async def test_session_never_outlives_its_token(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7"""
    await sign_in(client, token=token(world, "ben", ttl_s=60))
    assert (await client.get("/")).status_code == 200
    await world.clock.advance(91)
    assert (await client.get("/")).status_code == 303


async def test_new_sign_in_ends_the_one_before_it_in_this_browser(ben: httpx.AsyncClient) -> None:
    """A7"""
    before = ben.cookies["fourgates_session"]
    await sign_in(ben, user="ben")
    assert ben.cookies["fourgates_session"] != before and (await ben.get("/")).status_code == 200
    ben.cookies.set("fourgates_session", before)
    assert (await ben.get("/")).status_code == 303


async def test_sign_out_ends_the_session(ben: httpx.AsyncClient) -> None:
    """A7"""
    session = ben.cookies["fourgates_session"]
    page = await ben.get("/")
    await ben.post("/signout", data={"csrf": "wrong"})
    assert (await ben.get("/")).status_code == 200
    await ben.post("/signout", data={"csrf": hidden(page, "csrf")})
    ben.cookies.set("fourgates_session", session)
    assert (await ben.get("/")).status_code == 303


async def test_agents_services_and_other_tokens_cannot_sign_in(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7"""
    for bearer in (
        token(world, "ben", agent="helper"), token(world, "ben", service=True), token(world, "ben", audience="fourgates"),
        token(world, "ben", ttl_s=-60), "x", "",
    ):  # fmt: skip
        assert (await sign_in(client, token=bearer)).status_code == 403
    assert (await sign_in(client, user="mallory")).status_code == 403
    assert "fourgates_session" not in client.cookies


async def test_nobody_can_sign_another_person_in(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7: a form of another site does not carry what this browser's cookie repeats."""
    await client.get("/signin")
    assert (await client.post("/signin", data={"key": "guessed", "user": "ben"})).status_code == 403
    assert (await client.post("/signin", data={"user": "ben"})).status_code == 403


async def test_development_users_are_offered_only_with_an_issuer(world: Waiting) -> None:
    """P1"""
    async with approver(world, settings=ServiceSettings()) as client:
        assert 'name="user"' not in (await client.get("/signin")).text
        assert (await sign_in(client, user="ben")).status_code == 403


async def test_doubt_offers_its_own_words(world: Waiting, worker: MemoryWorker, ben: httpx.AsyncClient) -> None:
    """E6"""
    await world.doubt(D)
    await world.settle(worker)
    page = await ben.get(f"/holds/{D}")
    assert 'value="committed"' in page.text and 'value="approve"' not in page.text and "attempted 1 time." in text_of(page)
    assert "What will happen" not in text_of(page)
    assert (await decide(ben, D, verdict="committed")).status_code == 303
    assert "It was answered by ben: it took effect." in text_of(await ben.get(f"/holds/{D}"))


@pytest.mark.usefixtures("asked")
async def test_other_groups_and_tenants_see_nothing_of_a_call(world: Waiting) -> None:
    """A11"""
    async with approver(world) as client:
        await sign_in(client, token=token(world, "eve", groups=["support"]))
        assert "Nothing waits" in text_of(await client.get("/"))
        page = await client.get(f"/holds/{H}")
        assert page.status_code == 403 and "refund_order" not in page.text
        assert (await client.get(f"/holds/{H}/state")).status_code == 403
        assert (await client.get("/holds/" + "9" * 32)).status_code == 404


@pytest.mark.usefixtures("asked")
async def test_who_asked_sees_that_somebody_else_decides(world: Waiting) -> None:
    """A7"""
    async with approver(world) as client:
        await sign_in(client, token=token(world, PRINCIPAL.subject))
        page = await client.get(f"/holds/{H}")
        assert "somebody else has to decide" in text_of(page) and '<form class="decide"' not in page.text


async def test_change_reaches_an_open_page(world: Waiting, worker: MemoryWorker) -> None:
    """A8: over a real socket, because a stream has no end."""
    users = ServiceSettings(development_users=({"name": "ben"},))  # type: ignore[arg-type]  # pydantic makes it one
    app = build_app(ports_of(world), users, lambda name: token(world, name))
    async with app.router.lifespan_context(app), served(app) as address:
        async with asyncio.timeout(10), httpx.AsyncClient(base_url=address) as client:
            await sign_in(client, user="ben")
            async with client.stream("GET", "/events") as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                await world.hold("e" * 32, call_of(world.shop, call_id="e" * 64), group="others")
                await world.hold()
                told = [line async for line in _until(stream, H)]
        assert not any("e" * 32 in line for line in told)


async def _until(stream: httpx.Response, what: str) -> AsyncIterator[str]:
    async for line in stream.aiter_lines():
        yield line
        if what in line:
            return


# Unseen characters ---------------------------------------------------------------------------------------------------------


@given(st.text())
def test_nothing_is_left_out_and_nothing_unseen_is_left(text: str) -> None:
    """A2"""
    found = list(pieces(text))
    assert "".join(piece.text for piece in found) == text
    assert all(len(piece.text) == 1 for piece in found if piece.name)
    assert as_text(as_text(text)) == as_text(text)


@pytest.mark.parametrize(
    "char",
    ["\u202e", "\u2066", "\u200b", "\u200d", "\u00ad", "\ufeff", "\u2028", "\u00a0", "\u3000", "\t", "\x00", "\x7f", "\x85",
     "\u3164", "\u2800", "\ufe0f", "\u034f", "\U000e0041", "\U000e0100", "\ue000", "\r"],
)  # fmt: skip
def test_character_without_a_shape_gets_one(char: str) -> None:
    """A2"""
    assert as_text(f"a{char}b") == f"a<U+{ord(char):04X}>b"
    assert f"U+{ord(char):04X}" in visible(f"a{char}b") and char not in visible(f"a{char}b")


def test_words_of_people_stay_readable() -> None:
    """A2"""
    assert as_text("Grüße aus 東京, שלום!\n") == "Grüße aus 東京, שלום!\n"


def test_difference_names_what_changes() -> None:
    """A2"""
    rows = difference({"a": 1, "b": True}, {"a": 1, "b": 1, "c": None})
    named = {row.name: (row.before, row.after, row.changed) for row in rows}
    assert named == {"a": ("1", "1", False), "b": ("true", "1", True), "c": ("–", "null", True)}
    assert [row.changed for row in difference("x", ["x"])] == [True]
