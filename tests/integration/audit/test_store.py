"""The store on the real engine: every record once, whatever comes twice; the schema only goes forward."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.audit.columns import COLUMNS
from fourgates.audit.migrations import migrations_in
from fourgates.audit.settings import SinkSettings
from fourgates.audit.sink import AuditSink
from fourgates.audit.store import Store
from fourgates.contract.errors import ConfigurationError, Transient
from fourgates.contract.events import RECORDS, AuditWatermark, Record
from fourgates.contract.ports import Envelope, Offsets, Position, Received
from fourgates.contract.topology import AUDITED, CALLS_LEDGER
from fourgates.runtime.clock import SystemClock
from fourgates.runtime.memory import MemoryBus
from fourgates.runtime.memory_batches import MemoryBatches
from support.auditing import Engine, row_maker
from support.eventually import eventually
from support.records import codec, instances_of
from support.samples import REQUESTED, SEALED
from support.sealing import opener, writer
from support.stories import Tape, good_stories

pytestmark = pytest.mark.engine

EVERY_RECORD = st.one_of([instances_of(cls) for cls in RECORDS if cls is not AuditWatermark])


def test_a_record_of_every_topic_lands(engine: Engine) -> None:
    """L2, L1."""
    tape = Tape()
    tape.put("run", REQUESTED)
    for sealed_by, record in SEALED:
        if not isinstance(record, AuditWatermark):
            tape.put(sealed_by, record)
    engine.take(tape.received)
    rows = engine.ask("SELECT topic, record, kind, event_id, writer FROM fourgates.records")
    assert {row["topic"] for row in rows} == set(AUDITED)
    assert all(row["event_id"] == "e" * 32 and row["kind"] != "invalid" and row["writer"] for row in rows)


def test_the_same_batch_twice_counts_once(engine: Engine) -> None:
    """L2."""
    tape = Tape()
    good_stories(tape)
    for _ in range(3):
        engine.take(tape.received)
    assert engine.one("SELECT count() FROM fourgates.records") == len(tape.received)
    assert engine.one("SELECT uniqExact(topic, partition, offset) FROM fourgates.events") == len(tape.received)
    assert engine.one("SELECT sum(asked) FROM fourgates.success") == 6
    assert engine.one("SELECT sum(claims) FROM fourgates.calls") == 3


def test_a_record_that_does_not_decode_still_has_its_row(engine: Engine) -> None:
    """L2, P6: offsets are complete, and nobody can hide a record by breaking it."""
    tape = Tape()
    good = tape.put("executor", SEALED[3][1])
    assert good.value is not None
    tape.put_raw(CALLS_LEDGER, good.key, good.value[:-1] + bytes([good.value[-1] ^ 1]))
    tape.put_raw(CALLS_LEDGER, good.key, b"\x00garbage")
    tape.put_raw(CALLS_LEDGER, good.key, None)
    tape.put_raw(CALLS_LEDGER, good.key, good.value, partition=(good.position.partition + 1) % 12)
    engine.take(tape.received)
    rows = engine.ask("SELECT kind, reason, call_id, value_bytes FROM fourgates.records WHERE kind = 'invalid' ORDER BY reason")
    assert [row["reason"] for row in rows] == ["bad_seal", "null_value", "unknown_schema", "wrong_partition"]
    assert {row["call_id"] for row in rows} == {""}
    assert engine.ask("SELECT * FROM fourgates.ledger_states")[0]["claims"] == 1


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVERY_RECORD, min_size=1, max_size=8))
def test_whatever_a_record_holds_the_engine_takes_its_row(engine: Engine, records: list[Record]) -> None:
    """L2: one value that cannot be inserted would hold up everything behind it for ever."""
    received = []
    for number, record in enumerate(records):
        topic, value = codec().encode(record)
        received.append(Received(Position(topic, 0, number), 1_800_000_000_000, record.key().encode(), value))
    maker = row_maker()
    maker._opener = _Unsealed()  # type: ignore[assignment]  # generated records bear no seals
    rows = [maker.row(one) for one in received]
    assert [row["reason"] for row in rows if row["kind"] == "invalid"] == []
    engine.store.insert(rows)


class _Unsealed:
    """Opens anything that decodes."""

    def open(self, received: Received) -> object:
        return Envelope(codec().decode(received.position.topic, received.value), received.position, received.time_ms, "test")


def test_the_code_fills_the_columns_that_the_ddl_declares(engine: Engine) -> None:
    """L1."""
    declared = engine.ask("SELECT name FROM system.columns WHERE database = 'fourgates' AND table = 'events'")
    assert {row["name"] for row in declared} == set(COLUMNS)


def test_an_insert_that_the_engine_refuses_is_transient(engine: Engine) -> None:
    """L3."""
    tape = Tape()
    good_stories(tape)
    broken = Store(engine.connect())
    engine.store.command("RENAME TABLE fourgates.events TO fourgates.gone")
    try:
        with pytest.raises(Transient):
            broken.insert([engine.rows.row(tape.received[0])])
    finally:
        engine.store.command("RENAME TABLE fourgates.gone TO fourgates.events")
    broken.insert([engine.rows.row(tape.received[0])])
    broken.close()
    assert engine.one("SELECT count() FROM fourgates.records") == 1


async def test_two_sinks_and_a_crash_before_the_commit_miss_nothing_and_count_nothing_twice(engine: Engine) -> None:
    """L2."""
    clock = SystemClock()
    bus, tape = MemoryBus(opener(), clock), Tape()
    good_stories(tape)
    for one in tape.received:
        bus.append(one.position.topic, one.key, one.value, one.position.partition)

    class Crashing(MemoryBatches):
        async def commit(self, offsets: Offsets) -> None:
            raise RuntimeError("killed between insert and commit")

    def sink(store: Store) -> AuditSink:
        return AuditSink(store, row_maker(), bus.publisher(writer("audit")), clock, "audit@test", SinkSettings(age=0))

    with pytest.raises(RuntimeError):
        await sink(engine.store).run(Crashing(bus, "audit", AUDITED))
    assert engine.one("SELECT count() FROM fourgates.records") == len(tape.received)
    second = Store(engine.connect())
    halves = [MemoryBatches(bus, "audit", AUDITED, most=7), MemoryBatches(bus, "audit", AUDITED, most=5)]
    sinks = [sink(engine.store), sink(second)]
    tasks = [asyncio.create_task(one.run(batches)) for one, batches in zip(sinks, halves, strict=True)]
    await eventually(lambda: all(one.inserted == len(tape.received) for one in sinks))
    for batches in halves:
        await batches.close()
    await asyncio.gather(*tasks)
    second.close()
    assert engine.one("SELECT count() FROM fourgates.records") == len(tape.received)
    assert engine.one("SELECT sum(asked) FROM fourgates.success") == 6


def test_migrations_are_numbered_without_a_gap(tmp_path: Path) -> None:
    """L1."""
    (tmp_path / "001_a.sql").write_text("SELECT 1;\n")
    (tmp_path / "003_c.sql").write_text("SELECT 1;\n")
    with pytest.raises(ConfigurationError, match="without a gap"):
        migrations_in(tmp_path)
