"""Erasure of a subject: what they said and who they were is gone from the store; counts, digests and the comparison stay."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.applications import Starlette

from fourgates.audit.durations import approvals
from fourgates.audit.erasure import Eraser
from fourgates.audit.erasure_door import PATH, erasure_route, operator_word
from fourgates.audit.explain import explain
from fourgates.audit.integrity import run_integrity
from fourgates.audit.report import success
from fourgates.contract.topology import BY_NAME
from fourgates.runtime.clock import ManualClock
from support.auditing import Engine
from support.planting import compared
from support.samples import PRINCIPAL
from support.sealing import keyring
from support.stories import Life, Tape, an_approved_write, good_stories

pytestmark = pytest.mark.engine
BORIS = dataclasses.replace(PRINCIPAL, subject="boris", person="Boris Brandt")


class Blobs:
    """Remembers who was erased."""

    def __init__(self) -> None:
        self.erased: list[tuple[str, str]] = []

    async def erase(self, tenant: str, subject: str) -> int:
        self.erased.append((tenant, subject))
        return 3


@pytest.fixture
def tape() -> Tape:
    """Anna's calls, some of them decided by fiona, and two of boris."""
    tape = Tape()
    good_stories(tape)
    for name in ("b-1", "b-2"):
        life = Life(tape, name, principal=BORIS, arguments={"order_id": "B-7", "note": "Boris lives in Lindenweg 4"})
        life.asked(user_turns=("I am Boris Brandt, Lindenweg 4.",))
        life.validated(facts='{"address":"Lindenweg 4"}')
        life.held()
        life.shown()
        life.decided("approve", "fiona", "Boris may")
        life.cleared("fiona")
        life.claimed("fiona")
        life.attempted()
        life.finished(state_change='{"street":"Lindenweg 4"}')
        life.told(content="refunded to Boris Brandt")
    return tape


@pytest_asyncio.fixture
async def eraser(engine: Engine, tape: Tape) -> AsyncIterator[Eraser]:
    engine.store.command("TRUNCATE TABLE fourgates.erasures")
    engine.take(tape.received)
    yield Eraser(engine.store, engine.rows, Blobs(), ManualClock(tape.now_ms + 1_000))


def everything(engine: Engine) -> str:
    """All that lies in the table, merged or not."""
    return json.dumps(engine.ask("SELECT * FROM fourgates.events"), ensure_ascii=False)


async def test_nothing_of_the_person_is_left_and_every_count_is(engine: Engine, tape: Tape, eraser: Eraser) -> None:
    """L8: personal data by tenant and subject."""
    before = success(engine.store.query), approvals(engine.store.query)
    digests = engine.ask("SELECT topic, partition, offset, value_digest, args_digest FROM fourgates.records ORDER BY ALL")
    assert "Boris" in everything(engine)
    receipt = await eraser.erase("acme", "boris", "root")
    left = everything(engine)
    assert not any(word in left for word in ("Boris", "boris", "Lindenweg", "B-7"))
    assert "fiona" in left
    assert (success(engine.store.query), approvals(engine.store.query)) == before
    assert engine.ask("SELECT topic, partition, offset, value_digest, args_digest FROM fourgates.records ORDER BY ALL") == digests
    assert (receipt.calls, receipt.blobs) == (2, 3)
    assert receipt.rows == engine.one("SELECT count() FROM fourgates.events WHERE erased_ms > 0") > 20
    assert engine.one("SELECT count() FROM fourgates.events") == len(tape.received)


async def test_check_names_the_rows_as_erased_and_not_as_altered(engine: Engine, tape: Tape, eraser: Eraser) -> None:
    """L8, L6: and an alteration that claims to be an erasure is one."""
    receipt = await eraser.erase("acme", "boris", "root")
    result = await compared(engine, tape)
    assert (result.differences, len(result.erased)) == ([], receipt.rows)
    assert [one.name for one in run_integrity(engine.store.query, tape.now_ms + 1, 0) if one.rows] == []
    engine.store.command(
        f"ALTER TABLE fourgates.events UPDATE arguments = '[erased]', erased_ms = {receipt.asked_ms}"
        " WHERE topic = 'calls.ledger' AND kind = 'Claimed' AND subject = 'anna' SETTINGS mutations_sync = 2"
    )
    result = await compared(engine, tape)
    assert {(one.kind, one.columns) for one in result.differences} == {("altered", ("arguments",))}
    engine.store.command("ALTER TABLE fourgates.erasures UPDATE calls = 1 WHERE calls = 2 SETTINGS mutations_sync = 2")
    assert (await compared(engine, tape)).found["altered"] > receipt.rows


async def test_receipt_says_what_the_log_still_holds_and_until_when(tape: Tape, eraser: Eraser) -> None:
    """L8: the log by retention."""
    receipt = await eraser.erase("acme", "boris", "root")
    rest = {one.topic: one for one in receipt.log}
    newest: dict[str, int] = {}
    for one in tape.received:
        newest[one.position.topic] = max(newest.get(one.position.topic, 0), one.time_ms)
    assert set(rest) == {"calls.requested", "calls.validated", "approvals", "calls.cleared", "calls.ledger", "effects",
                         "calls.completed"}  # fmt: skip
    assert rest["calls.validated"].records == 2
    kept = BY_NAME["calls.ledger"].kept
    assert kept is not None
    assert rest["calls.ledger"].until_ms is not None
    assert 0 <= newest["calls.ledger"] + kept.total_seconds() * 1000 - rest["calls.ledger"].until_ms < 1_000


async def test_one_who_only_decided_is_taken_out_of_the_calls_of_others(engine: Engine, tape: Tape, eraser: Eraser) -> None:
    """L8: the decision stays, and counts as before."""
    before = approvals(engine.store.query)
    receipt = await eraser.erase("acme", "fiona", "root")
    left = everything(engine)
    assert "fiona" not in left
    assert "looks right" not in left
    assert "Lindenweg" in left, "what the askers said is theirs"
    assert approvals(engine.store.query) == before
    rows = engine.ask("SELECT DISTINCT approvers FROM fourgates.records WHERE notEmpty(approvers)")
    assert rows == [{"approvers": [receipt.pseudonym]}]
    assert (await compared(engine, tape)).differences == []
    assert [one.name for one in run_integrity(engine.store.query, tape.now_ms + 1, 0) if one.rows] == []


async def test_what_comes_afterwards_is_found_and_erased_by_asking_again(engine: Engine, tape: Tape, eraser: Eraser) -> None:
    """L8: the same pseudonym; a batch that the sink repeats is found too."""
    first = await eraser.erase("acme", "boris", "root")
    again = await eraser.erase("acme", "boris", "root")
    assert (again.rows, again.pseudonym) == (0, first.pseudonym)
    engine.take(tape.received[-3:])
    found = {one.name: one.rows for one in run_integrity(engine.store.query, tape.now_ms + 1, 0) if one.rows}
    late = engine.one("SELECT count() FROM fourgates.records WHERE erased_ms = 0 AND position(observation, 'Boris') > 0")
    assert bool(found.get("erased_but_there")) == bool(late)
    await eraser.erase("acme", "boris", "root")
    assert "Boris" not in everything(engine)
    assert [one.name for one in run_integrity(engine.store.query, tape.now_ms + 1, 0) if one.rows] == []


async def test_subject_of_another_tenant_is_left_alone(engine: Engine, eraser: Eraser) -> None:
    """L8: everything is separated by tenant."""
    receipt = await eraser.erase("globex", "boris", "root")
    assert (receipt.calls, receipt.rows, receipt.log) == (0, 0, ())
    assert "Boris" in everything(engine)


async def test_erased_call_is_still_explained(engine: Engine, tape: Tape, eraser: Eraser) -> None:
    """L8, L5: what happened, without who and what."""
    life = an_approved_write(tape, "erased")
    engine.take(tape.received[-13:])
    await eraser.erase("acme", "anna", "root")
    told = explain(engine.store.query, life.call_id)
    assert told is not None
    assert "anna" not in told.text()
    assert "[erased]" in told.asked
    assert told.happened.startswith("It ran and took effect (1 attempt, 40 ms).")


@pytest.mark.parametrize(
    ("word", "status"),
    [("none", 403), ("door", 403), ("other body", 403), ("stale", 403), ("executor", 403), ("empty", 400), ("good", 200)],
)
async def test_door_erases_only_by_a_fresh_word_of_the_operator(eraser: Eraser, tape: Tape, word: str, status: int) -> None:
    """L8: the query door's token is not enough."""
    clock = ManualClock(tape.now_ms)
    said: dict[str, Any] = {"tenant": "acme", "subject": "" if word == "empty" else "boris", "asked_by": "root"}
    body = json.dumps(said).encode()
    header = operator_word(
        keyring().signer("executor" if word == "executor" else "operator"),
        b"other" if word == "other body" else body,
        tape.now_ms - (61_000 if word == "stale" else 0),
    )
    headers = {"none": {}, "door": {"Authorization": "Bearer a-door-token"}}.get(word, {"Authorization": header})
    app = Starlette(routes=[erasure_route(eraser, keyring().verifier(), clock)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as http:
        answer = await http.post(PATH, content=body, headers=headers)
        assert answer.status_code == status, answer.text
        assert ("error" in answer.json()) == (status != 200)
        foreign = await http.post(PATH, content=body, headers={**headers, "Host": "evil.example"})
        assert foreign.status_code == 403
