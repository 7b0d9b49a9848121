"""In which order people see what waits, what stands together, and how the past is searched and turned over."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest

from fourgates.approval.service.settings import ServiceSettings
from fourgates.contract.events import ApprovalKind, HoldReason
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person
from support.approver import Browser, approver, sign_in, token
from support.samples import PRINCIPAL
from support.waiting import Waiting, call_of


@pytest.fixture
def ben(world: Waiting, client: httpx.AsyncClient) -> Browser:
    return Browser(client, token(world, "ben"))


async def ended(world: Waiting, worker: MemoryWorker, letter: str, verdict: str, who: str = "dora", **call: Any) -> None:
    """A call that somebody decided."""
    await world.hold(letter * 32, call_of(world.shop, call_id=letter * 64, **call))
    await world.settle(worker)
    shown = world.approvals(ApprovalKind.REQUESTED, letter * 32)[0].record.requested.shown_digest
    said = decided(letter * 32, verdict, person(who), call_id=letter * 64, shown_digest=shown)
    await world.publish("approver", dataclasses.replace(said, event_id=f"{verdict}-{letter}"))
    await world.settle(worker)
    await world.clock.advance(1)


async def letters(ben: Browser, query: str = "") -> str:
    """The first letters of the holds that the history gives."""
    answer = await ben.get(f"/api/history{query}")
    assert answer.status_code == 200, answer.text
    return "".join(hold["hold_id"][0] for hold in answer.json()["holds"])


async def test_riskiest_comes_first_then_the_doubt_then_what_ends_first(
    world: Waiting, worker: MemoryWorker, ben: Browser
) -> None:
    """A8"""
    now = world.clock.now_ms()
    await world.hold("1" * 32, call_of(world.shop, call_id="1" * 64), expires_ms=now + 900_000)
    await world.hold("2" * 32, call_of(world.shop, call_id="2" * 64), expires_ms=now + 100_000)
    await world.hold("3" * 32, call_of(world.shop, "delete_account", call_id="3" * 64))
    await world.doubt("4" * 32, call_of(world.shop, call_id="4" * 64))
    await world.settle(worker)
    listed = (await ben.get("/api/holds")).json()["holds"]
    assert "".join(hold["hold_id"][0] for hold in listed) == "3421"


async def test_only_equal_requests_stand_together(world: Waiting, worker: MemoryWorker) -> None:
    """A9: other arguments, another asker, another reason are other questions."""
    other = dataclasses.replace(PRINCIPAL, person="carl", subject="carl")
    await world.hold("1" * 32, call_of(world.shop, call_id="1" * 64))
    await world.hold("2" * 32, call_of(world.shop, call_id="2" * 64))
    await world.hold("3" * 32, call_of(world.shop, call_id="3" * 64, arguments={"amount": 101}))
    await world.hold("4" * 32, call_of(world.shop, call_id="4" * 64, principal=other))
    await world.hold("5" * 32, call_of(world.shop, call_id="5" * 64), reason=HoldReason.ORIGIN_BREACH)
    await world.settle(worker)
    async with approver(world) as client:
        await sign_in(client, user="ben")
        page = (await client.get("/")).text
    assert page.count('class="card write"') == 4 and "2 equal requests" in page and "5</strong> calls wait" in page


async def test_more_than_the_page_holds_is_counted_not_hidden(world: Waiting, worker: MemoryWorker) -> None:
    """A9: a flood leaves the most pressing on top."""
    for n in range(12):
        arguments = {"amount": n + 1}
        await world.hold(f"{n:032}", call_of(world.shop, call_id=f"{n:064}", arguments=arguments))
    await world.hold("d" * 32, call_of(world.shop, "delete_account", call_id="d" * 64))
    await world.settle(worker)
    settings = ServiceSettings(listed=5, development_users=({"name": "ben"},))  # type: ignore[arg-type]  # pydantic makes it one
    async with approver(world, settings=settings) as client:
        await sign_in(client, user="ben")
        page = (await client.get("/")).text
    assert page.count('class="card ') == 5 and "8 more wait." in page and "13</strong> calls wait" in page
    assert page.index("delete_account") < page.index("refund_order")


async def test_what_waits_is_turned_over_page_by_page(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A8, A9: every page is bounded, the pages together are everything once and in order, whatever is decided meanwhile."""
    now = world.clock.now_ms()
    for n in range(12):
        call = call_of(world.shop, call_id=f"{n:064}", arguments={"amount": n + 1})
        await world.hold(f"{n:032}", call, expires_ms=now + 900_000)
    await world.hold("d" * 32, call_of(world.shop, "delete_account", call_id="d" * 64))
    await world.settle(worker)
    pages: list[list[str]] = []
    query = "?limit=5"
    while query:
        answer = (await ben.get(f"/api/holds{query}")).json()
        pages.append([hold["hold_id"] for hold in answer["holds"]])
        assert answer["waiting"] == 14 - len(pages)
        query = answer["next"] and f"?limit=5&after={answer['next']}"
        await ben.decide(pages[-1][0], "deny")
        await world.settle(worker)
    assert [len(page) for page in pages] == [5, 5, 3]
    assert [hold_id for page in pages for hold_id in page] == ["d" * 32, *(f"{n:032}" for n in range(12))]


@pytest.mark.parametrize(
    "query", ["?limit=0", "?limit=1001", "?after=x", "?after=WzFd", "?after=W10=", f"?after={'W' * 401}", "?page=2"]
)
async def test_page_that_there_cannot_be_is_said_so(ben: Browser, query: str) -> None:
    """A8"""
    answer = await ben.get(f"/api/holds{query}")
    assert (answer.status_code, answer.json()["outcome"]) == (422, "malformed")


async def test_no_page_is_longer_than_what_is_said_to_be_the_most(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A9: also for who asks for no limit; and the document says so."""
    for n in range(201):
        asker = dataclasses.replace(PRINCIPAL, agent=f"bot-{n // 50}")
        await world.hold(f"{n:032}", call_of(world.shop, call_id=f"{n:064}", principal=asker))
    await world.settle(worker)
    answer = (await ben.get("/api/holds")).json()
    assert (len(answer["holds"]), answer["waiting"], bool(answer["next"])) == (200, 201, True)
    document = (await ben.get("/api/openapi.json")).json()
    limit = next(p for p in document["paths"]["/api/holds"]["get"]["parameters"] if p["name"] == "limit")
    assert (limit["schema"]["default"], limit["schema"]["maximum"]) == (200, 1_000)


async def test_what_somebody_else_has_to_decide_is_kept_apart(world: Waiting, worker: MemoryWorker) -> None:
    """A7: what one asked for, and what waits for a second person."""
    await world.hold("1" * 32, call_of(world.shop, call_id="1" * 64), quorum=2)
    await world.hold("2" * 32, call_of(world.shop, call_id="2" * 64, principal=dataclasses.replace(PRINCIPAL, person="ben")))
    await world.settle(worker)
    async with approver(world) as client:
        await Browser(client, token(world, "ben")).decide("1" * 32, "approve")
        await sign_in(client, user="ben")
        page = (await client.get("/")).text
    assert "Nothing waits for you." in page and "Waiting for somebody else" in page
    assert "you have said yes" in page and "you asked for it" in page


async def test_history_is_narrowed_by_every_part_of_a_search(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A8"""
    await ended(world, worker, "1", "approve", arguments={"order_id": "A-7"})
    await ended(world, worker, "2", "deny", arguments={"order_id": "A-8\u200b"})
    await ended(world, worker, "3", "deny", "ben", tool="delete_account")
    assert await letters(ben) == "321"
    assert await letters(ben, "?state=denied") == "32" and await letters(ben, "?state=expired") == ""
    assert await letters(ben, "?risk=destructive") == "3"
    assert await letters(ben, "?by=me") == "3"
    assert await letters(ben, "?q=a-7") == "1" and await letters(ben, "?q=A-8 dora") == "2"
    assert await letters(ben, "?q=u%2B200b") == "2", "what cannot be seen is found by its name"
    assert await letters(ben, "?q=1111111111&state=approved") == "1" and await letters(ben, "?q=zebra") == ""


async def test_history_is_turned_over_page_by_page(world: Waiting, worker: MemoryWorker) -> None:
    """A8: nothing twice, nothing left out."""
    for letter in "12345":
        await ended(world, worker, letter, "deny")
    async with approver(world, settings=ServiceSettings(history=2)) as client:
        ben = Browser(client, token(world, "ben"))
        seen, query = "", ""
        for _ in range(4):
            page = (await ben.get(f"/api/history{query}")).json()
            seen += "".join(hold["hold_id"][0] for hold in page["holds"])
            if page["before"] is None:
                break
            query = f"?before={page['before']}"
    assert seen == "54321"


@pytest.mark.parametrize("query", ["?state=maybe", "?before=x", "?before=-1", "?sort=up", "?q=" + "x" * 201])
async def test_search_that_there_is_not_is_refused(ben: Browser, query: str) -> None:
    """A8"""
    assert (await ben.get(f"/api/history{query}")).status_code == 422


async def test_history_of_others_is_not_shown(world: Waiting, worker: MemoryWorker, client: httpx.AsyncClient) -> None:
    """A11"""
    await ended(world, worker, "1", "deny")
    for claims in ({"groups": ["support"]}, {"tenant": "other"}):
        assert await letters(Browser(client, token(world, "eve", **claims))) == ""
