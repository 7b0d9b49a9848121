"""The demo's shop: the same seed is the same shop, and its tools say what they do."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fourgates.catalog import Committed, NotExecuted, Preview, Probed, ProbeVerdict, Tool, ToolContext, ToolError
from fourgates.catalog.calling import invoke
from fourgates.catalog.check import check_catalog
from fourgates.catalog.loading import load_catalog
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk
from fourgates.demo.config import VARIABLE
from fourgates.demo.seed import make_shop
from fourgates.gates.business import CompiledRules, gather_facts
from fourgates.gates.permission import ApprovalNeed, Permit, Policies
from fourgates.gates.refusal import Refusal
from support.samples import CALL
from support.shop import Shop, clerk, open_shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with open_shop(tmp_path) as opened:
        yield opened


def tool_of(shop: Shop, name: str) -> Tool:
    tool = shop.catalog.get(name)
    assert tool is not None
    return tool


def context(key: str = "key-1", who: str = "anna", **precondition: Any) -> ToolContext:
    return ToolContext(key=key, fence=1, deadline_ms=2**53, principal=clerk(who), precondition=precondition)


async def run(shop: Shop, name: str, arguments: dict[str, Any], ctx: ToolContext | None = None) -> Any:
    tool = tool_of(shop, name)
    return await invoke(tool.run, tool.land(arguments), ctx or context(), timeout=10)


async def judged(shop: Shop, name: str, arguments: dict[str, Any], who: str = "anna") -> Refusal | None:
    tool = tool_of(shop, name)
    facts = await gather_facts(tool, tool.land(arguments), clerk(who))
    assert isinstance(facts, dict)
    return CompiledRules(tool).judge(arguments, clerk(who), facts, (), "", 0)


async def authorized(shop: Shop, arguments: dict[str, Any], who: str = "anna", agent: str = "support-bot") -> Permit | Refusal:
    """What the policies say of this refund of one of anna's orders."""
    tool = tool_of(shop, "refund_order")
    facts = await gather_facts(tool, tool.land(arguments), clerk("anna"))
    assert isinstance(facts, dict)
    call = dataclasses.replace(CALL, tool=tool.name, principal=dataclasses.replace(clerk(who), agent=agent), risk=tool.risk)
    return Policies.load(shop.catalog.policies, shop.catalog).authorize(call, arguments, facts)


REFUND = {"order_id": "A-1001", "amount_cents": 1500, "reason": "damaged"}


def test_same_seed_makes_the_same_shop_and_another_seed_another(tmp_path: Path) -> None:
    def dump(name: str, seed: int) -> tuple[list[str], list[tuple[str, int]]]:
        charges = make_shop(tmp_path / name, seed)
        with closing(sqlite3.connect(tmp_path / name)) as db:
            return list(db.iterdump()), charges

    assert dump("one", 7) == dump("two", 7)
    assert dump("one-more", 7) != dump("other", 8)


def test_catalog_has_no_finding(shop: Shop) -> None:
    """C3"""
    assert check_catalog(shop.catalog) == []
    assert {tool.risk for tool in shop.catalog} == set(Risk)


def test_catalog_is_found_through_its_configuration(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10"""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "demo.json"))
    found = load_catalog("fourgates.demo.shop:catalog")
    assert {tool.name: tool.version for tool in found} == {tool.name: tool.version for tool in shop.catalog}


def test_missing_configuration_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=f"{VARIABLE} is not set"):
        load_catalog("fourgates.demo.shop:catalog")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none.json"))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_catalog("fourgates.demo.shop:catalog")


async def test_small_refund_passes_the_rules(shop: Shop) -> None:
    assert await judged(shop, "refund_order", REFUND) is None


@pytest.mark.parametrize(
    ("change", "rule"),
    [({"order_id": "A-2001"}, "not_yours"), ({"order_id": "A-9999"}, "not_yours"), ({"order_id": "A-1005"}, "not_delivered"),
     ({"amount_cents": 6401}, "more_than_paid")],
)  # fmt: skip
async def test_refund_outside_the_rules_is_refused_by_name(shop: Shop, change: dict[str, Any], rule: str) -> None:
    """B1"""
    refusal = await judged(shop, "refund_order", {**REFUND, **change})
    assert refusal is not None
    assert (refusal.code, refusal.reason) == (Code.RULE_VIOLATED, rule)


async def test_somebody_elses_order_and_none_look_the_same(shop: Shop) -> None:
    """B1"""
    theirs = await judged(shop, "get_order", {"order_id": "A-2001"})
    nobodys = await judged(shop, "get_order", {"order_id": "A-9999"})
    assert theirs == nobodys
    assert await judged(shop, "get_order", {"order_id": "A-2001"}, who="carl") is None


async def test_unreachable_provider_is_no_pass(shop: Shop) -> None:
    """B2"""
    shop.provider.shutdown()
    shop.provider.socket.close()
    tool = tool_of(shop, "refund_order")
    facts = await gather_facts(tool, tool.land(REFUND), clerk())
    assert isinstance(facts, Refusal)
    assert facts.code is Code.UNAVAILABLE


@pytest.mark.parametrize(
    ("cents", "policy", "approvals"),
    [(5000, "small-refunds", ()), (5001, "larger-refunds", (ApprovalNeed("refunds", 1),))],
)  # fmt: skip
async def test_small_refund_is_waived_and_a_larger_one_asks_the_refunds_group(
    shop: Shop, cents: int, policy: str, approvals: tuple[ApprovalNeed, ...]
) -> None:
    """A1"""
    permit = await authorized(shop, {**REFUND, "amount_cents": cents})
    assert isinstance(permit, Permit)
    assert policy in permit.policies
    assert permit.approvals == approvals


@pytest.mark.parametrize(
    ("who", "agent", "order"),
    [("ben", "support-bot", "A-1001"), ("anna", "other-bot", "A-1001"), ("anna", "support-bot", "A-1007")],
    ids=["user without the right", "agent without the right", "frozen order"],
)  # fmt: skip
async def test_call_is_denied_where_user_agent_or_resource_lacks_the_right(shop: Shop, who: str, agent: str, order: str) -> None:
    """P3, P4"""
    refusal = await authorized(shop, {**REFUND, "order_id": order}, who, agent)
    assert isinstance(refusal, Refusal)
    assert refusal.code is Code.PERMISSION_DENIED


async def test_refund_with_a_lost_answer_is_found_by_key_and_by_probe(shop: Shop) -> None:
    """E3"""
    await shop.payments.lose_next()
    with pytest.raises(Exception, match="disconnected"):
        await run(shop, "refund_order", REFUND)
    again = await run(shop, "refund_order", REFUND)
    tool = tool_of(shop, "refund_order")
    probed = await invoke(tool.probe, tool.land(REFUND), context(), timeout=10)  # type: ignore[arg-type]
    assert isinstance(again, Committed)
    assert isinstance(probed, Probed)
    assert probed.verdict is ProbeVerdict.COMMITTED
    assert (again.content, again.state_change) == (probed.content, probed.state_change)
    assert len(await shop.payments.refunds()) == 1
    await shop.payments.close()


async def test_busy_provider_is_asserted_as_nothing_happened(shop: Shop) -> None:
    """E6"""
    await shop.payments.fail_next()
    assert await run(shop, "refund_order", REFUND) == NotExecuted(
        "provider_busy", "The payment provider is busy; nothing was refunded.", retryable=True
    )
    await shop.payments.close()


async def test_preview_of_a_refund_says_before_and_after(shop: Shop) -> None:
    """A2"""
    tool = tool_of(shop, "refund_order")
    preview = await invoke(tool.preview, tool.land(REFUND), clerk(), timeout=10)  # type: ignore[arg-type]
    assert isinstance(preview, Preview)
    assert (preview.amount, preview.recoverable) == ("15.00 EUR", False)
    assert preview.before == {"paid_cents": 6400, "refunded_cents": 0}
    assert preview.after == {"paid_cents": 6400, "refunded_cents": 1500}


CHANGES = [
    ("cancel_order", {"order_id": "A-1005", "reason": "customer_request"}),
    ("change_address", {"order_id": "A-1005", "address": "1 New Quay, Vellin"}),
    ("send_message", {"recipient": "mira@post.example", "subject": "Hello", "text": "It is on its way."}),
]


@pytest.mark.parametrize(("name", "arguments"), CHANGES, ids=[name for name, _ in CHANGES])
async def test_change_under_the_same_key_happens_once(shop: Shop, name: str, arguments: dict[str, Any]) -> None:
    """E1, E12"""
    tool = tool_of(shop, name)
    unknown = await invoke(tool.probe, tool.land(arguments), context(), timeout=10)  # type: ignore[arg-type]
    assert unknown.verdict is ProbeVerdict.UNKNOWN
    first = await run(shop, name, arguments)
    assert isinstance(first, Committed)
    assert await run(shop, name, arguments) == first
    probed = await invoke(tool.probe, tool.land(arguments), context(), timeout=10)  # type: ignore[arg-type]
    assert (probed.verdict, probed.content) == (ProbeVerdict.COMMITTED, first.content)
    assert len(shop.store.outbox()) == (1 if name == "send_message" else 0)


async def test_change_on_a_stale_version_asserts_that_nothing_happened(shop: Shop) -> None:
    """B5"""
    address = {"order_id": "A-1005", "address": "1 New Quay, Vellin"}
    assert isinstance(await run(shop, "change_address", address, context("key-1", version=1)), Committed)
    stale = await run(shop, "change_address", {**address, "address": "2 Old Mill, Vellin"}, context("key-2", version=1))
    assert isinstance(stale, NotExecuted)
    order = shop.store.order("A-1005", "anna")
    assert order is not None
    assert order["address"] == "1 New Quay, Vellin"


async def test_policy_documents_are_read_from_their_folder_only(shop: Shop) -> None:
    """E10"""
    assert "Up to 50.00 EUR" in await run(shop, "read_policy", {"path": "policies/returns.md"})
    with pytest.raises(ToolError, match="file_not_found"):
        await run(shop, "read_policy", {"path": "policies/none.md"})
    with pytest.raises(ValueError, match="outside_workspace"):
        tool_of(shop, "read_policy").land({"path": "../../etc/passwd"})


async def test_search_treats_wildcards_as_letters(shop: Shop) -> None:
    def ids(found: list[dict[str, Any]]) -> set[str]:
        return {order["id"] for order in found}

    everything = {"customer": "", "status": None, "limit": 50}
    assert ids(await run(shop, "search_orders", {**everything, "customer": "Mira Holm"})) == {"A-1001"}
    assert await run(shop, "search_orders", {**everything, "customer": "%"}) == []
    assert "A-2001" not in ids(await run(shop, "search_orders", everything))


async def test_export_is_longer_than_its_limit_and_starts_with_a_secret(shop: Shop) -> None:
    """The redaction scene is worth something only while this holds."""
    text = await run(shop, "export_customers", {"format": "csv"})
    assert len(text.encode()) > tool_of(shop, "export_customers").output.bytes
    assert shop.store.setting("warehouse") in text.splitlines()[0]


async def test_results_are_json(shop: Shop) -> None:
    order = await run(shop, "get_order", {"order_id": "A-1006"})
    assert json.loads(json.dumps(order)) == order
    assert "parcel-desk.example" in order["note"]
