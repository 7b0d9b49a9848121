"""The sanitizer on the in-process bus: one final answer with the same bytes, and nothing of a result that may not be read."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.contract.errors import Transient
from fourgates.contract.events import CallCompleted, LedgerKind
from fourgates.contract.parts import Cause, Fault
from fourgates.contract.ports import Envelope, Following, Position, Sink
from fourgates.contract.topology import CALLS_COMPLETED, CALLS_LEDGER, RECORDS_DEAD
from fourgates.gates import answers
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_patterns import CHOSEN
from fourgates.sanitizer import contents as contents_module
from support.sanitizing import RUN, Sanitizing
from support.sealing import writer

K = LedgerKind
SECRET = "ghp_" + "Zq7" * 12
"""Put together here so that no line of the repository looks like a real one."""


@pytest.fixture
async def world() -> AsyncIterator[Sanitizing]:
    made = Sanitizing()
    await made.start()
    yield made
    await made.crash()


async def test_a_committed_call_is_answered_once_with_its_cleaned_content(world: Sanitizing) -> None:
    """R4, E1"""
    finished = await world.run_write({"receipt": "r\u200b-1", "note": "paid\x1b[31m"})
    (completed,) = world.completed()
    assert (completed.code, completed.final, completed.tenant, completed.run_id) == ("ok", True, "acme", RUN)
    assert completed.cause is not None and completed.cause.event_id == finished.event_id
    told = world.last_json()
    assert json.loads(told["content"]) == {"receipt": "r-1", "note": "paid"}
    assert (told["trust"], told["replayed"], told["truncated"], told["content_ref"]) == ("untrusted", False, False, None)
    assert completed.output_bytes == len(told["content"].encode())


@pytest.mark.parametrize("kind", [K.REPLAYED, K.CANCELLED, K.REFUSED, K.FINISHED])
async def test_asked_again_the_first_answer_comes_byte_for_byte(world: Sanitizing, kind: LedgerKind) -> None:
    """E1"""
    await world.run_write("paid")
    for _ in range(2):
        await world.say(kind, code="rule_violated", outcome="committed", claim_id="y" if kind is K.FINISHED else "")
    finals = world.finals()
    assert len(finals) == 3 and len(set(finals)) == 1
    assert len({record.event_id for record in world.completed()}) == 3


async def test_the_answer_survives_a_restart(world: Sanitizing) -> None:
    """E1, E5"""
    await world.run_write("paid")
    await world.crash()
    world.catalog = Sanitizing().catalog  # another deployment must not answer otherwise
    await world.start(content_ceiling=1)
    await world.say(K.REPLAYED)
    assert len(world.finals()) == 2 and len(set(world.finals())) == 1


async def test_the_first_bytes_are_told_after_other_keys_and_other_patterns(
    world: Sanitizing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1, R3: redacted anew, it would read differently; what a model was told once stays so."""
    await world.run_write(f"paid with {SECRET}")
    first = world.finals()[0]
    await world.crash()
    world.redeliver_all()
    monkeypatch.setattr(contents_module, "Redactor", lambda key, call_id, kinds: Redactor(b"another key", call_id, CHOSEN))
    await world.start()
    await world.drained()
    await world.say(K.REPLAYED)
    await world.run_write(f"paid with {SECRET}", "later")
    assert world.finals() == [first] * 3
    assert world.finals("later")[0].split("[redacted:")[1][:15] != first.split("[redacted:")[1][:15]


async def test_what_was_stored_goes_once_it_is_old(world: Sanitizing) -> None:
    """L8, R2"""
    await world.run_read("x" * 1_000)
    await world.raw.put("acme", b"left behind")
    assert world.stage is not None
    upkeep = world.stage._upkeep
    await world.stage.tick()
    assert upkeep.removed == 0 and upkeep._under_way is None
    for hours in (24, 24 * 7, 24 * 40):
        await world.clock.advance(hours * 3_600)
        await world.stage.tick()
        assert upkeep._under_way is not None
        await upkeep._under_way
    assert (len(world.results), len(world.raw)) == (0, 0)


async def test_a_redelivered_entry_repeats_its_event_and_its_bytes(world: Sanitizing) -> None:
    """E1, E5"""
    await world.run_write("paid", result=await world.blob_box("paid"))
    await world.crash()
    world.redeliver_all()
    await world.start(content_ceiling=1)
    await world.drained()
    first, second = world.completed()
    assert (first.event_id, first.observation, first.cause) == (second.event_id, second.observation, second.cause)
    assert world.committed_everything()


async def test_a_redelivered_life_tells_the_same_events_again(world: Sanitizing) -> None:
    """E5"""
    await world.say(K.PENDING)
    await world.say(K.CLAIMED, claim_id="x")
    await world.say(K.IN_DOUBT, claim_id="x", code="in_doubt")
    await world.say(K.FINISHED, claim_id="x", outcome="committed", result=world.box("paid"))
    told = [(record.event_id, record.observation) for record in world.completed()]
    await world.crash()
    world.redeliver_all()
    await world.start()
    await world.drained()
    assert [(r.event_id, r.observation) for r in world.completed()] == told * 2
    assert world.codes()[:3] == ["approval_pending", "in_doubt", "ok"]


class _Lagging:
    """A reading that shows what was appended only when somebody waits for its end."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.held: list[Envelope] = []
        self.waits = 0

    async def reached_end(self) -> None:
        self.waits += 1
        while self.held:
            self._sink(self.held.pop(0))

    async def reached(self, partition: int, offset: int) -> None:
        await self.reached_end()

    async def close(self) -> None:
        self.held.clear()


async def _lagging(world: Sanitizing, monkeypatch: pytest.MonkeyPatch) -> _Lagging:
    """Starts a sanitizer whose index of answers lags."""
    made: list[_Lagging] = []
    follow = world.bus.follow

    async def lagging(topic: str, sink: Sink, partitions: Iterable[int] | None = None) -> Following:
        made.append(_Lagging(sink))
        await follow(topic, made[0].held.append, partitions)
        return made[0]

    monkeypatch.setattr(world.bus, "follow", lagging)
    await world.crash()
    await world.start()
    return made[0]


async def test_a_later_word_may_overtake_the_index(world: Sanitizing, monkeypatch: pytest.MonkeyPatch) -> None:
    """E1"""
    index = await _lagging(world, monkeypatch)
    waits = index.waits
    await world.run_write("paid")
    await world.say(K.REPLAYED)
    assert index.held and index.waits == waits
    assert len(world.finals()) == 2 and len(set(world.finals())) == 1


async def test_an_answer_that_the_index_does_not_know_yet_is_waited_for(
    world: Sanitizing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E1, E5"""
    await world.run_write("paid")
    index = await _lagging(world, monkeypatch)
    assert world.stage is not None
    world.stage._answers._places.clear()
    index.held = world.bus.opened(CALLS_COMPLETED)
    await world.say(K.REPLAYED)
    assert len(world.finals()) == 2 and len(set(world.finals())) == 1


async def test_words_that_end_nothing_are_told_and_then_the_end(world: Sanitizing) -> None:
    """E6, E7"""
    await world.say(K.REFUSED, code="unavailable", reason="facts")
    await world.say(K.PENDING)
    await world.say(K.CLAIMED, claim_id="x")
    await world.say(K.CANCELLED)
    await world.say(K.IN_DOUBT, claim_id="x", code="in_doubt", reason="timeout")
    await world.say(K.RESOLVED, claim_id="x", outcome="committed")
    await world.say(K.CANCELLED)
    assert world.codes() == ["unavailable", "approval_pending", "cancel_too_late", "in_doubt", "ok", "ok"]
    assert world.last().message == answers.RESOLVED_COMMITTED and world.last().content is None
    assert len(set(world.finals())) == 1


async def test_a_conflict_is_passed_on_and_ends_nothing(world: Sanitizing) -> None:
    """E2"""
    await world.run_write("paid")
    await world.say(K.REFUSED, code="idempotency_conflict", reason="other_call")
    await world.say(K.REPLAYED)
    assert world.codes() == ["ok", "idempotency_conflict", "ok"]
    assert not world.completed()[1].final
    assert len(set(world.finals())) == 1


async def test_a_read_is_remembered_for_ten_minutes_then_answered_afresh(world: Sanitizing) -> None:
    """E1"""
    await world.run_read({"stock": 1})
    await world.run_read({"stock": 2})
    await world.clock.advance(9 * 60)
    await world.say(K.REPLAYED, tool="look")
    assert len(set(world.finals())) == 1
    await world.clock.advance(61)
    await world.run_read({"stock": 3})
    await world.say(K.REPLAYED, tool="look")
    finals = world.finals()
    assert len(finals) == 5 and finals[3] == finals[4] != finals[0]
    assert json.loads(json.loads(finals[4])["content"]) == {"stock": 3}


async def test_a_fresh_read_is_told_as_such_after_a_restart(world: Sanitizing) -> None:
    """E1, E5"""
    await world.run_read({"stock": 1})
    await world.clock.advance(601)
    await world.run_read({"stock": 3})
    await world.crash()
    await world.start()
    await world.say(K.REPLAYED, tool="look")
    finals = world.finals()
    assert finals[1] == finals[2] != finals[0]


async def test_a_refusal_after_a_forgotten_read_is_not_answered_with_its_content(world: Sanitizing) -> None:
    """P5, E1"""
    await world.run_read({"stock": 1})
    await world.clock.advance(601)
    await world.say(K.REFUSED, tool="look", code="permission_denied")
    await world.say(K.REPLAYED, tool="look")
    assert world.codes() == ["ok", "permission_denied", "permission_denied"]


async def test_another_calls_first_result_answers_a_call_with_the_same_effect(world: Sanitizing) -> None:
    """E4"""
    await world.run_write({"receipt": "r-1"}, "first")
    await world.say(K.CLAIMED, "second", claim_id="y")
    await world.say(K.RELEASED, "second", claim_id="y", vouches=0)
    await world.say(K.REPLAYED, "second", detail=json.dumps({"answers": "first"}))
    first, second = world.last_json("first"), world.last_json("second")
    assert (second["call_id"], second["replayed"], second["ok"]) == ("second", True, True)
    assert {**first, "call_id": "second", "replayed": True} == second
    await world.say(K.REPLAYED, "second", detail=json.dumps({"answers": "first"}))
    await world.run_write("ran after all", "second")
    assert len(world.finals("second")) == 3 and len(set(world.finals("second"))) == 1


async def test_an_answer_that_is_not_there_yet_is_waited_for(world: Sanitizing) -> None:
    """E4"""
    replayed = world.entry(K.REPLAYED, "second", detail=json.dumps({"answers": "first"}))
    world.put(replayed)
    await asyncio.sleep(0)
    assert world.completed("second") == []
    world.put(world.entry(K.CLAIMED, "first", claim_id="x"))
    world.put(world.entry(K.FINISHED, "first", claim_id="x", outcome="committed", result=world.box("paid", "first")))
    while not world.completed("second"):
        await world.clock.advance(1)
    assert world.last("second").content == "paid"


async def test_a_call_that_another_ones_answer_ends_is_not_held_up_for_ever(world: Sanitizing) -> None:
    """E4: while the first call is in doubt, the second is told that the effect is another call's, and later the same bytes."""
    world.put(world.entry(K.CLAIMED, "second", claim_id="y"))
    detail = json.dumps({"answers": "first"})
    world.put(world.entry(K.REFUSED, "second", claim_id="y", vouches=0, code="duplicate_effect", detail=detail))
    while not world.completed("second"):
        await world.clock.advance(1)
    assert world.last("second").code == "duplicate_effect"
    await world.run_write("paid", "first")
    await world.say(K.REPLAYED, "second")
    assert len(world.finals("second")) == 2 and len(set(world.finals("second"))) == 1


async def test_a_call_that_ended_as_a_duplicate_keeps_the_answer_it_got(world: Sanitizing) -> None:
    """E1, E4: its first answer is the first call's; asked again, it is told by the same bytes."""
    await world.run_write({"receipt": "r-1"}, "first")
    await world.say(K.CLAIMED, "second", claim_id="y")
    detail = json.dumps({"answers": "first"})
    await world.say(K.REFUSED, "second", claim_id="y", vouches=0, code="duplicate_effect", detail=detail)
    await world.say(K.REPLAYED, "second")
    assert {**world.last_json("first"), "call_id": "second", "replayed": True} == world.last_json("second")
    assert len(world.finals("second")) == 2 and len(set(world.finals("second"))) == 1


async def test_another_tenants_answer_is_never_told(world: Sanitizing) -> None:
    """P6, R2"""
    await world.run_write("theirs", "first", about=dataclasses.replace(world.about(), tenant="other"))
    await world.say(K.REPLAYED, "second", detail=json.dumps({"answers": "first"}))
    assert world.completed("second") == []
    (dead,) = [e.record for e in world.bus.opened(RECORDS_DEAD)]
    assert dead.reason == "other_tenant"


async def test_a_result_over_the_limit_is_cut_marked_and_stored_redacted(world: Sanitizing) -> None:
    """R1, R2, R3"""
    text = "\n".join(f"line {n} password=swordfish{n}" for n in range(500))
    await world.run_read(text)
    told = world.last_json()
    assert told["truncated"] and len(told["content"].encode()) <= 400 and told["content"].count("\n") < 20
    ref = told["content_ref"]
    whole = (await world.results.get("acme", ref["ref"])).decode()
    assert ref["size"] == len(whole.encode()) == world.completed()[0].output_bytes
    assert whole.startswith("line 0 password=[redacted:secret:") and whole.count("\n") == 499
    assert "swordfish" not in whole and "swordfish" not in world.completed()[0].observation
    assert ref["ref"] in told["content"] or "bytes are missing here" in told["content"]
    assert world.completed()[0].redactions == 500


async def test_the_same_result_has_the_same_reference(world: Sanitizing) -> None:
    """R2"""
    await world.run_read("x" * 1000, "a")
    await world.run_read("x" * 1000, "b")
    assert world.last_json("a")["content_ref"] == world.last_json("b")["content_ref"]
    assert len(world.results) == 1


@pytest.mark.parametrize("size", [10, 20_000])
async def test_no_raw_result_lies_readable_in_any_record(size: int) -> None:
    """R3"""
    world = Sanitizing()
    await world.start(in_thread_bytes=1_000)
    try:
        content = {"note": f"{SECRET[:7]}\u2060{SECRET[7:]} " * size, "mail": "anna@shop.example"}
        await world.run_write(content, result=await world.blob_box(content))
        assert world.completed()[0].redactions == size + 1
        for topic in (CALLS_LEDGER, CALLS_COMPLETED):
            for received in world.bus.records(topic):
                assert b"Zq7Zq7" not in (received.value or b"") and b"anna@" not in (received.value or b"")
        for blob in world.results.contents():
            assert b"Zq7Zq7" not in blob
    finally:
        await world.crash()


async def test_personal_data_is_redacted_by_contract_and_all_of_it_where_no_contract_is_known(world: Sanitizing) -> None:
    """R3"""
    content = {"mail": "anna@shop.example", "card": "4111 1111 1111 1111"}
    await world.run_write(content, "known")
    assert "[redacted:email:" in str(world.last("known").content) and "4111" in str(world.last("known").content)
    await world.run_write(content, "gone", tool="removed")
    changed = dataclasses.replace(world.about(), tool_version="other")
    await world.run_write(content, "changed", about=changed)
    for call_id in ("gone", "changed"):
        shown = str(world.last(call_id).content)
        assert "anna@" not in shown and "4111" not in shown


async def test_named_fields_are_lifted_redacted_bounded_and_exact(world: Sanitizing) -> None:
    """R6, R3"""
    await world.run_write({"receipt": f"r {SECRET}", "sum": 2**60, "other": 1}, "a")
    await world.run_write({"receipt": ["x" * 5_000], "sum": float("inf")}, "b")
    fields = world.last("a").fields
    assert set(fields) == {"receipt", "sum"}
    assert fields["sum"] == str(2**60) and re.fullmatch(r"r \[redacted:api_key:[0-9a-f]{6}\]", fields["receipt"])
    assert len(str(world.last("b").fields["receipt"]).encode()) <= 1_024 and world.last("b").fields["sum"] == "inf"


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("There is no\u200b such item.", "There is no such item."),
        (f"Refused for {SECRET}.", r"Refused for \[redacted:api_key:[0-9a-f]{6}\]\."),
        ("at postgres://shop:x@db.internal/orders", r"at \[redacted:connection:[0-9a-f]{6}\]"),
        ("two\n  lines", "two lines"),
        ("", "A business rule forbids this call; nothing ran."),
    ],
)
async def test_a_declared_sentence_is_cleaned_redacted_and_one_line(world: Sanitizing, sentence: str, shown: str) -> None:
    """R5, R7"""
    await world.say(K.REFUSED, code="rule_violated", reason="limit", sentence=sentence)
    assert re.fullmatch(shown, world.last().message)
    assert world.last().reason == "limit"


async def test_words_are_bounded_whatever_a_tool_declares(world: Sanitizing) -> None:
    """R5"""
    faults = tuple(Fault(field="/x" * 1_000, reason="bad reason\n" * 100) for _ in range(30))
    await world.say(
        K.REFUSED,
        code="invalid_arguments",
        reason=f"no {SECRET}\u202e/etc",
        sentence="é" * 5_000,
        field=f"/{SECRET}",
        faults=faults,
    )
    told = world.last()
    assert len(told.message.encode()) <= 500 and len(told.faults) == 10
    assert all(len(fault.field) <= 300 and len(fault.reason) <= 100 for fault in told.faults)
    assert "Zq7" not in world.completed()[0].observation
    assert re.fullmatch(r"[A-Za-z0-9_.:\-]+", told.reason)


async def test_details_for_the_audit_are_never_told(world: Sanitizing) -> None:
    """R5"""
    await world.say(K.REFUSED, code="permission_denied", detail=json.dumps({"policies": ["staff-only"], "trace": "/srv/app.py"}))
    assert "staff-only" not in world.completed()[0].observation and "/srv" not in world.completed()[0].observation


async def test_a_raw_blob_is_removed_only_after_the_answer_is_acknowledged(world: Sanitizing) -> None:
    """R3, E5"""
    box = await world.blob_box("x" * 300_000)
    await world.say(K.CLAIMED, claim_id="x")
    world.put(world.entry(K.FINISHED, claim_id="x", outcome="committed", result=box))
    world.bus.set_away(True)
    for _ in range(5):
        await world.clock.advance(10)
    assert world.completed() == [] and len(world.raw) == 1
    world.bus.set_away(False)
    while not world.completed():
        await world.clock.advance(10)
    await world.drained()
    assert world.codes() == ["ok"] and len(world.raw) == 0
    await world.say(K.REPLAYED)
    assert len(set(world.finals())) == 1


async def test_a_raw_blob_of_a_void_entry_is_removed_as_well(world: Sanitizing) -> None:
    """R3"""
    await world.say(K.CLAIMED, claim_id="x")
    await world.say(K.FINISHED, claim_id="lost", outcome="committed", result=await world.blob_box("late"))
    assert world.completed() == [] and len(world.raw) == 0
    await world.say(K.FINISHED, claim_id="x", outcome="committed", result=world.box("paid"))
    await world.say(K.FINISHED, claim_id="lost", outcome="committed", result=await world.blob_box("later"))
    assert len(set(world.finals())) == 1 and len(world.raw) == 0


async def test_an_answer_given_by_an_owner_before_us_is_found_where_its_blob_is_gone(world: Sanitizing) -> None:
    """E1, E5"""
    box = await world.blob_box("paid")
    await world.raw.delete("acme", box.blob_ref)
    await world.say(K.CLAIMED, claim_id="x")
    finished = world.entry(K.FINISHED, claim_id="x", outcome="committed", result=box)
    observation = json.dumps({"replayed": False, "content": "as the other owner told it"})
    cause = Cause(event_id=finished.event_id, topic=CALLS_LEDGER, partition=0, offset=0)
    answer = CallCompleted(
        event_id="e" * 32, producer="other", cause=cause, call_id="c", run_id=RUN, tenant="acme", tool_call_id="t-1", code="ok",
        final=True, observation=observation,
    )  # fmt: skip
    topic, key, value = writer("sanitizer").encode(answer)
    world.bus.append(topic, key, value)
    world.put(finished)
    await world.drained()
    assert world.finals() == [observation, observation]


@pytest.mark.parametrize(
    ("tool", "code"),
    [("pay", Code.OK), ("look", Code.INTERNAL)],
)
async def test_a_result_that_cannot_be_read_does_not_hide_that_the_write_took_effect(
    world: Sanitizing, tool: str, code: Code
) -> None:
    """E6, R7"""
    box = world.box("paid", "another call")
    if tool == "pay":
        await world.run_write(None, result=box)
    else:
        await world.say(K.FINISHED, tool="look", outcome="committed", result=box)
    assert world.last().code is code and world.last().reason == "result_unreadable" and world.last().content is None
    assert [e.record.reason for e in world.bus.opened(RECORDS_DEAD)] == ["unforeseen"]
    await world.say(K.REPLAYED, tool=tool)
    assert len(world.finals()) == 2 and len(set(world.finals())) == 1


async def test_an_answer_older_than_the_log_keeps_is_not_made_up(world: Sanitizing) -> None:
    """E1"""
    await world.run_write("paid")
    await world.clock.advance(8 * 24 * 3600)
    await world.say(K.REFUSED, code="call_too_old")
    assert world.last().code is Code.CALL_TOO_OLD
    await world.run_write("paid", "d")
    await world.clock.advance(8 * 24 * 3600)
    await world.say(K.REPLAYED, "d")
    assert (world.last("d").code, world.last("d").content) == (Code.OK, None)
    assert world.last("d").message == answers.NO_LONGER_KEPT


async def test_many_calls_at_once_each_get_their_own_answer(world: Sanitizing) -> None:
    """E1"""
    for number in range(40):
        call_id = f"call-{number}"
        world.put(world.entry(K.CLAIMED, call_id, claim_id="x"))
        box = world.box(f"result {number}", call_id)
        world.put(world.entry(K.FINISHED, call_id, claim_id="x", outcome="committed", result=box))
        world.put(world.entry(K.REPLAYED, call_id))
    await world.drained()
    for number in range(40):
        assert [json.loads(told)["content"] for told in world.finals(f"call-{number}")] == [f"result {number}"] * 2
    assert world.committed_everything()


async def test_a_log_that_cannot_be_read_now_is_tried_again(world: Sanitizing, monkeypatch: pytest.MonkeyPatch) -> None:
    """E5"""
    await world.run_write("paid")
    read_at, failures = world.bus.read_at, [Transient("away"), Transient("away")]

    async def shaky(position: Position) -> Any:
        if failures:
            raise failures.pop()
        return await read_at(position)

    monkeypatch.setattr(world.bus, "read_at", shaky)
    world.put(world.entry(K.REPLAYED))
    while len(world.completed()) < 2:
        await world.clock.advance(5)
    assert len(set(world.finals())) == 1


async def test_the_content_ceiling_holds_whatever_a_tool_allows() -> None:
    """R1"""
    world = Sanitizing()
    await world.start(content_ceiling=300)
    try:
        await world.run_write("x" * 5_000)
        assert len(str(world.last().content)) <= 300 and world.last().truncated
    finally:
        await world.crash()
