"""Gate 3 on every bus: who asks, for whom an agent acts, and what each of them may do."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerKind
from fourgates.contract.topology import (
    APPROVALS,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    TOPOLOGY,
)
from support.asking import RUN_KEY, ask, request
from support.eventually import eventually
from support.worlds import AGENT, STAFF, TENANT, StoryWorld, fresh_order, not_yet_final

pytestmark = pytest.mark.asyncio(loop_scope="session")
HOUR_MS = 3_600_000


def token(world: StoryWorld, subject: str = "anna", groups: Any = STAFF, **more: Any) -> str:
    return world.keyring.issuer.token(subject, TENANT, groups, **more)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def look(item: str = "x") -> str:
    return json.dumps({"item": item})


async def answers(world: StoryWorld, call_id: str) -> list[dict[str, Any]]:
    """What was told of a call."""

    async def told() -> list[dict[str, Any]]:
        found = [e.record for e in await world.records(CALLS_COMPLETED) if e.record.call_id == call_id]
        return [json.loads(record.observation) for record in found]

    observations: list[dict[str, Any]] = await eventually(told)
    return observations


async def test_no_token_and_no_run_key_lies_in_any_record(world: StoryWorld) -> None:
    """P1: what was asked, held, run and refused; as text, and as the bytes of the key."""
    bearer, agents = token(world), token(world, AGENT, (), service=True)
    run = world.client.run(bearer, intent="look and pay", agent=agents)
    assert (await run.call("look", look(), tool_call_id="1")).code is Code.OK
    await not_yet_final(run, "pay", json.dumps({"order": fresh_order(), "cents": 9_000}), tool_call_id="2")
    asked = await ask(world, request(world, token=bearer, agent_token=agents))
    await answers(world, asked.call_id)
    secrets = [part.encode() for whole in (bearer, agents) for part in (whole, whole.split(".")[1], whole.split(".")[2])]
    for topic in TOPOLOGY:
        for envelope in await world.records(topic.name):
            assert not any(secret in envelope.raw for secret in (*secrets, RUN_KEY, RUN_KEY.hex().encode())), topic.name


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"now_ms": now_ms() - 2 * HOUR_MS}, "token_expired"),
        ({"now_ms": now_ms() + HOUR_MS}, "token_not_yet_valid"),
        ({"audience": "elsewhere"}, "wrong_audience"),
    ],
)
async def test_a_token_that_does_not_count_ends_nothing(world: StoryWorld, claims: dict[str, Any], reason: str) -> None:
    """P1: told at once; with a good token the very same call goes through."""
    bad, good = token(world, agent=AGENT, **claims), token(world, agent=AGENT)
    asked = await ask(world, request(world, token=bad))
    [told] = await answers(world, asked.call_id)
    assert (told["code"], told["reason"], told["final"]) == ("identity_invalid", reason, False)
    again = await ask(world, request(world, token=good, run_id=asked.record.run_id))
    assert again.call_id == asked.call_id

    async def passed() -> bool:
        return "ok" in [observation["code"] for observation in await answers(world, asked.call_id)]

    await eventually(passed)


async def test_a_long_run_renews_its_token(world: StoryWorld) -> None:
    """P1: when the first has expired the next call bears another grant; an asked call keeps its key and its answer."""
    tokens = [token(world, agent=AGENT, now_ms=now_ms() - HOUR_MS + 1_000), token(world, agent=AGENT)]
    run = world.client.run(lambda: tokens[0])
    first = await run.call("look", look(), tool_call_id="1")
    assert first.code is Code.OK
    del tokens[0]
    second = await run.call("look", look("y"), tool_call_id="2")
    assert second.code is Code.OK
    assert (await run.call("look", look(), tool_call_id="1")).to_json() == first.to_json()
    grants = {e.record.grant for e in await world.records(CALLS_REQUESTED) if e.record.run_id == run.id}
    assert len(grants) == 2


async def test_clocks_may_differ_by_half_a_minute(world: StoryWorld) -> None:
    """P1: an issuer's clock that runs ahead, or a token that has just ended."""
    for shift_ms in (20_000, 20_000 - HOUR_MS):
        run = world.client.run(token(world, agent=AGENT, now_ms=now_ms() + shift_ms))
        assert (await run.call("look", look(), tool_call_id="1")).code is Code.OK


async def test_an_agent_shows_its_own_credential_or_the_users_token_names_it(world: StoryWorld) -> None:
    """P4: both ways the same principal, and so the same call."""
    one = world.client.run(token(world, agent=AGENT))
    other = world.client.run(token(world), agent=token(world, AGENT, (), service=True), run_id=one.id)
    first = await one.call("look", look(), tool_call_id="1")
    assert (await other.call("look", look(), tool_call_id="1")).to_json() == first.to_json()
    [validated] = {
        e.record.call.principal for e in await world.records(CALLS_VALIDATED) if e.record.call.call_id == first.call_id
    }
    assert (validated.subject, validated.agent, validated.service) == ("anna", AGENT, False)


async def test_a_persons_token_makes_nobody_an_agent(world: StoryWorld) -> None:
    """P4: an agent's credential is a service account's. The SDK says so at once; by hand it is nobody's call."""
    with pytest.raises(ValueError, match="agent_no_service_account"):
        await world.client.run(token(world), agent=token(world, AGENT)).call("look", look(), tool_call_id="1")
    asked = await ask(world, request(world, token=token(world), agent_token=token(world, AGENT)))
    assert await asked.dead(world) == "no_claims"


async def test_the_call_needs_the_users_right_and_the_agents(world: StoryWorld) -> None:
    """P4, P2: neither lends the other one its own."""
    order = json.dumps({"order": fresh_order(), "cents": 100})
    stranger = await world.client.run(token(world, "zoe", ("visitors",), agent=AGENT)).call("pay", order, tool_call_id="1")
    rogue = await world.client.run(token(world, agent="rogue")).call("pay", order, tool_call_id="1")
    alone = await world.client.run(token(world)).call("pay", order, tool_call_id="1")
    assert [obs.code for obs in (stranger, rogue, alone)] == [Code.PERMISSION_DENIED, Code.PERMISSION_DENIED, Code.OK]
    entries = {key for _, key, _ in world.downstream.entries()}
    assert entries.isdisjoint({stranger.call_id, rogue.call_id})


async def test_an_unattended_run_has_a_principal_of_its_own(world: StoryWorld) -> None:
    """P1: a service account, known as one to rules, policies and people."""
    run = world.client.run(token(world, "nightly", STAFF, service=True))
    obs = await run.call("look", look(), tool_call_id="1")
    assert obs.code is Code.OK
    [who] = {e.record.call.principal for e in await world.records(CALLS_CLEARED) if e.record.call.call_id == obs.call_id}
    assert (who.subject, who.person, who.agent, who.service) == ("nightly", "nightly", "", True)


async def test_somebody_elses_resource_is_denied_by_its_facts(world: StoryWorld) -> None:
    """P3: this principal, this room; one that does not exist looks the same."""
    room, nowhere = fresh_order("R").lower(), fresh_order("R").lower()
    world.bookings.put(room, owner="ben")
    told = []
    for name in (room, nowhere):
        obs = await world.run().call("book", json.dumps({"room": name, "seats": 1}), tool_call_id="1")
        told.append((obs.code, obs.reason, obs.message))
    assert told[0] == told[1]
    assert told[0][:2] == (Code.PERMISSION_DENIED, "own-rooms")
    passed = await world.run("ben").call("book", json.dumps({"room": room, "seats": 1}), tool_call_id="1")
    assert passed.code is Code.OK


async def test_a_denied_call_repeated_is_told_again_counted_and_asks_nobody(world: StoryWorld) -> None:
    """P5: under new ids, as a model in a loop does it; nothing is held, nothing claimed, nothing run."""
    run = world.client.run(token(world, "zoe", ("visitors",), agent=AGENT))
    order = json.dumps({"order": fresh_order(), "cents": 100})
    asked = [await run.call("pay", order, tool_call_id=str(number)) for number in range(5)]
    assert {(obs.code, obs.reason, obs.final, obs.retryable) for obs in asked} == {
        (Code.PERMISSION_DENIED, "no_policy", True, False)
    }  # fmt: skip
    call_ids = {obs.call_id for obs in asked}
    entries = [e.record for e in await world.records(CALLS_LEDGER) if e.record.call_id in call_ids]
    assert [entry.kind for entry in entries] == [LedgerKind.REFUSED] * 5
    assert sorted(json.loads(entry.detail).get("repeated", 0) for entry in entries) == [0, 1, 2, 3, 4]
    for topic in (APPROVALS, CALLS_CLEARED):
        assert not call_ids & {getattr(e.record, "call_id", "") for e in await world.records(topic)}
    again = await run.call("pay", order, tool_call_id="0")
    assert again.to_json() == asked[0].to_json()
