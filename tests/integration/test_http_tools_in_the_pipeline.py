"""An HTTP payment provider through every gate: answers that get lost, a provider that is busy, one that says no."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import pytest
import pytest_asyncio
from pydantic import BaseModel, ConfigDict, Field

from fourgates.catalog import Catalog, Effect
from fourgates.contract.codes import Code
from fourgates.testing import Pipeline
from fourgates.tools.answers import Declared
from fourgates.tools.http import Answer, HttpTool
from fourgates.tools.http_asks import HttpProbe
from fourgates.tools.http_request import HttpRequest
from support.http_downstream import HttpDownstream, Say, Seen
from support.kinds import POLICIES
from support.worlds import AGENT, FAST, OPTIONS, STAFF, TENANT

pytestmark = pytest.mark.asyncio(loop_scope="module")
DECLINED = Declared(reason="card_declined", sentence="The card was declined.", not_executed=True)


class Charge(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    order: Annotated[str, Field(pattern=r"^[A-Z]-[0-9]{1,9}$", max_length=12)]
    cents: Annotated[int, Field(ge=1, le=1_000_000)]


@dataclass
class Provider:
    """Charges once a key; what it says of the next charges is decided beforehand."""

    charges: dict[str, dict[str, Any]] = field(default_factory=dict)
    says: list[Say] = field(default_factory=list)
    """For the next charges: None of its own means the truth; a cut one charges and loses the answer."""
    sent: list[tuple[str, str]] = field(default_factory=list)
    """(order, key) of each request to charge, in order."""

    def answer(self, seen: Seen) -> Say:
        if seen.method == "GET":
            key = seen.target.rpartition("/")[2]
            return Say(200, self.charges[key]) if key in self.charges else Say(404, {})
        key, asked = seen.headers["idempotency-key"], json.loads(seen.body)
        self.sent.append((asked["order"], key))
        say = self.says.pop(0) if self.says else Say()
        if say.status >= 400:
            return say
        charged = self.charges.setdefault(key, {"id": f"ch-{len(self.charges)}", **asked})
        return Say(201, charged, cut=say.cut)

    def of(self, order: str) -> list[dict[str, Any]]:
        return [charge for charge in self.charges.values() if charge["order"] == order]

    def keys(self, order: str) -> list[str]:
        return [key for asked, key in self.sent if asked == order]


def make_catalog(url: str) -> Catalog:
    """`charge` sends its key and may send again; `charge_plain` has only a probe; `charge_blind` has neither."""
    made = Catalog("payments", policies=POLICIES)
    request = HttpRequest(method="POST", url=f"{url}/charges", headers={"Idempotency-Key": "@key"}, body={"": ""})
    probe = HttpProbe(HttpTool(HttpRequest(method="GET", url=f"{url}/charges/{{@key}}")))
    for name, more in (
        ("charge", {"honours_key": True, "probe": probe}), ("charge_plain", {"probe": probe}), ("charge_blind", {}),
    ):  # fmt: skip
        made.register(
            HttpTool(request, answers=(Answer(status="402", means=DECLINED),)), name=name, arguments=Charge, risk="write",
            description="Charges. Use it once; moves money; returns the charge.", timeout=3, settle=timedelta(seconds=0.3),
            effect=Effect(name, ("{order}",)), **more,
        )  # fmt: skip
    return made


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def place() -> AsyncIterator[tuple[Pipeline, Provider]]:
    provider = Provider()
    async with (
        HttpDownstream(provider.answer) as there,
        Pipeline(make_catalog(there.url), settings=FAST, tenant=TENANT, options=OPTIONS) as gates,
    ):
        yield gates, provider


async def charge(gates: Pipeline, tool: str, order: str, wait: float | None = None) -> Any:
    return await gates.run("anna", STAFF, agent=AGENT).call(tool, {"order": order, "cents": 500}, tool_call_id="1", wait=wait)


async def test_a_lost_answer_is_asked_for_again_with_the_same_key(place: tuple[Pipeline, Provider]) -> None:
    """E3, E9, E12: charged once, and the true answer is told."""
    gates, provider = place
    provider.says = [Say(cut=0), Say(cut=3)]
    obs = await charge(gates, "charge", "A-1")
    [charged] = provider.of("A-1")
    assert (obs.code, json.loads(obs.content)["id"]) == (Code.OK, charged["id"])
    assert provider.keys("A-1") == [obs.call_id] * 3


async def test_without_the_key_honoured_nothing_is_sent_twice_and_the_probe_finds_out(place: tuple[Pipeline, Provider]) -> None:
    """E3, E6"""
    gates, provider = place
    provider.says = [Say(cut=0)]
    obs = await charge(gates, "charge_plain", "B-1")
    [charged] = provider.of("B-1")
    assert (obs.code, json.loads(obs.content)["id"]) == (Code.OK, charged["id"])
    assert len(provider.keys("B-1")) == 1


async def test_who_knows_nothing_says_so(place: tuple[Pipeline, Provider]) -> None:
    """E6: a strange status, and not found, are no assertion."""
    gates, provider = place
    for tool, order in (("charge_blind", "C-1"), ("charge_plain", "C-2")):
        provider.says = [Say(500, {"error": "psql"})]
        obs = await charge(gates, tool, order, wait=1.0)
        assert (obs.code, obs.final, obs.content) == (Code.IN_DOUBT, False, None)
        assert provider.of(order) == []
        assert len(provider.keys(order)) == 1


async def test_what_the_contract_declares_is_failed_and_the_key_is_free(place: tuple[Pipeline, Provider]) -> None:
    """E6, R7"""
    gates, provider = place
    provider.says = [Say(402, {"error": "declined: 4111 1111"})]
    obs = await charge(gates, "charge_blind", "D-1")
    assert (obs.code, obs.reason, obs.message) == (Code.TOOL_FAILED, "card_declined", "The card was declined.")
    assert (await charge(gates, "charge_blind", "D-1")).code is Code.OK
    assert len(provider.of("D-1")) == 1


async def test_a_busy_provider_is_left_alone_as_long_as_it_asks(place: tuple[Pipeline, Provider]) -> None:
    """E9: Retry-After goes before our own, shorter wait."""
    gates, provider = place
    provider.says = [Say(429, {}, {"Retry-After": "1"})]
    began = gates.clock.monotonic()
    obs = await charge(gates, "charge", "E-1")
    assert obs.code is Code.OK
    assert gates.clock.monotonic() - began >= 1.0
    assert len(provider.keys("E-1")) == 2


async def test_a_provider_that_is_not_there_ends_nothing() -> None:
    """E6, E9: the connection never came about, so nothing happened: the same key may ask again."""
    provider = Provider()
    async with HttpDownstream(provider.answer) as there:
        url = there.url
    async with Pipeline(make_catalog(url), settings=FAST, tenant=TENANT, options=OPTIONS) as gates:
        obs = await charge(gates, "charge_blind", "F-1")
    assert (obs.code, obs.reason, obs.final) == (Code.UNAVAILABLE, "not_reached", False)
