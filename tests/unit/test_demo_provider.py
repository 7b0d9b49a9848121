"""The demo's payment provider moves money once per key, whatever becomes of its answers."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from fourgates.demo.books import Books
from fourgates.demo.payments import Payments
from support.shop import Shop, open_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as opened:
        yield opened


@pytest.fixture
async def payments(shop: Shop) -> AsyncIterator[Payments]:
    yield shop.payments
    await shop.payments.close()


@pytest.fixture
def charge(shop: Shop) -> str:
    order = shop.store.order("A-1001", "anna")
    assert order is not None
    return str(order["charge"])


async def test_same_key_twice_is_one_refund_and_the_same_answer(payments: Payments, charge: str) -> None:
    """E1"""
    first = await payments.refund("key-1", charge, 1500, "damaged")
    second = await payments.refund("key-1", charge, 1500, "damaged")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert [refund["amount_cents"] for refund in await payments.refunds()] == [1500]
    assert await payments.remaining(charge) == 4900


async def test_same_key_at_once_is_one_refund(payments: Payments, charge: str) -> None:
    """E1"""
    answers = await asyncio.gather(*(payments.refund("key-1", charge, 100, "late") for _ in range(12)))
    assert len({answer.json()["refund_id"] for answer in answers}) == 1
    assert len(await payments.refunds()) == 1


async def test_lost_answer_leaves_one_refund_that_the_key_finds(payments: Payments, charge: str) -> None:
    """E3"""
    await payments.lose_next()
    with pytest.raises(httpx.TransportError):
        await payments.refund("key-1", charge, 1500, "damaged")
    assert (await payments.refund_of("key-1") or {})["amount_cents"] == 1500
    again = await payments.refund("key-1", charge, 1500, "damaged")
    assert again.json() == await payments.refund_of("key-1")
    assert len(await payments.refunds()) == 1
    assert [request["outcome"] for request in await payments.requests()] == ["lost", "answered_200"]


async def test_failure_before_committing_moves_nothing(payments: Payments, charge: str) -> None:
    await payments.fail_next()
    assert (await payments.refund("key-1", charge, 1500, "damaged")).status_code == 503
    assert await payments.refunds() == []
    assert await payments.refund_of("key-1") is None


async def test_late_answer_is_committed_before_it_comes(payments: Payments, charge: str) -> None:
    await payments.delay_next(60)
    waiting = asyncio.create_task(payments.refund("key-1", charge, 1500, "damaged"))
    async with asyncio.timeout(10):
        while await payments.refund_of("key-1") is None:
            assert not waiting.done()
    assert not waiting.done()
    waiting.cancel()


async def test_same_key_with_another_body_is_refused(payments: Payments, charge: str) -> None:
    """E2"""
    await payments.refund("key-1", charge, 1500, "damaged")
    other = await payments.refund("key-1", charge, 1600, "damaged")
    assert (other.status_code, other.json()) == (409, {"error": "key_reused"})
    assert len(await payments.refunds()) == 1


@pytest.mark.parametrize(
    ("key", "amount", "charge_is", "status", "error"),
    [("k", 6401, "", 409, "exceeds_charge"), ("k", 0, "", 422, "malformed"), ("k", -5, "", 422, "malformed"),
     ("", 5, "", 422, "malformed"), ("k", True, "", 422, "malformed"), ("k", 5, "ch_none", 404, "no_such_charge")],
)  # fmt: skip
async def test_impossible_refund_moves_nothing(
    payments: Payments, charge: str, key: str, amount: int, charge_is: str, status: int, error: str
) -> None:
    answer = await payments.refund(key, charge_is or charge, amount, "damaged")
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert await payments.refunds() == []


async def test_unknown_paths_and_bodies_are_answered(shop: Shop) -> None:
    async with httpx.AsyncClient(base_url=shop.provider.url, trust_env=False) as client:
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.post("/nowhere")).status_code == 404
        assert (await client.post("/refunds", content=b"{")).status_code == 422
        assert (await client.post("/refunds", content=b"[]")).status_code == 422
        assert (await client.post("/control/delay-next", json={"seconds": 1e9})).status_code == 422


async def test_provider_as_a_process_is_ready_and_ends_on_sigterm_with_its_books_kept(tmp_path: Path) -> None:
    with open_shop(tmp_path):
        pass  # only its files
    argv = [sys.executable, "-m", "fourgates.demo.provider", "--books", str(tmp_path / "provider.sqlite")]
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    payments = Payments(json.loads(await process.stdout.readline())["url"])
    assert await payments.ready()
    books = Books(tmp_path / "provider.sqlite")
    books.add_charges([("ch_test", 100)])
    await payments.refund("key-1", "ch_test", 100, "late")
    await payments.close()
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 10) == 0
    assert [refund["key"] for refund in books.refunds()] == ["key-1"]
    books.close()
