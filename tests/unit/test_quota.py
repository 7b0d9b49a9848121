"""Quotas: what a contract may say, which calls count together, and that calls side by side never exceed one."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Committed, Quota, QuotaOf, Rate, ToolContext
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.events import EffectEntry, EffectKind
from fourgates.executor.reserving import check_quotas
from fourgates.executor.settings import QuotaSetting
from fourgates.gates.quota import QuotaFold, asks, exceeded
from support.samples import CALL, PRINCIPAL

DAY = timedelta(days=1)
DAY_MS = 86_400_000


def entry(kind: EffectKind, call: str, fence: int, amount: int = 1, limit: int = 0, key: str = "k") -> EffectEntry:
    return EffectEntry(
        event_id="e",
        producer="p",
        kind=kind,
        effect_key=key,
        call_id=call,
        fence=fence,
        amount=amount,
        limit=limit,
        window_ms=DAY_MS,
    )


def reserved(call: str, fence: int, amount: int = 1, limit: int = 3) -> EffectEntry:
    return entry(EffectKind.RESERVED, call, fence, amount, limit)


def fold(*entries: EffectEntry, time_ms: int = 0) -> QuotaFold:
    made = QuotaFold()
    for one in entries:
        made.apply(one, time_ms)
    return made


def test_a_reservation_counts_while_those_before_it_leave_room() -> None:
    """B7: the fourth of three does not count; one that is given back makes room for a later one, not for that one."""
    made = fold(*(reserved(call, 1) for call in "abcd"))
    assert [made.holds("k", call, 1) for call in "abcd"] == [True, True, True, False]
    made.apply(entry(EffectKind.RETURNED, "b", 1), 0)
    assert not made.holds("k", "d", 1)
    made.apply(reserved("d", 2), 0)
    assert made.holds("k", "d", 2)
    assert made.room("k", 3, "x") == 0


def test_what_was_returned_stays_returned() -> None:
    """B7: a zombie's reservation that comes after its return is void; a later claim of the same call may reserve again."""
    made = fold(entry(EffectKind.RETURNED, "a", 5))
    made.apply(reserved("a", 1, limit=1), 0)
    assert made.room("k", 1, "x") == 1
    made = fold(reserved("a", 5), entry(EffectKind.RETURNED, "a", 5), reserved("a", 4), reserved("a", 5))
    assert made.held_by("a") == {}
    made.apply(reserved("a", 6), 0)
    assert made.held_by("a") == {"k": 6}
    made.apply(entry(EffectKind.RETURNED, "a", 5), 0)
    assert made.holds("k", "a", 6)


def test_a_call_that_claims_again_does_not_count_twice() -> None:
    """B7: its earlier reservation is replaced, also by a larger one, where there is room for the difference."""
    made = fold(reserved("a", 1, 2), reserved("a", 2, 3))
    assert made.held_by("a") == {"k": 2}
    assert made.room("k", 3, "b") == 0
    assert made.room("k", 3, "a") == 3


def test_a_period_that_is_long_over_is_forgotten() -> None:
    """B7: what a fold remembers does not grow for ever."""
    made = fold(reserved("a", 1))
    made.apply(entry(EffectKind.RESERVED, "b", 1, limit=1, key="other"), 3 * DAY_MS)
    assert set(made.calls()) == {"b"}


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_two_workers_never_exceed_a_quota_whatever_the_interleaving(data: st.DataObject) -> None:
    """B7: each worker looks, appends, reads its own entry back, runs if it counts; owners give back what ended without effect.

    The log is one order; every worker's view is a prefix of it that includes its own last entry. What has run and was not
    given back is never more than the limit, at any moment.
    """
    limit = data.draw(st.integers(1, 6))
    log: list[EffectEntry] = []
    waiting: dict[str, tuple[int, int]] = {}
    running: dict[str, tuple[int, int]] = {}
    amounts = {f"call-{n}": data.draw(st.integers(0, limit + 1)) for n in range(6)}
    fences = dict.fromkeys(amounts, 0)
    for _ in range(data.draw(st.integers(1, 25))):
        call = data.draw(st.sampled_from(sorted(amounts)))
        match data.draw(st.sampled_from(["reserve", "read back", "fail", "zombie"])):
            case "reserve" if call not in waiting and call not in running:
                fences[call] += 1
                view = fold(*log[: data.draw(st.integers(0, len(log)))])  # a worker may lag behind
                if view.room("k", limit, call) >= amounts[call]:
                    log.append(reserved(call, fences[call], amounts[call], limit))
                    waiting[call] = len(log), fences[call]
            case "read back" if call in waiting:
                position, fence = waiting.pop(call)
                upto = data.draw(st.integers(position, len(log)))
                if fold(*log[:upto]).holds("k", call, fence):
                    running[call] = amounts[call], fence
            case "fail" if call in running:  # the ledger says so, and only then the owner gives back
                log.append(entry(EffectKind.RETURNED, call, running.pop(call)[1]))
            case "zombie" if call not in waiting:
                log.append(reserved(call, data.draw(st.integers(0, fences[call])), amounts[call], limit))
        assert sum(amount for amount, _ in running.values()) <= limit


USER = Quota(QuotaOf.USER, DAY, calls=2)


def test_which_calls_count_together() -> None:
    """B7: by agent, person, run or tool; within a tenant, within a period; whatever account the person uses."""
    other = dataclasses.replace(PRINCIPAL, subject="anna-2")
    assert USER.key("t", PRINCIPAL, "run", 0) == USER.key("t", other, "other", DAY_MS - 1)
    assert USER.key("t", PRINCIPAL, "run", 0) != USER.key("t", PRINCIPAL, "run", DAY_MS)
    assert USER.key("t", PRINCIPAL, "run", 0) != USER.key("u", PRINCIPAL, "run", 0)
    for whose, changed in (
        (QuotaOf.USER, dataclasses.replace(PRINCIPAL, person="ben")), (QuotaOf.AGENT, dataclasses.replace(PRINCIPAL, agent="b")),
        (QuotaOf.TOOL, dataclasses.replace(PRINCIPAL, tenant="other")),
    ):  # fmt: skip
        quota = dataclasses.replace(USER, whose=whose)
        assert quota.key("t", PRINCIPAL, "run", 0) != quota.key("t", changed, "run", 0)
    run = Quota(QuotaOf.RUN, calls=2)
    assert run.key("t", PRINCIPAL, "run", 0) == run.key("t", PRINCIPAL, "run", 99 * DAY_MS) != run.key("t", PRINCIPAL, "r", 0)


def test_a_limit_that_is_changed_does_not_begin_anew() -> None:
    """B7: raising a quota in the middle of the day adds to it and does not forget what was used."""
    assert USER.key("t", PRINCIPAL, "r", 0) == dataclasses.replace(USER, calls=9).key("t", PRINCIPAL, "r", 0)


def test_amounts_are_counted_in_smallest_units_and_rounded_up() -> None:
    """B7: 12.345 euros take 1235 cents; floats do not blur the sum."""
    quota = Quota(QuotaOf.TOOL, DAY, amount=100_000, of="euros", unit=100)
    assert [quota.takes({"euros": value}) for value in (12.345, 0.29, 1, 0.1 + 0.2)] == [1235, 29, 100, 31]


def test_of_two_that_count_the_same_the_smaller_is_asked() -> None:
    """B7: an operator's quota beside the contract's."""
    [asked] = asks([("t", USER), ("t", Quota(QuotaOf.USER, DAY, calls=1))], CALL, {}, 5)
    assert (asked.limit, asked.amount, asked.lasts_ms) == (1, 1, DAY_MS - 5)
    assert exceeded(asked, 1) is None
    refusal = exceeded(asked, 0)
    assert refusal is not None
    assert (refusal.code, refusal.reason, refusal.detail["used"]) == (Code.QUOTA_EXCEEDED, "quota_user_calls", 1)


class Args(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    cents: int = Field(ge=1, le=10**6)
    balance: int = 0
    name: str = Field(max_length=5)


@pytest.mark.parametrize(
    ("contract", "complaint"),
    [
        ({"quotas": (Quota(QuotaOf.RUN, DAY, calls=1),)}, "leave out per"),
        ({"quotas": (Quota(QuotaOf.AGENT, calls=1),)}, "needs a period"),
        ({"quotas": (Quota(QuotaOf.AGENT, timedelta(days=90), calls=1),)}, "the log is not kept longer"),
        ({"quotas": (Quota(QuotaOf.AGENT, DAY),)}, "either calls, or amount"),
        ({"quotas": (Quota(QuotaOf.AGENT, DAY, calls=1, amount=1, of="cents"),)}, "either calls, or amount"),
        ({"quotas": (Quota(QuotaOf.AGENT, DAY, amount=1, of="name"),)}, "no number"),
        ({"quotas": (Quota(QuotaOf.AGENT, DAY, amount=1, of="balance"),)}, "optional"),
        ({"quotas": (Quota(QuotaOf.AGENT, DAY, calls=-1),)}, "must be positive"),
        ({"quotas": (USER, USER)}, "only the smallest would matter"),
        ({"quotas": (Quota("agent", DAY, calls=1),)}, "must be a QuotaOf"),  # type: ignore[arg-type]
        ({"quotas": (USER,), "risk": "read"}, "a read with quotas"),
        ({"at_once": 0}, "no call would ever run"),
        ({"rate": Rate(0)}, "every call would be rate_limited"),
        ({"rate": 5}, "rate must be a Rate"),
    ],
)
def test_contradictions_are_refused_when_a_tool_is_registered(contract: dict[str, Any], complaint: str) -> None:
    """C1, B7: each with what would go wrong."""
    catalog = Catalog("c")
    with pytest.raises(ConfigurationError, match=complaint):

        @catalog.tool(**{"risk": "write", "timeout": 1.0, **contract})
        async def spend(args: Args, ctx: ToolContext) -> object:
            """Spends."""
            return Committed()


def test_an_operators_quota_that_could_not_be_counted_refuses_to_start() -> None:
    """B7: an unknown tool, or an amount over all tools."""
    catalog = Catalog("c")

    @catalog.tool(risk="write", timeout=1.0)
    async def spend(args: Args, ctx: ToolContext) -> object:
        """Spends."""
        return Committed()

    check_quotas(catalog, (QuotaSetting(whose=QuotaOf.AGENT, per=DAY, calls=1),))
    check_quotas(catalog, (QuotaSetting(tool="spend", whose=QuotaOf.RUN, amount=1, of="cents"),))
    for odd in (
        QuotaSetting(tool="spent", whose=QuotaOf.AGENT, per=DAY, calls=1),
        QuotaSetting(whose=QuotaOf.AGENT, per=DAY, amount=1, of="cents"),
    ):
        with pytest.raises(ConfigurationError, match="quota"):
            check_quotas(catalog, (odd,))


def test_limits_and_quotas_are_part_of_the_version() -> None:
    """B6, B7: who approved a call did so under them."""
    versions = set()
    for more in ({}, {"quotas": (USER,)}, {"at_once": 2}, {"rate": Rate(5)}):
        catalog = Catalog("c")

        @catalog.tool(risk="write", timeout=1.0, **more)
        async def spend(args: Args, ctx: ToolContext) -> object:
            """Spends."""
            return Committed()

        versions.add(next(iter(catalog)).version)
    assert len(versions) == 4
