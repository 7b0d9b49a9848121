"""The approver's API: who may decide, what counts, and what the loser is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import httpx
import pytest

from fourgates.approval.service.settings import ServiceSettings
from fourgates.contract.errors import Transient
from fourgates.contract.events import ApprovalKind, LedgerKind, Record
from fourgates.contract.ports import Position
from fourgates.contract.topology import APPROVALS
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person, withdrawn
from support.approver import Browser, approver, token
from support.samples import PRINCIPAL
from support.waiting import Waiting, call_of, keyring

H, D = "h" * 32, "d" * 32


@pytest.fixture
def ben(world: Waiting, client: httpx.AsyncClient) -> Browser:
    return Browser(client, token(world, "ben"))


@pytest.fixture
def cleo(world: Waiting, client: httpx.AsyncClient) -> Browser:
    return Browser(client, token(world, "cleo"))


@pytest.mark.usefixtures("asked")
async def test_open_hold_is_listed_and_shown_byte_for_byte(world: Waiting, ben: Browser) -> None:
    """A2, A8"""
    (listed,) = (await ben.get("/api/holds")).json()["holds"]
    assert (listed["hold_id"], listed["tool"], listed["amount"], listed["may_decide"]) == (H, "refund_order", "100.00 EUR", True)
    whole = (await ben.get(f"/api/holds/{H}")).json()
    assert hashlib.sha256(whole["shown"].encode()).hexdigest() == whole["shown_digest"]
    assert json.loads(whole["shown"]) == world.shown()


@pytest.mark.usefixtures("asked")
async def test_approval_is_answered_when_the_fold_says_so(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A6"""
    answer = await ben.decide(H, "approve", reason="fine")
    assert (answer.status_code, answer.json()["outcome"], answer.json()["hold"]["state"]) == (200, "approved", "approved")
    await world.settle(worker)
    assert world.cleared()[0].approvers == ("ben",)
    (record,) = world.approvals(ApprovalKind.DECIDED)
    assert record.writer == "approver" and len(record.record.seal.mac) == 64
    assert record.record.cause.event_id == world.approvals(ApprovalKind.REQUESTED)[0].record.event_id
    assert (await ben.get("/api/holds")).json()["holds"] == []
    (ended,) = (await ben.get("/api/history")).json()["holds"]
    assert (ended["ended"], ended["decisions"][0]["reason"]) == ("approved by ben", "fine")


@pytest.mark.usefixtures("asked")
async def test_denial_with_a_reason_reaches_the_ledger(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A4"""
    assert (await ben.decide(H, "deny", reason="no", tell_model=True)).json()["outcome"] == "denied"
    await world.settle(worker)
    assert world.ledger(LedgerKind.REFUSED)[0].sentence.endswith("no") and world.shop.done == []


@pytest.mark.usefixtures("asked")
async def test_loser_of_a_race_is_told_who_won(world: Waiting, ben: Browser, cleo: Browser) -> None:
    """A6: both looked before either decided; the log has one order."""
    answers = await asyncio.gather(ben.decide(H, "approve"), cleo.decide(H, "deny"), ben.decide(H, "approve"))
    won = [answer for answer in answers if answer.status_code == 200]
    lost = [answer for answer in answers if answer.status_code == 409]
    assert (len(won), len(lost)) == (1, 2)
    state = won[0].json()["hold"]["state"]
    for answer in lost:
        assert answer.json()["outcome"] == state and "was already" in answer.json()["message"]
        assert ("ben" if state == "approved" else "cleo") in answer.json()["message"]


@pytest.mark.usefixtures("asked")
async def test_decision_that_lost_only_in_the_log_is_told_so(world: Waiting) -> None:
    """A6: another service's decision lies between our look and our append."""

    class Slow:
        """Somebody else is quicker than our append."""

        async def publish(self, record: Record, partition: int | None = None) -> Position:
            shown = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
            await world.publish("approver", decided(H, "deny", person("dora"), shown_digest=shown))
            return await world.publish("approver", record)

    async with approver(world, Slow()) as client:
        answer = await Browser(client, token(world, "ben")).decide(H, "approve")
    assert (answer.status_code, answer.json()["outcome"]) == (409, "denied")
    assert "denied by dora" in answer.json()["message"]


@pytest.mark.usefixtures("asked")
async def test_decision_that_expired_on_its_way_is_told_so(world: Waiting) -> None:
    """A5"""

    class Slow:
        async def publish(self, record: Record, partition: int | None = None) -> Position:
            await world.clock.advance(3_600)
            return await world.publish("approver", record)

    async with approver(world, Slow()) as client:
        answer = await Browser(client, token(world, "ben")).decide(H, "approve")
    assert answer.status_code == 410 and world.cleared() == []


@pytest.mark.usefixtures("asked")
async def test_decision_that_nobody_has_seen_yet_is_never_called_approved(world: Waiting) -> None:
    """A8"""

    class Lost:
        async def publish(self, record: Record, partition: int | None = None) -> Position:
            return Position(APPROVALS, 0, 0)

    class Away:
        async def publish(self, record: Record, partition: int | None = None) -> Position:
            raise Transient("the bus is away")

    for publisher in (Lost(), Away()):
        async with approver(world, publisher, ServiceSettings(confirm_s=0.05)) as client:
            answer = await Browser(client, token(world, "ben")).decide(H, "approve")
        assert (answer.status_code, answer.json()["outcome"]) == (503, "not_confirmed")


WHO: list[tuple[str, dict[str, Any], int]] = [
    ("requester", {"name": PRINCIPAL.subject}, 403),
    ("requester's second account", {"name": "second", "person": PRINCIPAL.person}, 403),
    ("wrong group", {"name": "ben", "groups": ["support"]}, 403),
    ("other tenant", {"name": "ben", "tenant": "other"}, 403),
    ("agent", {"name": "ben", "agent": "helper"}, 403),
    ("service", {"name": "ben", "service": True}, 403),
    ("token for calls", {"name": "ben", "audience": "fourgates"}, 401),
    ("expired token", {"name": "ben", "ttl_s": -120}, 401),
]


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(("who", "claims", "status"), WHO, ids=[who for who, _, _ in WHO])
async def test_who_may_not_decide_is_refused_and_publishes_nothing(
    world: Waiting, client: httpx.AsyncClient, who: str, claims: dict[str, Any], status: int
) -> None:
    """A7, A11"""
    browser = Browser(client, token(world, **claims))
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    assert (await browser.decide(H, "approve", shown_digest=digest)).status_code == status
    assert (await browser.decide(H, "deny", shown_digest=digest)).status_code == status
    assert world.approvals(ApprovalKind.DECIDED) == []
    if not who.startswith("requester"):
        assert (await browser.get(f"/api/holds/{H}")).status_code == status
        listed = await browser.get("/api/holds")
        assert listed.status_code == 401 or listed.json().get("holds", []) in ([], None)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer not.a.token"])
async def test_no_token_no_answer(client: httpx.AsyncClient, header: str | None) -> None:
    """A7"""
    headers = {} if header is None else {"Authorization": header}
    for path in ("/api/holds", "/api/history", f"/api/holds/{H}"):
        answer = await client.get(path, headers=headers)
        assert answer.status_code == 401 and "www-authenticate" in answer.headers


@pytest.mark.usefixtures("asked")
async def test_requester_may_look_but_not_decide(world: Waiting, client: httpx.AsyncClient) -> None:
    """A7"""
    asker = Browser(client, token(world, PRINCIPAL.subject))
    (listed,) = (await asker.get("/api/holds")).json()["holds"]
    assert listed["may_decide"] is False


@pytest.mark.usefixtures("asked")
async def test_expired_hold_answers_410_by_time_and_by_state(
    world: Waiting, worker: MemoryWorker, client: httpx.AsyncClient
) -> None:
    """A5"""
    await worker.crash()
    await world.clock.advance(3_600)
    ben = Browser(client, token(world, "ben"))
    assert (await ben.decide(H, "approve")).json()["outcome"] == "expired"
    again = await world.waiter()
    await world.settle(again)
    await world.clock.advance(0.2)
    await world.settle(again)
    answer = await ben.decide(H, "approve")
    assert (answer.status_code, answer.json()["hold"]["state"]) == (410, "expired")
    await again.crash()


@pytest.mark.usefixtures("asked")
async def test_decision_on_something_else_than_what_is_shown_is_refused(ben: Browser) -> None:
    """A3"""
    answer = await ben.decide(H, "approve", shown_digest="0" * 64)
    assert (answer.status_code, answer.json()["outcome"]) == (409, "shown_differs")


MALFORMED: list[Any] = [
    b"", b"\xff", "[]", "null", "approve", "{}",
    '{"verdict":"approve"}',
    '{"verdict":"deny","verdict":"approve","shown_digest":"%(d)s"}',
    '{"verdict":"approve","shown_digest":"%(d)s"} {}',
    '{"verdict":true,"shown_digest":"%(d)s"}',
    '{"verdict":1,"shown_digest":"%(d)s"}',
    '{"verdict":"yes","shown_digest":"%(d)s"}',
    '{"verdict":"Approve","shown_digest":"%(d)s"}',
    '{"verdict":["approve"],"shown_digest":"%(d)s"}',
    '{"verdict":"approve","shown_digest":"%(d)s\\n"}',
    '{"verdict":"approve","shown_digest":"%(d)s","tell_model":"false"}',
    '{"verdict":"approve","shown_digest":"%(d)s","tell_model":1}',
    '{"verdict":"approve","shown_digest":"%(d)s","reason":null}',
    '{"verdict":"approve","shown_digest":"%(d)s","quorum":1}',
    '{"verdict":"approve","shown_digest":"%(d)s","reason":"' + "x" * 2_001 + '"}',
    '{"verdict":"committed","shown_digest":"%(d)s"}',
]  # fmt: skip


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("body", MALFORMED)
async def test_only_the_word_itself_is_a_decision(world: Waiting, ben: Browser, body: str | bytes) -> None:
    """A6"""
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    filled = body.replace("%(d)s", digest) if isinstance(body, str) else body
    assert (await ben.post(H, filled)).status_code == 422
    assert world.approvals(ApprovalKind.DECIDED) == []


@pytest.mark.usefixtures("asked")
async def test_body_that_is_too_large_is_not_read(ben: Browser) -> None:
    """A8"""
    assert (await ben.post(H, b" " * 70_000)).status_code == 413


@pytest.mark.usefixtures("asked")
async def test_unknown_hold_is_404(ben: Browser) -> None:
    """A8"""
    assert (await ben.get("/api/holds/" + "9" * 32)).status_code == 404
    assert (await ben.decide("9" * 32, "approve", shown_digest="0" * 64)).status_code == 404


async def test_quorum_is_told_as_it_fills(world: Waiting, worker: MemoryWorker, ben: Browser, cleo: Browser) -> None:
    """A7"""
    await world.hold(quorum=2)
    await world.settle(worker)
    first = await ben.decide(H, "approve")
    assert (first.status_code, first.json()["outcome"], first.json()["hold"]["approvers"]) == (200, "counted", ["ben"])
    assert (await ben.decide(H, "approve")).json()["outcome"] == "already_counted"
    assert (await cleo.decide(H, "approve")).json()["outcome"] == "approved"
    await world.settle(worker)
    assert world.cleared()[0].approvers == ("ben", "cleo")


async def test_doubt_is_resolved_by_its_own_words_after_the_settle_time(
    world: Waiting, worker: MemoryWorker, ben: Browser
) -> None:
    """E6"""
    await world.doubt(not_before_ms=world.clock.now_ms() + 30_000)
    await world.settle(worker)
    assert (await ben.decide(D, "deny")).status_code == 422
    assert (await ben.decide(D, "not_applied")).json()["outcome"] == "too_early"
    await world.clock.advance(30)
    assert (await ben.decide(D, "not_applied")).json()["outcome"] == "resolved"
    await world.settle(worker)
    assert world.cleared()[0].resolution.outcome == "not_applied"


async def test_call_that_cannot_be_shown_can_only_be_denied(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A2"""
    world.shop.preview = lambda args: None
    await world.hold(call=call_of(world.shop, "delete_account"))
    await world.settle(worker)
    assert (await ben.decide(H, "approve")).json()["outcome"] == "not_approvable"
    assert (await ben.decide(H, "deny")).status_code == 200


@pytest.mark.usefixtures("asked")
async def test_withdrawn_hold_is_told_as_such(world: Waiting, worker: MemoryWorker, ben: Browser) -> None:
    """A10"""
    await world.publish("waiter", withdrawn(H))
    answer = await ben.decide(H, "approve")
    assert (answer.status_code, answer.json()["outcome"]) == (409, "withdrawn")


@pytest.mark.usefixtures("asked")
async def test_decision_without_the_approvers_key_counts_for_nobody(world: Waiting, ben: Browser) -> None:
    """P6, A7: a gate's own key cannot say what people decide."""
    digest = world.approvals(ApprovalKind.REQUESTED)[0].record.requested.shown_digest
    for writer in ("waiter", "executor", "authorizer"):
        await world.publish(writer, decided(H, "approve", person("ben"), shown_digest=digest))
    assert (await ben.get(f"/api/holds/{H}")).json()["state"] == "requested"
    assert keyring().signer("approver").mac_bytes == 64


async def test_health_says_ready_once_the_log_is_read(client: httpx.AsyncClient) -> None:
    """S3"""
    assert (await client.get("/health")).json() == {"ready": True}
