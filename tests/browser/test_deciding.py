"""People decide in a real browser: what they are told is what the log says, whoever else decides meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from fourgates.contract.events import ApprovalKind, LedgerKind
from fourgates.runtime.memory_worker import MemoryWorker
from support.approvals import decided, person, withdrawn
from support.browser import OpenTab
from support.waiting import Waiting, call_of

H = "h" * 32
APPROVE, DENY = "button[value=approve]", "button[value=deny]"


@pytest.fixture
async def worker(world: Waiting) -> AsyncIterator[MemoryWorker]:
    running = await world.waiter()
    yield running
    await running.crash()


@pytest.fixture
async def asked(world: Waiting, worker: MemoryWorker) -> None:
    await world.hold()
    await world.settle(worker)


@pytest.mark.usefixtures("asked")
async def test_call_is_found_read_and_approved(world: Waiting, worker: MemoryWorker, tab: OpenTab) -> None:
    """A8, A2: from the inbox to "approved", which the page says because the log does."""
    page = await tab()
    assert "1 call waits for a decision" in await page.text()
    await page.screenshot("inbox-of-one")
    await page.click(".card-main")
    await page.shows("What will happen")
    for words in ("order A-1001", "100.00 EUR", "It cannot be undone.", '{"amount":100,"order_id":"A-1001"}', "anna"):
        assert words in await page.text(), words
    await page.screenshot("detail")
    below = await page.script("return document.querySelector('pre.exact').getBoundingClientRect().bottom - innerHeight")
    assert below <= 0, "what happens, to what, who, why and the exact arguments stand in one screen"
    assert world.approvals(ApprovalKind.DECIDED) == []
    await page.click(APPROVE)
    await page.shows("It was approved by ben.")
    assert await page.count(APPROVE) == 0
    await page.screenshot("approved")
    await world.settle(worker)
    assert world.cleared()[0].approvers == ("ben",)
    await page.open("/history")
    await page.shows("approved by ben")
    assert await page.complaints() == []


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize("told", [False, True], ids=["kept", "told"])
async def test_denial_keeps_its_reason_from_the_model_unless_marked(
    world: Waiting, worker: MemoryWorker, tab: OpenTab, told: bool
) -> None:
    """A4, A11"""
    page = await tab(path=f"/holds/{H}")
    await page.fill("#reason", "looks like fraud")
    if told:
        await page.click("input[name=tell_model]")
    await page.click(DENY)
    await page.shows("It was denied by ben.")
    await page.shows("looks like fraud")
    await page.shows("told to the model" if told else "kept from the model")
    if not told:
        await page.screenshot("denied")
    await world.settle(worker)
    assert ("fraud" in world.ledger(LedgerKind.REFUSED)[0].sentence) is told and world.shop.done == []


@pytest.mark.usefixtures("asked")
async def test_two_tabs_cannot_each_decide(world: Waiting, worker: MemoryWorker, tab: OpenTab) -> None:
    """A6, known way to get it wrong "two tabs each resume": the second tab sees it at once and is told who won."""
    first, second = await tab(path=f"/holds/{H}"), await tab(path=f"/holds/{H}")
    digest = await second.script("return document.querySelector('[name=shown_digest]').value")
    csrf = await second.script("return document.querySelector('[name=csrf]').value")
    await first.click(DENY)
    await first.shows("It was denied by ben.")
    await second.shows("It was denied by ben.")
    assert await second.count(APPROVE) == 0
    # What a tab that missed the news would still send:
    await second.script(
        """const form = document.createElement("form"); form.method = "post"; form.action = location.pathname + "/decision";
        for (const [name, value] of Object.entries(arguments[0])) {
          const field = document.createElement("input"); field.name = name; field.value = value; form.append(field);
        } document.body.append(form); form.submit();""",
        {"csrf": csrf, "shown_digest": digest, "verdict": "approve"},
    )
    await second.shows("Your decision did not count: this was already denied by ben.", "[role=alert]")
    await second.screenshot("lost-the-race")
    await world.settle(worker)
    assert world.cleared() == [] and len(world.approvals(ApprovalKind.DECIDED)) == 1


@pytest.mark.usefixtures("asked")
async def test_of_two_people_who_decide_at_once_one_is_told_that_the_other_won(
    world: Waiting, worker: MemoryWorker, tab: OpenTab
) -> None:
    """A6: two browsers, two persons, one order."""
    ben, dora = await tab("ben", f"/holds/{H}"), await tab("dora", f"/holds/{H}", host="localhost")
    for page in (ben, dora):  # neither hears of the other in time
        await page.script("document.querySelector('[data-live]').removeAttribute('data-live')")
    await ben.click(APPROVE)
    await dora.click(DENY)
    await ben.shows("It was approved by ben.")
    await dora.shows("already approved by ben", "[role=alert]")
    assert "denied by dora" not in await dora.text()
    await world.settle(worker)
    assert [cleared.approvers for cleared in world.cleared()] == [("ben",)]


async def test_call_that_expires_while_it_is_open_cannot_be_approved_any_more(
    world: Waiting, worker: MemoryWorker, tab: OpenTab
) -> None:
    """A5: by the reader's count-down first, by the log then; it is nobody's denial."""
    await world.hold(expires_ms=world.clock.now_ms() + 4_000)
    await world.settle(worker)
    page = await tab(path=f"/holds/{H}")
    await page.shows("s left", ".decision")
    await page.shows("The time to decide is over; nothing will run.", "[role=alert]")
    assert not await page.script(f"return [...document.querySelectorAll('{APPROVE}, {DENY}')].some(one => !one.disabled)")
    await world.clock.advance(4)
    await world.settle(worker)
    await world.clock.advance(0.2)
    await world.settle(worker)
    await page.shows("It expired, because nobody decided in time.")
    await page.gone("form[data-decide]")
    await page.screenshot("expired")
    assert world.ledger(LedgerKind.REFUSED)[0].code == "approval_expired"


@pytest.mark.usefixtures("asked")
async def test_call_that_its_caller_cancels_disappears_from_an_open_page(world: Waiting, tab: OpenTab) -> None:
    """A10, known way to get it wrong "approve after cancel"."""
    page = await tab(path=f"/holds/{H}")
    await world.publish("waiter", withdrawn(H))
    await page.shows("It was withdrawn, because the call has ended otherwise.")
    assert await page.count(APPROVE) == 0


async def test_inbox_fills_and_empties_by_itself_and_keeps_the_focus(world: Waiting, worker: MemoryWorker, tab: OpenTab) -> None:
    """A8: live, without taking the focus from who is reading."""
    await world.hold("1" * 32, call_of(world.shop, call_id="1" * 64))
    await world.settle(worker)
    page = await tab()
    await page.script("document.querySelector('.card-main').focus()")
    await world.hold("2" * 32, call_of(world.shop, "delete_account", call_id="2" * 64))
    await world.settle(worker)
    await page.shows("2 calls wait for a decision")
    assert await page.script("return document.activeElement.dataset.key") == "1" * 32
    assert await page.script("return document.title") == "(2) Inbox · Fourgates"
    assert "2 calls wait" in await page.script("return document.getElementById('news').textContent")
    digest = world.approvals(ApprovalKind.REQUESTED, "2" * 32)[0].record.requested.shown_digest
    await world.publish("approver", decided("2" * 32, "deny", person("dora"), call_id="2" * 64, shown_digest=digest))
    await page.shows("1 call waits for a decision")


async def test_what_destroys_is_approved_only_with_its_amount_typed(world: Waiting, worker: MemoryWorker, tab: OpenTab) -> None:
    """A2: the amount, and Enter decides nothing."""
    await world.hold(call=call_of(world.shop, "delete_account"))
    await world.settle(worker)
    page = await tab(path=f"/holds/{H}")
    await page.fill("#reason", "as agreed")
    await page.click(APPROVE)
    await page.shows("To approve it, type 100.00 EUR below.", "[role=alert]")
    assert await page.script("return document.getElementById('reason').value") == "as agreed"
    await page.screenshot("destructive-not-typed")
    await page.fill("#typed", "100.00 eur\n")
    assert world.approvals(ApprovalKind.DECIDED) == []
    await page.click(APPROVE)
    await page.shows("It was approved by ben.")


async def test_doubt_is_resolved_in_its_own_words(world: Waiting, worker: MemoryWorker, tab: OpenTab) -> None:
    """E6, A8"""
    await world.doubt("d" * 32)
    await world.settle(worker)
    page = await tab(path="/holds/" + "d" * 32)
    await page.shows("It is not known whether this call took effect.")
    assert await page.count(APPROVE) + await page.count(DENY) == 0
    await page.screenshot("in-doubt")
    await page.click("button[value=committed]")
    await page.shows("It was answered by ben: it took effect.")
    await world.settle(worker)
    assert world.cleared()[0].resolution.outcome == "committed"


async def test_equal_requests_stand_together_and_are_decided_one_by_one(
    world: Waiting, worker: MemoryWorker, tab: OpenTab
) -> None:
    """A9, A6: one yes answers one call, never its twin."""
    for letter in "123":
        await world.hold(letter * 32, call_of(world.shop, call_id=letter * 64))
    await world.settle(worker)
    page = await tab()
    await page.shows("3 equal requests")
    assert await page.count(".card") == 1
    await page.click("details.equals summary")
    await page.screenshot("equal-requests")
    await page.click('a[href="/holds/%s"].card-main' % ("1" * 32))
    await page.click(APPROVE)
    await page.shows("2 more wait for you.")
    await world.settle(worker)
    assert [cleared.call.call_id[0] for cleared in world.cleared()] == ["1"]
    await page.open("/")
    await page.shows("2 equal requests")


@pytest.mark.usefixtures("asked")
async def test_decision_that_is_clicked_twice_is_sent_once(world: Waiting, tab: OpenTab) -> None:
    """A6"""
    page = await tab(path=f"/holds/{H}")
    await page.script(f"const b = document.querySelector('{APPROVE}'); b.click(); b.click();")
    await page.shows("It was approved by ben.")
    await asyncio.sleep(0)
    assert len(world.approvals(ApprovalKind.DECIDED)) == 1


@pytest.mark.usefixtures("asked")
async def test_old_sign_in_reads_but_does_not_decide_until_it_is_renewed(world: Waiting, tab: OpenTab) -> None:
    """A7: and the reader comes back to the same call."""
    page = await tab(path=f"/holds/{H}")
    await world.clock.advance(1_000)
    await page.fill("#reason", "checked")
    await page.click(APPROVE)
    await page.shows("Your sign-in is too old to decide with.", "[role=alert]")
    assert world.approvals(ApprovalKind.DECIDED) == []
    await page.screenshot("sign-in-again")
    await page.click(".decide a.button")
    await page.click("button[value=ben]")
    assert await page.script("return document.getElementById('reason').value") == "checked"
    await page.click(APPROVE)
    await page.shows("It was approved by ben.")
    assert await page.script("return sessionStorage.length") == 0
