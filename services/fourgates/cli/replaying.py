"""Replaying a dead letter: the original bytes, where that is safe, with a sealed note of who did it."""

from __future__ import annotations

import dataclasses
import getpass
from collections.abc import AsyncIterator

from fourgates.cli.faults import BROKEN, Fault
from fourgates.cli.settings import Settings
from fourgates.cli.world import Base, connected
from fourgates.contract import ids
from fourgates.contract.dead import KEPT_KEY, REPLAYED
from fourgates.contract.errors import Poison, Transient
from fourgates.contract.events import DeadRecord
from fourgates.contract.partition import partition_of
from fourgates.contract.parts import Cause
from fourgates.contract.ports import Envelope, Position, Received
from fourgates.contract.topology import BY_NAME, CALLS_LEDGER, RECORDS_DEAD
from fourgates.gates.ledger import CallState, LedgerFold
from fourgates.gates.replay import not_now, not_replayable, whole
from fourgates.runtime.kafka import KafkaBus

_REPLAYED_HEADER = "fourgates-replayed"


async def replayed(settings: Settings, place: Position) -> str:
    """What was done. Raises Fault, saying why it is not safe."""
    async with connected(settings) as (base, bus):
        letter: DeadRecord = (await letter_at(bus, place)).record
        own = place_of(place)
        if why := not_replayable(letter):
            raise Fault(f"{own} is not replayed: {why}.")
        if (done := await _note_of(base, bus, place)) is not None:
            raise Fault(f"{own} was replayed before: {done.detail}.")
        original = await _original(bus, letter)
        partition = partition_of(original.key, BY_NAME[letter.topic].partitions)
        anew = dataclasses.replace(original, position=Position(letter.topic, partition, 0), time_ms=base.clock.now_ms())
        try:
            envelope = base.opener.open(anew)
        except Poison as poison:
            raise Fault(f"{own} is not replayed: it would be dead again ({poison.reason}: {poison.detail}).") from None
        if why := not_now(envelope, await _state(base, bus, original.key.decode(), partition), anew.time_ms):
            raise Fault(f"{own} is not replayed: {why}.")
        headers = tuple(pair for pair in original.headers if pair[0] != _REPLAYED_HEADER)
        said = (_REPLAYED_HEADER, f"{RECORDS_DEAD}/{own}".encode())
        lies = await bus.raw.append(letter.topic, original.key, original.value, headers=(*headers, said))
        where = f"{lies.topic}/{lies.partition}/{lies.offset}"
        await bus.publisher(base.writer("operator")).publish(_note(settings, letter, place, where))
        return f"replayed {own}: {letter.size} bytes of {origin_of(letter)} lie at {where} now, as {getpass.getuser()} has sealed"


def _note(settings: Settings, letter: DeadRecord, place: Position, where: str) -> DeadRecord:
    return DeadRecord(
        event_id=ids.random_id(), producer=f"cli@{settings.environment}",
        cause=Cause(event_id=letter.event_id, topic=place.topic, partition=place.partition, offset=place.offset),
        worker="operator", topic=letter.topic, partition=letter.partition, offset=letter.offset, at_ms=letter.at_ms,
        reason=REPLAYED, detail=f"by {getpass.getuser()} to {where}", digest=letter.digest, size=letter.size,
        record_key=letter.record_key, payload=b"",
    )  # fmt: skip


async def _original(bus: KafkaBus, letter: DeadRecord) -> Received:
    """The bytes as they lay: from their place while the log has them, else from the letter where that holds all of them."""
    place = Position(letter.topic, letter.partition, letter.offset)
    try:
        found = await bus.received_at(place)
        if whole(letter, found.value or b""):
            return found
    except Transient:
        pass  # its retention is over: the letter may hold it whole
    if not whole(letter, letter.payload) or len(letter.record_key) >= KEPT_KEY:
        raise Fault(f"{origin_of(letter)} has left its topic, and the letter holds only the first {len(letter.payload)} of "
                    f"{letter.size} bytes: it cannot be replayed.")  # fmt: skip
    return Received(place, letter.at_ms, letter.record_key, letter.payload)


async def _note_of(base: Base, bus: KafkaBus, place: Position) -> DeadRecord | None:
    """The operator's note that this letter was replayed."""
    async for envelope in letters(base, bus):
        letter, cause = envelope.record, envelope.record.cause
        if letter.reason == REPLAYED and cause is not None and (cause.partition, cause.offset) == (place.partition, place.offset):
            return letter  # type: ignore[no-any-return]  # of a topic of DeadRecords
    return None


async def _state(base: Base, bus: KafkaBus, call_id: str, partition: int) -> CallState:
    """What the ledger says of the call now."""
    fold, ends = LedgerFold(), await bus.ends(CALLS_LEDGER)
    async for received in bus.scan(CALLS_LEDGER, {partition: ends[partition]}):
        if received.key != call_id.encode():
            continue
        try:
            fold.apply(base.opener.open(received))
        except Poison:
            continue
    return fold.state(call_id)


async def letters(base: Base, bus: KafkaBus) -> AsyncIterator[Envelope]:
    """Every valid dead letter, partition by partition."""
    async for received in bus.scan(RECORDS_DEAD):
        try:
            yield base.opener.open(received)
        except Poison:
            continue


async def letter_at(bus: KafkaBus, place: Position) -> Envelope:
    """The dead letter there. Raises Fault."""
    try:
        return await bus.read_at(place)
    except (Poison, Transient) as fault:
        raise Fault(f"There is no valid dead letter at {place_of(place)} ({fault}).", BROKEN) from fault


def place_of(position: Position) -> str:
    """As `dead list` prints it."""
    return f"{position.partition}/{position.offset}"


def origin_of(letter: DeadRecord) -> str:
    """Where the record lay."""
    return f"{letter.topic}/{letter.partition}/{letter.offset}"
