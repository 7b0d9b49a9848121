"""Ways in which others got approval wrong, at the service and on the page. Each test names the one that it is about."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from fourgates.contract.events import ApprovalKind, LedgerKind
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import withdrawn
from support.approver import Browser, approver, sign_in, token
from support.waiting import Waiting, call_of

H, D = "h" * 32, "d" * 32


@pytest.fixture
def ben(world: Waiting, client: httpx.AsyncClient) -> Browser:
    return Browser(client, token(world, "ben"))


async def test_one_yes_answers_one_of_two_parallel_calls(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A6: "approval consumed by position, not by call", "one yes answers two parallel calls"."""
    for letter in "12":
        await world.hold(letter * 32, call_of(world.shop, call_id=letter * 64))
    await world.settle(worker)
    assert (await ben.decide("2" * 32, "approve")).json()["outcome"] == "approved"
    await world.settle(worker)
    assert [cleared.call.call_id[0] for cleared in world.cleared()] == ["2"]
    assert (await ben.get("/api/holds/" + "1" * 32)).json()["state"] == "requested"


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("verdict", ["true", "1", '"true"', '"yes"', '{"approve":true}', '["approve"]', "null", '"APPROVE"'])
async def test_something_truthy_is_no_approval(world: Waiting, ben: Browser, verdict: str) -> None:
    """A6: "a truthy non-boolean taken as approval"."""
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    assert (await ben.post(H, f'{{"verdict":{verdict},"shown_digest":"{digest}"}}')).status_code == 422
    assert world.approvals(ApprovalKind.DECIDED) == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("part", ['"tool":"read_order"', '"arguments":"{}"', '"call_id":"x"', '"principal":{"person":"dora"}'])
async def test_decision_cannot_carry_another_call(world: Waiting, ben: Browser, part: str) -> None:
    """A3: "an edited tool name escapes its own policy": there is no editing, what differs is a call of its own."""
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    assert (await ben.post(H, f'{{"verdict":"approve","shown_digest":"{digest}",{part}}}')).status_code == 422
    assert world.approvals(ApprovalKind.DECIDED) == []


async def test_time_is_nobodys_denial(world: Waiting, worker: MemoryWorker) -> None:
    """A5: "timeout logged as the operator's denial", "will run once approved, told after expiry"."""
    await world.hold(expires_ms=world.clock.now_ms() + 1_000)
    await world.settle(worker)
    async with approver(world) as client:
        await sign_in(client, user="ben")
        before = (await client.get(f"/holds/{H}")).text
        assert "A yes lets it run once" in before
        for _ in range(2):
            await world.clock.advance(1)
            await world.settle(worker)
        after = (await client.get(f"/holds/{H}")).text
        ended = (await Browser(client, token(world, "ben")).get("/api/history")).json()["holds"][0]
    assert "A yes lets it run once" not in after and "expired, because nobody decided in time" in after
    assert (ended["state"], ended["ended_by"], ended["decisions"]) == ("expired", "", [])
    assert world.ledger(LedgerKind.REFUSED)[0].code == "approval_expired"


@pytest.mark.usefixtures("asked")
async def test_yes_after_the_cancel_runs_nothing(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A10: "approve after cancel"."""
    await world.publish("waiter", withdrawn(H))
    assert (await ben.decide(H, "approve")).status_code == 409
    await world.settle(worker)
    assert world.cleared() == []


@pytest.mark.usefixtures("asked")
async def test_restarted_service_knows_what_was_said(world: Waiting, worker: MemoryWorker) -> None:
    """A6: "approval lost on restart and asked again": the log is all there is."""
    async with approver(world) as client:
        assert (await Browser(client, token(world, "ben")).decide(H, "approve")).status_code == 200
    await worker.crash()
    again = await world.waiter()
    async with approver(world) as client:
        dora = Browser(client, token(world, "dora"))
        assert (await dora.get("/api/holds")).json()["holds"] == []
        lost = await dora.decide(H, "deny")
    assert lost.status_code == 409 and "already approved by ben" in lost.json()["message"]
    await world.settle(again)
    assert len({cleared.event_id for cleared in world.cleared()}) == 1, "sent again, the record is the same one"
    assert len(world.approvals(ApprovalKind.DECIDED)) == 1
    await again.crash()


@pytest.mark.usefixtures("asked")
async def test_what_was_decided_while_the_waiter_was_down_counts_once(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A6: "decision made while the waiter was down"."""
    await worker.crash()
    assert (await ben.decide(H, "approve")).json()["outcome"] == "approved"
    assert world.cleared() == []
    again = await world.waiter()
    await world.settle(again)
    assert [cleared.approvers for cleared in world.cleared()] == [("ben",)]
    await again.crash()


async def test_person_with_two_accounts_is_one_person(world: Waiting, worker: MemoryWorker, client: httpx.AsyncClient) -> None:
    """A7: "the same person through two accounts"."""
    await world.hold(quorum=2)
    await world.settle(worker)
    first, second = (Browser(client, token(world, name, person="Ben Okoro")) for name in ("ben", "ben.admin"))
    assert (await first.decide(H, "approve")).json()["outcome"] == "counted"
    assert (await second.decide(H, "approve")).json()["outcome"] == "already_counted"
    assert world.cleared() == []


@pytest.mark.usefixtures("asked")
async def test_agent_with_a_users_token_decides_nothing(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7: "an agent holding a user's token approves": by a token with an agent in it, or one that was made for calls."""
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    for claims in ({"agent": "support-bot"}, {"audience": "fourgates"}, {"service": True}):
        bearer = token(world, "ben", **claims)
        answer = await Browser(client, bearer).decide(H, "approve", shown_digest=digest)
        assert answer.status_code in (401, 403)
        assert (await sign_in(client, token=bearer)).status_code == 403
    assert world.approvals(ApprovalKind.DECIDED) == []


async def test_doubt_cannot_be_denied(world: Waiting, worker: MemoryWorker, ben: Browser, client: httpx.AsyncClient) -> None:
    """E6: "a denied in-doubt hold tells the model that nothing happened"."""
    await world.doubt(D)
    await world.settle(worker)
    assert (await ben.decide(D, "deny")).status_code == 422
    await sign_in(client, user="ben")
    assert 'value="deny"' not in (await client.get(f"/holds/{D}")).text
    await world.settle(worker)
    assert world.ledger(LedgerKind.REFUSED) == [] and world.approvals(ApprovalKind.DECIDED) == []


@pytest.mark.usefixtures("asked")
async def test_of_many_who_decide_at_once_on_two_services_one_counts(world: Waiting, worker: MemoryWorker) -> None:
    """A6: "two tabs each resume": eight persons, two services, one order, and every loser hears who won."""
    async with approver(world) as one, approver(world) as other:
        people = [Browser((one, other)[n % 2], token(world, f"person{n}")) for n in range(8)]
        answers = await asyncio.gather(*(who.decide(H, ("approve", "deny")[n % 2]) for n, who in enumerate(people)))
    won = [answer for answer in answers if answer.status_code == 200]
    assert len(won) == 1
    name = won[0].json()["hold"]["ended_by"]
    assert all(f"by {name}" in answer.json()["message"] for answer in answers if answer.status_code != 200)
    await world.settle(worker)
    assert len(world.cleared()) + len(world.ledger(LedgerKind.REFUSED)) == 1


async def test_call_that_is_asked_about_afresh_says_why(world: Waiting, worker: MemoryWorker, client: httpx.AsyncClient) -> None:
    """A3: "a normaliser changes an argument after it was shown": an effect that changed is another question."""
    await world.hold()
    await world.settle(worker)
    await Browser(client, token(world, "ben")).decide(H, "approve")
    await world.hold("2" * 32, call_of(world.shop, call_id="2" * 64), instead_of=H)
    await world.settle(worker)
    await sign_in(client, user="ben")
    page = (await client.get("/holds/" + "2" * 32)).text
    assert f'href="/holds/{H}"' in page and "What it would do has changed since" in page
