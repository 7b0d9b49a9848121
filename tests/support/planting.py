"""Violations of each kind, planted on purpose: as records on a tape, or as rows that somebody changed in the store."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from fourgates.audit.comparing import Comparing, Comparison
from fourgates.audit.erasure import Eraser
from fourgates.audit.integrity import run_integrity
from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Risk
from fourgates.contract.ports import Position, Received
from fourgates.contract.topology import BY_NAME, CALLS_LEDGER
from fourgates.runtime.blobs import MemoryBlobStore
from fourgates.runtime.clock import ManualClock
from support.auditing import Engine
from support.stories import Life, Tape, a_read, a_waived_write, an_approved_write, good_stories


class TapeLog:
    """A tape as the log that an audit is compared with; `cut` leaves out what retention would have deleted."""

    def __init__(self, tape: Tape, cut: Mapping[tuple[str, int], int] | None = None) -> None:
        self._tape, self._cut = tape, dict(cut or {})

    async def scan(self, topic: str, until: Mapping[int, int] | None = None) -> AsyncIterator[Received]:
        for one in self._tape.received:
            where = one.position
            kept = where.offset >= self._cut.get((topic, where.partition), 0)
            if where.topic == topic and kept and (until is None or where.offset < until.get(where.partition, 0)):
                yield one

    async def ends(self, topic: str) -> dict[int, int]:
        ends = dict.fromkeys(range(BY_NAME[topic].partitions), 0)
        for one in self._tape.received:
            if one.position.topic == topic:
                ends[one.position.partition] = max(ends[one.position.partition], one.position.offset + 1)
        return ends


async def compared(engine: Engine, tape: Tape, cut: Mapping[tuple[str, int], int] | None = None) -> Comparison:
    """The engine against the tape, with nothing left out for being young."""
    return await Comparing(engine.store.query, TapeLog(tape, cut), engine.rows, {}, tape.now_ms + 1).run()


@dataclass(frozen=True, slots=True)
class Plant:
    """A violation as records: which integrity query must find it."""

    check: str
    plant: Callable[[Tape], None]
    afterwards: Callable[[Engine, Tape], None] | None = None
    """What is done to the store once it has the tape, where that is the violation."""

    @property
    def name(self) -> str:
        return (self.afterwards or self.plant).__name__.strip("_")

    def spoil(self, engine: Engine, tape: Tape) -> None:
        if self.afterwards is not None:
            self.afterwards(engine, tape)


@dataclass(frozen=True, slots=True)
class Tampering:
    """A violation in the store alone: what the comparison with the log must call it."""

    kind: str
    tamper: Callable[[Engine, Tape], Position]
    """Gives the place that must be named."""

    @property
    def name(self) -> str:
        return self.tamper.__name__.strip("_")


def _never_cleared(tape: Tape) -> None:
    life = Life(tape)
    life.asked()
    life.validated()
    life.claimed()
    life.attempted()
    life.finished()


def _held_and_run_without_a_yes(tape: Tape) -> None:
    life = _held(tape)
    life.cleared("fiona")
    _run(life, "fiona")


def _approved_after_it_ran(tape: Tape) -> None:
    life = _held(tape)
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    tape.now_ms += 5_000
    life.decided("approve", "fiona")
    life.finished()


def _approved_by_too_few(tape: Tape) -> None:
    life = _held(tape, quorum=2)
    life.decided("approve", "fiona")
    life.decided("approve", "fiona")
    life.cleared("fiona", "fiona")
    _run(life, "fiona", "fiona")


def _approved_by_who_asked(tape: Tape) -> None:
    life = _held(tape)
    life.decided("approve", life.call.principal.person)
    life.cleared("fiona")
    _run(life, "fiona")


def _sent_without_a_claim(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claim_id = "f" * 32
    life.attempted()


def _read_without_the_yes_that_it_needed(tape: Tape) -> None:
    life = Life(tape, tool="read_order", risk=Risk.READ)
    life.validated()
    life.held()
    life.cleared("fiona")
    life.finished(claim_id="")


def _denied_near_duplicate_that_ran(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.released(Code.DUPLICATE_EFFECT)
    life.held(HoldReason.NEAR_DUPLICATE)
    life.shown()
    life.decided("deny", "fiona")
    _run(life, "fiona")


def _approved_and_forgotten(tape: Tape) -> None:
    life = _held(tape)
    life.decided("approve", "fiona")
    life.cleared("fiona")


def _claimed_and_forgotten(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()


def _doubt_that_nobody_was_asked_about(tape: Tape) -> None:
    life = Life(tape)
    life.validated()
    life.cleared()
    life.claimed()
    life.attempted()
    life.in_doubt()


def _other_arguments_than_shown(tape: Tape) -> None:
    _claimed_otherwise(tape, args_digest="e" * 64)


def _other_version_than_shown(tape: Tape) -> None:
    _claimed_otherwise(tape, tool_version="w" * 64)


def _other_effect_than_shown(tape: Tape) -> None:
    life = an_approved_write(tape, "other-effect")
    verdicts = tuple(
        dataclasses.replace(v, preview_digest="0" * 64 if v.preview_digest else "") for v in life._verdicts(("fiona",))
    )
    life.claimed("fiona", verdicts=verdicts)


def _preview_that_lied(tape: Tape) -> None:
    _previewed(tape, "lied", {"refunded": 4, "paid": 9}, '{"refunded":5}')


def _preview_that_lied_about_the_end(tape: Tape) -> None:
    _previewed(tape, "lied-too", {"left": "none"}, '{"left":{"before":"some","after":"a rest"}}')


def _previewed(tape: Tape, name: str, after: Mapping[str, object], change: str) -> None:
    life = Life(tape, name)
    life.asked()
    life.validated()
    life.held()
    life.shown(preview={"after": dict(after)})
    life.decided("approve", "fiona")
    life.cleared("fiona")
    life.claimed("fiona")
    life.attempted()
    life.finished(state_change=change)
    life.told()


def a_preview_that_was_right(tape: Tape) -> None:
    """What both say is the same; what only one of them says is not compared."""
    _previewed(tape, "right", {"refunded": 5, "left": "none", "address": "Caf\u00e9 1"},
               '{"refunded":5,"left":{"before":"some","after":"none"},"note":"x","address":"Caf\\u00e9 1"}')  # fmt: skip


def _offsets_that_are_missing(tape: Tape) -> None:
    tape.lose(CALLS_LEDGER)
    for number in range(40):
        a_read(tape, f"after-{number}")


def _two_final_answers(tape: Tape) -> None:
    a_waived_write(tape, "twice").told(content="something else")


def _more_of_the_same(tape: Tape) -> None:
    a_waived_write(tape, "more")


def _record_that_we_could_not_read(engine: Engine, tape: Tape) -> None:
    row = engine.rows.row(tape.received[-1])
    engine.store.insert([row | {"kind": "invalid", "reason": "unforeseen", "sentence": "KeyError"}])


def _record_that_came_after_an_erasure(engine: Engine, tape: Tape) -> None:
    last = tape.received[-1]
    engine.store.command("TRUNCATE TABLE fourgates.erasures")
    eraser = Eraser(engine.store, engine.rows, MemoryBlobStore(), ManualClock(tape.now_ms))
    asyncio.run(eraser.erase("acme", "anna", "root"))
    where = dataclasses.replace(last.position, offset=last.position.offset + 1)
    engine.take([dataclasses.replace(last, position=where)])


PLANTS: tuple[Plant, ...] = (
    Plant("unreadable_by_us", _more_of_the_same, _record_that_we_could_not_read),
    Plant("erased_but_there", _more_of_the_same, _record_that_came_after_an_erasure),
    *(Plant("ran_without_approval", plant) for plant in (
        _never_cleared, _held_and_run_without_a_yes, _approved_after_it_ran, _approved_by_too_few, _approved_by_who_asked,
        _sent_without_a_claim, _read_without_the_yes_that_it_needed, _denied_near_duplicate_that_ran,
    )),
    Plant("approved_but_never_ran", _approved_and_forgotten),
    Plant("claimed_without_an_end", _claimed_and_forgotten),
    Plant("claimed_without_an_end", _doubt_that_nobody_was_asked_about),
    Plant("shown_differs_from_executed", _other_arguments_than_shown),
    Plant("shown_differs_from_executed", _other_version_than_shown),
    Plant("shown_differs_from_executed", _other_effect_than_shown),
    Plant("preview_differs_from_change", _preview_that_lied),
    Plant("preview_differs_from_change", _preview_that_lied_about_the_end),
    Plant("offsets_missing", _offsets_that_are_missing),
    Plant("two_final_answers", _two_final_answers),
)  # fmt: skip


def _altered_words(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, "UPDATE arguments = '{\"amount\":1}'")


def _altered_verdict(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, "UPDATE policies = ['somebody-may']")


def _altered_time(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, "UPDATE duration_ms = 1")


def _altered_and_called_erased(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, f"UPDATE arguments = '[erased]', body = '{{\"erased\":true}}', erased_ms = {tape.now_ms}")


def _taken_out(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, "DELETE")


def _taken_from_the_end(engine: Engine, tape: Tape) -> Position:
    return _changed(engine, tape, "DELETE", tape.received[-1])


def _put_in_behind_the_end(engine: Engine, tape: Tape) -> Position:
    last = tape.received[-1]
    where = dataclasses.replace(last.position, offset=last.position.offset + 1)
    engine.take([dataclasses.replace(last, position=where)])
    return where


TAMPERINGS: tuple[Tampering, ...] = (
    *(Tampering("altered", t) for t in (_altered_words, _altered_verdict, _altered_time, _altered_and_called_erased)),
    Tampering("missing", _taken_out), Tampering("missing", _taken_from_the_end), Tampering("added", _put_in_behind_the_end),
)  # fmt: skip


def count_planted(
    engine: Engine, plants: Sequence[Plant] = PLANTS, tamperings: Sequence[Tampering] = TAMPERINGS
) -> tuple[int, int]:
    """(planted, found): each violation alone in an otherwise good store. The engine's events are emptied."""
    return asyncio.run(_count(engine, plants, tamperings))


async def _count(engine: Engine, plants: Sequence[Plant], tamperings: Sequence[Tampering]) -> tuple[int, int]:
    found = 0
    for plant in plants:
        tape = _fresh(engine)
        plant.plant(tape)
        engine.take(tape.received)
        await asyncio.to_thread(plant.spoil, engine, tape)
        rows = {finding.name: finding.rows for finding in run_integrity(engine.store.query, tape.now_ms + 1, 0)}
        found += bool(rows[plant.check])
    for tampering in tamperings:
        tape = _fresh(engine)
        engine.take(tape.received)
        where = tampering.tamper(engine, tape)
        result = await compared(engine, tape)
        named = [(d.kind, d.place) for d in result.differences]
        found += named == [(tampering.kind, f"{where.topic}/{where.partition}/{where.offset}")]
    return len(plants) + len(tamperings), found


def _fresh(engine: Engine) -> Tape:
    engine.empty()
    tape = Tape()
    good_stories(tape)
    return tape


def _changed(engine: Engine, tape: Tape, how: str, one: Received | None = None) -> Position:
    """Changes the row of that record; else of a Claimed, which has all that can be changed."""
    if one is None:
        ledger = [r for r in tape.received if r.position.topic == CALLS_LEDGER]
        one = next(r for r in ledger if engine.rows.row(r)["kind"] == "Claimed")
    where = one.position
    engine.store.command(
        f"ALTER TABLE fourgates.events {how} WHERE topic = '{where.topic}' AND partition = {where.partition}"
        f" AND offset = {where.offset} SETTINGS mutations_sync = 2"
    )
    return where


def _held(tape: Tape, quorum: int = 1) -> Life:
    life = Life(tape)
    life.validated()
    life.held(quorum=quorum)
    life.shown()
    return life


def _run(life: Life, *approvers: str) -> None:
    life.claimed(*approvers)
    life.attempted()
    life.finished()


def _claimed_otherwise(tape: Tape, **change: str) -> None:
    life = _held(tape)
    life.decided("approve", "fiona")
    life.cleared("fiona")
    life.claimed("fiona", call=dataclasses.replace(life.call, **change))
    life.attempted()
    life.finished()
