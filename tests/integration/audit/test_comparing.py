"""Kafka and ClickHouse side by side: what is not as the log says is named with its place."""

from __future__ import annotations

import pytest

from fourgates.audit.comparing import Comparing
from fourgates.audit.rows import RowMaker
from support.auditing import Engine
from support.planting import PLANTS, TAMPERINGS, Tampering, TapeLog, compared, count_planted
from support.sealing import opener
from support.stories import Tape, a_waived_write, good_stories

pytestmark = pytest.mark.engine


async def test_store_that_holds_the_log_has_no_difference(engine: Engine) -> None:
    """L6, L2: also where a batch came twice and a record does not decode."""
    tape = Tape()
    good_stories(tape)
    tape.put_raw("calls.cleared", b"x", b"not avro")
    engine.take(tape.received)
    engine.take(tape.received[:20])
    result = await compared(engine, tape)
    assert (result.records, result.differences, result.other_build, result.older) == (len(tape.received), [], 0, 0)


@pytest.mark.parametrize("tampering", TAMPERINGS, ids=lambda tampering: tampering.name)
async def test_tampering_is_named_with_its_place(engine: Engine, tampering: Tampering) -> None:
    """L6: altered, missing, added."""
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received)
    where = tampering.tamper(engine, tape)
    result = await compared(engine, tape)
    [difference] = result.differences
    assert (difference.kind, difference.place) == (tampering.kind, f"{where.topic}/{where.partition}/{where.offset}")
    assert result.found == {tampering.kind: 1}
    assert bool(difference.columns) == (tampering.kind == "altered")
    assert result.erased == []


async def test_record_that_the_sink_has_not_come_to_is_on_its_way(engine: Engine) -> None:
    """L6: what is younger and beyond the watermark is no finding."""
    tape = Tape()
    good_stories(tape)
    engine.take(tape.received[:-1])
    last = tape.received[-1].position
    for marks, on_their_way in (({}, 1), ({(last.topic, last.partition): last.offset + 1}, 0)):
        result = await Comparing(engine.store.query, TapeLog(tape), engine.rows, marks, 0).run()
        assert result.on_their_way == on_their_way
        assert [difference.kind for difference in result.differences] == ["missing"] * (1 - on_their_way)


async def test_row_of_another_build_is_compared_without_its_texts(engine: Engine) -> None:
    """L6: other redaction is no alteration, another code still is."""
    tape = Tape()
    good_stories(tape)
    older = RowMaker(opener(), engine.rows.redactions, b"another key of the tests", "another build")
    engine.store.insert([older.row(one) | {"sentence": "redacted otherwise"} for one in tape.received])
    result = await compared(engine, tape)
    assert (result.differences, result.other_build) == ([], len(tape.received))
    where = TAMPERINGS[2].tamper(engine, tape)
    assert [difference.offset for difference in (await compared(engine, tape)).differences] == [where.offset]


async def test_rows_that_outlive_the_log_are_counted(engine: Engine) -> None:
    """L6, L8: the log is cut by its retention, the rows stay."""
    tape = Tape()
    for number in range(3):
        a_waived_write(tape, f"w-{number}")
    engine.take(tape.received)
    where = next(one.position for one in tape.received if one.position.topic == "calls.ledger")
    result = await compared(engine, tape, cut={(where.topic, where.partition): where.offset + 2})
    assert (result.differences, result.older) == ([], 2)


def test_planted_violations_are_counted(engine: Engine) -> None:
    """L6: what `make evidence-audit` does with all of them."""
    assert count_planted(engine, PLANTS[:1], TAMPERINGS[:1]) == (2, 2)
