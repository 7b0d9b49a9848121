"""Nothing runs, nothing ends, nothing opens by a record that its writer did not seal, or that lies where it does not belong.

Exhaustive, on the in-process bus: every field of every kind of record, every partition, topic, key and writer. What else is
counted and audited is counted and audited here too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from fourgates.contract.errors import Poison
from fourgates.contract.events import ApprovalEvent, CallCleared, CallValidated, Record
from fourgates.contract.parts import Call, Seal, Verdict
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.seals import HmacSigner, RecordOpener, RecordWriter, seal_verdict, writers_of
from fourgates.contract.topology import (
    APPROVALS,
    AUDIT_WATERMARKS,
    AUDITED,
    BY_NAME,
    BY_RECORD,
    CALL_KEYED,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    TOPOLOGY,
)
from fourgates.gates.approval import ApprovalFold, proven_by
from fourgates.runtime.keys import WRITERS
from fourgates.runtime.seal_keys import KeyringVerifier
from support.attacked import MINUTE_MS, Attacked
from support.forging import alterations, others_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
every_topic = pytest.mark.parametrize("topic", [topic.name for topic in TOPOLOGY])
sealed_topics = pytest.mark.parametrize("topic", [t.name for t in TOPOLOGY if t.name != CALLS_REQUESTED])


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def attacked(tmp_path_factory: Any) -> AsyncIterator[Attacked]:
    """One history for all attacks: each must leave it as it was."""
    made = Attacked(tmp_path_factory.mktemp("attacked"))
    try:
        await made.play()
        yield made
    finally:
        await made.stop()


class Attack:
    """Appends, and then looks whether anything came of it."""

    def __init__(self, world: Attacked, topic: str) -> None:
        self.world, self.topic = world, topic
        self.before, self.skipped = world.standing(), world.skipped(topic)
        self.laid: dict[Position, str] = {}

    def lay(self, what: str, key: bytes, value: bytes | None, partition: int | None = None, topic: str = "") -> None:
        self.laid[self.world.append(topic or self.topic, key, value, partition)] = what

    async def failed(self, reasons: frozenset[str] | None = None) -> None:
        """Nothing ran, ended or opened; each record is buried by whoever reads the topic in a group, counted, and audited."""
        assert self.laid
        await self.world.settled()
        assert self.world.standing() == self.before
        for place, what in self.laid.items():
            reason = self.world.buried.get((place.topic, place.partition, place.offset))
            if place.topic in CALL_KEYED:
                assert reason is not None, f"nobody noticed {what} on {place.topic}"
                assert reasons is None or reason in reasons, (what, reason)
            if place.topic in AUDITED and place.topic != CALLS_REQUESTED:  # a request is proved by what the validator alone reads
                row = await self.world.audited(place)
                assert row["kind"] == "invalid" or reason == "bad_verdicts", what
        if self.topic not in CALL_KEYED:
            assert self.world.skipped(self.topic) >= self.skipped + len(self.laid)


def unsealed(world: Attacked, record: Record) -> tuple[bytes, bytes]:
    """(key, value) of a record as it is, with whatever seal it bears."""
    _, value = world.pipeline.codec.encode(record)
    return record.key().encode(), value


@every_topic
async def test_no_field_of_any_record_can_be_altered(attacked: Attacked, topic: str) -> None:
    """P6: one field at a time, at every depth, in one record of every kind and writer; the seals as well."""
    attack = Attack(attacked, topic)
    for envelope, _ in attacked.examples(topic):
        for path, forged in alterations(envelope.record):
            attack.lay(f"{envelope.record.__class__.__name__}{path}", *unsealed(attacked, forged))
    await attack.failed()


@every_topic
async def test_no_record_can_be_moved_to_another_partition(attacked: Attacked, topic: str) -> None:
    """P6: nothing may run from an empty ledger next door."""
    if BY_NAME[topic].partitions == 1:
        assert topic in {"controls", AUDIT_WATERMARKS}
        return
    attack = Attack(attacked, topic)
    for _, received in attacked.examples(topic):
        for partition in range(BY_NAME[topic].partitions):
            if partition != received.position.partition:
                attack.lay(f"a move to {partition}", received.key, received.value, partition)
    await attack.failed(frozenset({"wrong_partition"}))


@every_topic
async def test_no_record_can_be_moved_to_another_topic_or_under_another_key(attacked: Attacked, topic: str) -> None:
    """P6: every record of every other topic, and its own under the key of another call."""
    attack = Attack(attacked, topic)
    for other in TOPOLOGY:
        for _, received in attacked.examples(other.name):
            if other.name != topic:
                attack.lay(f"a record of {other.name}", received.key, received.value)
            else:
                attack.lay("another key", received.key + b"x", received.value)
                attack.lay("no value", received.key, None)
                attack.lay("half of it", received.key, (received.value or b"")[: len(received.value or b"") // 2])
                attack.lay("something after it", received.key, (received.value or b"") + b"\x00")
    await attack.failed()


@sealed_topics
async def test_no_gate_writes_what_another_one_must(attacked: Attacked, topic: str) -> None:
    """P6: an executor's key on a CallCleared, a waiter's on a Decided, and whatever else a gate might be tempted to write."""
    attack = Attack(attacked, topic)
    for envelope, _ in attacked.examples(topic):
        for writer in {*WRITERS, "approver"} - writers_of(topic, envelope.record):
            _, key, value = attacked.sealed(writer, envelope.record)
            attack.lay(f"{writer} for {envelope.writer}", key, value)
    await attack.failed(frozenset({"wrong_writer"}))


@sealed_topics
async def test_no_key_can_be_guessed_or_named_after_a_writer(attacked: Attacked, topic: str) -> None:
    """P6: the right writer's name with another secret, with a number that nobody has, and with none."""
    attack = Attack(attacked, topic)
    for envelope, _ in attacked.examples(topic):
        for key_id in (f"{envelope.writer}:1", f"{envelope.writer}:2", envelope.writer, "", f"{envelope.writer}:1:1"):
            _, key, value = RecordWriter(attacked.pipeline.codec, HmacSigner(key_id, b"guess" * 8)).encode(envelope.record)
            attack.lay(f"sealed as {key_id!r}", key, value)
        bare = dataclasses.replace(envelope.record, seal=Seal())
        attack.lay("without a seal", *unsealed(attacked, bare))
    await attack.failed(frozenset({"bad_seal", "wrong_writer"}))


def carriers(attacked: Attacked) -> Iterator[tuple[str, Envelope]]:
    """(topic, envelope) of every kind of record that carries a call with the gates' verdicts to the next gate."""
    for topic in (CALLS_VALIDATED, APPROVALS, CALLS_CLEARED):
        for envelope, _ in attacked.examples(topic):
            if topic != APPROVALS or envelope.record.held is not None:
                yield topic, envelope


def call_of(record: Any) -> Call:
    found: Call = record.call if isinstance(record, CallCleared | CallValidated) else record.held.call
    return found


def about(record: Any, call: Call, event_id: str) -> Record:
    """The record, with its verdicts, about another call."""
    if isinstance(record, CallCleared | CallValidated):
        return dataclasses.replace(record, call=call, event_id=event_id)
    held: ApprovalEvent = dataclasses.replace(
        record, held=dataclasses.replace(record.held, call=call), call_id=call.call_id, event_id=event_id
    )
    return held


async def test_a_gate_that_has_lost_its_key_still_cannot_alter_the_call(attacked: Attacked) -> None:
    """P6: the record's own seal is good, made with the writer's real key; the verdicts of the other gates are on another call."""
    for topic, envelope in carriers(attacked):
        attack = Attack(attacked, topic)
        for number, (path, call) in enumerate(others_of(call_of(envelope.record), Call)):
            _, key, value = attacked.sealed(envelope.writer, about(envelope.record, call, f"{number:032x}"))
            attack.lay(f"{topic} call{path}", key, value)
        await failed_by_verdicts(attack)


async def failed_by_verdicts(attack: Attack) -> None:
    await attack.world.settled()
    assert attack.world.standing() == attack.before
    for place, what in attack.laid.items():
        reason = attack.world.buried.get((place.topic, place.partition, place.offset))
        assert reason in {"bad_verdict", "bad_verdicts", "bad_held"}, (what, reason)


def bearing(record: Any, chain: tuple[Verdict, ...], event_id: str) -> Record:
    """The record with other verdicts."""
    if isinstance(record, CallCleared | CallValidated):
        return dataclasses.replace(record, verdicts=chain, event_id=event_id)
    held: ApprovalEvent = dataclasses.replace(record, held=dataclasses.replace(record.held, verdicts=chain), event_id=event_id)
    return held


async def test_verdicts_cut_from_another_call_clear_nothing(attacked: Attacked) -> None:
    """P6: also left out, doubled, in another order, and with one gate's own seal in the place of another's."""
    cleared = [envelope.record for envelope in attacked.pipeline.bus.opened(CALLS_CLEARED)]
    for topic, envelope in carriers(attacked):
        attack, record, call = Attack(attacked, topic), envelope.record, call_of(envelope.record)
        own = record.verdicts if isinstance(record, CallCleared | CallValidated) else record.held.verdicts
        foreign = next(other.verdicts[: len(own)] for other in cleared if other.call.call_id != call.call_id)
        chains = {"another call's": foreign, "none": (), "doubled": (*own, *own), "the first left out": own[1:]}
        if len(own) > 1:
            chains |= {"the last left out": own[:-1], "turned round": own[::-1], "one's own for all": ()}
            signer = attacked.pipeline.keyring.signer(envelope.writer)
            for verdict in own:
                said = dataclasses.replace(verdict, mac=b"")
                chains["one's own for all"] = seal_verdict(signer, call, said, chains["one's own for all"])
        for number, (what, chain) in enumerate(chains.items()):
            _, key, value = attacked.sealed(envelope.writer, bearing(record, chain, f"{number:031x}v"))
            attack.lay(f"{topic} {what}", key, value)
        await failed_by_verdicts(attack)


@pytest.mark.parametrize("later_ms", [0, 11 * MINUTE_MS])
async def test_no_old_record_says_anything_new(attacked: Attacked, later_ms: int) -> None:
    """P6: every record of every topic appended once more, byte for byte, at once; and later, the newest first."""
    attacked.clock.ahead_ms += later_ms
    before = attacked.standing()
    whole: list[Received] = [received for topic in TOPOLOGY for received in valid(attacked, topic.name)]
    for received in reversed(whole) if later_ms else whole:
        attacked.append(received.position.topic, received.key, received.value)
    await attacked.settled()
    after = attacked.standing()
    for what, said in before.items():
        assert after[what] == said, what
    assert [call_id for call_id, told in attacked.answers.items() if len(set(told)) > 1] == []


def valid(attacked: Attacked, topic: str) -> Iterator[Received]:
    for received in tuple(attacked.pipeline.bus.records(topic)):
        try:
            attacked.pipeline.opener.open(received)
        except Poison:
            continue
        yield received


async def test_a_rotation_of_every_key_leaves_the_history_as_it_was(attacked: Attacked) -> None:
    """P6: retired keys verify what was appended before their end for as long as it is kept, and nothing that comes later."""
    ends_ms = attacked.clock.now_ms() + 1
    keys = [dataclasses.replace(key, retired_ms=ends_ms) for key in attacked.pipeline.keyring._seals]
    opener = RecordOpener(attacked.pipeline.codec, KeyringVerifier(keys))
    for topic in TOPOLOGY:
        for envelope, received in attacked.examples(topic.name):
            assert opener.open(received).record == envelope.record
            if topic.name != CALLS_REQUESTED:
                with pytest.raises(Poison, match="bad_seal"):
                    opener.open(dataclasses.replace(received, time_ms=ends_ms))
    before = attacked.standing()["holds"]
    holds = ApprovalFold(proven_by(KeyringVerifier(keys)))
    for envelope in attacked.pipeline.bus.opened(APPROVALS):
        holds.apply(envelope)
    assert {hold.hold_id: hold for hold in holds} == before


async def test_what_was_forged_is_no_secret_and_the_pipeline_goes_on(attacked: Attacked) -> None:
    """P6, S3: after all that, a call passes; every topic's forgeries were counted."""
    obs = await attacked.pipeline.run("anna", ("staff",), agent="bot").call("look", '{"item": "x"}', tool_call_id="1")
    assert obs.ok
    for topic in (CALLS_LEDGER, CALLS_COMPLETED, "controls", "effects", APPROVALS, AUDIT_WATERMARKS):
        assert attacked.skipped(topic) > 0, topic
    assert set(BY_RECORD) == {BY_NAME[topic.name].record for topic in TOPOLOGY}
