"""Asks the three witnesses what really happened: the downstream, the topics, ClickHouse."""

from __future__ import annotations

import struct
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from fourgates.audit.integrity import CHECKS
from fourgates.contract.codes import Code
from fourgates.contract.events import LedgerEntry, LedgerKind
from fourgates.contract.ports import Envelope
from fourgates.contract.seals import gates_needed, must_be_held, verdicts_fit
from fourgates.contract.topology import (
    APPROVALS,
    AUDITED,
    CALLS_CLEARED,
    CALLS_COMPLETED,
    CALLS_LEDGER,
    CALLS_REQUESTED,
    CALLS_VALIDATED,
    EFFECTS,
)
from fourgates.gates.ledger import LedgerFold, Phase
from support.eventually import eventually
from support.fault_calls import Played
from support.kafka_world import KafkaWorld
from support.worlds import StoryWorld

_OFFSETS = "__consumer_offsets"
_UNCOUNTED = {"look", "export", "archive"}
"""Tools without an effect that the downstream counts."""


@dataclass(slots=True)
class Verdict:
    """What the checker found. Every list names call ids or places; all must be empty."""

    double_effects: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    two_finals: list[str] = field(default_factory=list)
    false_answers: list[str] = field(default_factory=list)
    """Success without an effect, or an effect behind a refusal, that no person has vouched for."""
    unapproved: list[str] = field(default_factory=list)
    went_back: list[str] = field(default_factory=list)
    """Committed offsets that went back: a worker committed that was not the owner any more."""
    integrity: dict[str, list[Any]] = field(default_factory=dict)
    in_doubt: int = 0
    """Calls that were in doubt at some time."""

    def faults(self) -> dict[str, Any]:
        names = ("double_effects", "lost", "two_finals", "false_answers", "unapproved", "went_back", "integrity")
        return {name: found for name in names if (found := getattr(self, name))}


class Checker:
    """Looks at a whole world; `calls` are those that its hosts asked for."""

    def __init__(self, world: StoryWorld) -> None:
        self._world = world
        self.rewound: Counter[tuple[str, str]] = Counter()
        """(group, topic) -> how many partitions were set back on purpose."""

    async def check(self, calls: Sequence[Played], stored: bool = True) -> Verdict:
        world, found = self._world, Verdict()
        ledger = await world.records(CALLS_LEDGER)
        told: dict[str, set[str]] = defaultdict(set)
        for envelope in await world.records(CALLS_COMPLETED):
            if envelope.record.final:
                told[envelope.record.call_id].add(envelope.record.observation)
        resolved = _resolved(ledger)
        found.in_doubt = len({e.record.call_id for e in ledger if e.record.kind is LedgerKind.IN_DOUBT})
        effects = Counter(key for _, key, _ in world.downstream.effects())
        found.double_effects = [key for key, times in effects.items() if times > 1]
        found.lost = [call.call_id for call in calls if not told[call.call_id]]
        found.two_finals = [call_id for call_id, words in told.items() if len(words) > 1]
        for call in calls:
            if call.answers and (len(set(call.answers)) > 1 or set(call.answers) - told[call.call_id]):
                found.two_finals.append(call.call_id)
            if not call.codes or call.tool in _UNCOUNTED:
                continue
            happened = call.effects(world) if call.booked else effects[call.call_id]
            if happened > 1 and call.booked:
                found.double_effects.append(call.call_id)
            if call.call_id not in resolved and happened != (1 if call.codes[0] is Code.OK else 0):
                found.false_answers.append(f"{call.call_id}: {call.codes[0]}, {happened} effects")
        found.unapproved = self._unapproved(ledger, set(effects))
        if isinstance(world, KafkaWorld):
            found.went_back = await self._went_back(world)
            if stored:
                await self._stored(world)
                found.integrity = await self._integrity(world)
        return found

    def _unapproved(self, ledger: Sequence[Envelope], keys: set[str]) -> list[str]:
        """Effects of calls that no won claim with all needed seals stands behind."""
        verifier, sealed = self._world.keyring.verifier(), set()
        fold = LedgerFold()
        for envelope in ledger:
            entry: LedgerEntry = envelope.record
            change = fold.apply(envelope)
            won = entry.kind is LedgerKind.CLAIMED and change.after.claim_id == entry.claim_id
            if won and change.after.phase is Phase.CLAIMED and entry.call is not None:
                needed = gates_needed(bool(entry.hold_id) or must_be_held(entry.call.risk, entry.verdicts))
                if verdicts_fit(verifier, entry.call, entry.verdicts, needed):
                    sealed.add(entry.call_id)
        return sorted(keys - sealed)

    async def _went_back(self, world: KafkaWorld) -> list[str]:
        """Every commit of every group, in the broker's own order."""
        newest: dict[tuple[str, str, int], int] = {}
        back: list[tuple[str, str, int, int, int]] = []
        for key, value in await _internal(world.bootstrap):
            if (commit := _commit_of(key, value)) is None:
                continue
            group, topic, partition, offset = commit
            before = newest.get((group, topic, partition), 0)
            if offset < before:
                back.append((group, topic, partition, before, offset))
            newest[group, topic, partition] = offset
        assert newest, "no commit was found: this check checks nothing"
        allowed = Counter(self.rewound)
        found = []
        for group, topic, partition, before, offset in back:
            if offset == 0 and allowed[group, topic] > 0:
                allowed[group, topic] -= 1
            else:
                found.append(f"{group}/{topic}/{partition}: {before} -> {offset}")
        return found

    async def _stored(self, world: KafkaWorld) -> None:
        """Returns once ClickHouse has as many records as the topics."""

        async def counted() -> bool:
            rows = await world.query("SELECT topic, toInt64(count()) AS n FROM fourgates.records GROUP BY topic")
            stored = {row["topic"]: int(row["n"]) for row in rows}
            lying = {topic: await world.count(topic) for topic in AUDITED}
            return stored == {topic: n for topic, n in lying.items() if n}

        await eventually(counted, 90)

    async def _integrity(self, world: KafkaWorld) -> dict[str, list[Any]]:
        before = str(int(time.time() * 1000))
        rows = {check.name: await world.query(check.sql.replace("{before:Int64}", before)) for check in CHECKS}
        return {name: found[:5] for name, found in rows.items() if found}

    async def stored_of(self, call_id: str) -> list[dict[str, Any]]:
        """What ClickHouse has of a call that an integrity query names, and how it judges the holds."""
        if not isinstance(self._world, KafkaWorld):
            return []
        told = "at, topic, partition, offset, kind, reason, hold_id, claim_id, verdict, person, groups, expires_ms, shown_digest"
        return [
            row
            for of in (f"SELECT {told} FROM fourgates.records", "SELECT * FROM fourgates.holds")
            for row in await self._world.query(f"{of} WHERE call_id = '{call_id}'")
        ]


def _resolved(ledger: Sequence[Envelope]) -> set[str]:
    return {e.record.call_id for e in ledger if e.record.kind is LedgerKind.RESOLVED}


async def life(world: StoryWorld, call_id: str) -> list[str]:
    """What the logs say of a call, for whoever has to find out what went wrong."""
    said = []
    for topic in (CALLS_REQUESTED, CALLS_VALIDATED, APPROVALS, CALLS_CLEARED, CALLS_LEDGER, EFFECTS, CALLS_COMPLETED):
        for e in await world.records(topic):
            call = getattr(e.record, "call", None)
            if getattr(e.record, "call_id", "") == call_id or (call is not None and call.call_id == call_id):
                words = [str(getattr(e.record, name, "")) for name in ("kind", "code", "reason", "outcome", "by", "vouches")]
                claim = " ".join(getattr(e.record, name, "")[:6] for name in ("claim_id", "hold_id", "event_id"))
                where = f"{topic}/{e.position.partition}/{e.position.offset}"
                said.append(f"{e.time_ms} {where} {' '.join(w for w in words if w and w != 'None')} {claim} {e.record.producer}")
    return sorted(said)


async def _internal(bootstrap: str) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of the broker's own topic of commits, partition by partition."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, enable_auto_commit=False, exclude_internal_topics=False
    )
    await consumer.start()
    try:
        numbers = consumer.partitions_for_topic(_OFFSETS) or await _partitions(consumer)
        tps = [TopicPartition(_OFFSETS, number) for number in sorted(numbers)]
        consumer.assign(tps)
        ends = await consumer.end_offsets(tps)
        starts = await consumer.beginning_offsets(tps)
        for tp in tps:
            consumer.seek(tp, starts[tp])
        found, left = [], {tp for tp in tps if starts[tp] < ends[tp]}
        while left:
            for tp, records in (await consumer.getmany(*left, timeout_ms=1_000)).items():
                found += [(record.key or b"", record.value) for record in records if record.offset < ends[tp]]
            left = {tp for tp in left if await consumer.position(tp) < ends[tp]}
        return found
    finally:
        await consumer.stop()


async def _partitions(consumer: AIOKafkaConsumer) -> set[int]:
    await consumer._client.force_metadata_update()
    cluster = await consumer._client.fetch_all_metadata()
    return set(cluster.partitions_for_topic(_OFFSETS) or ())


def _commit_of(key: bytes, value: bytes | None) -> tuple[str, str, int, int] | None:
    """(group, topic, partition, offset) where the record is a commit (Kafka's OffsetCommitKey and OffsetCommitValue)."""
    if value is None or len(key) < 2 or struct.unpack_from(">h", key)[0] not in (0, 1):
        return None
    at, words = 2, []
    for _ in range(2):
        (length,) = struct.unpack_from(">h", key, at)
        words.append(key[at + 2 : at + 2 + length].decode())
        at += 2 + length
    (partition,) = struct.unpack_from(">i", key, at)
    (offset,) = struct.unpack_from(">q", value, 2)
    return words[0], words[1], partition, offset
