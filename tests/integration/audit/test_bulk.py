"""Rows that the engine makes of many records at once: the same as the row maker's, and only of what is plainly in order."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fourgates.audit.bulk import BulkMaker, BulkRows
from fourgates.audit.store import running
from fourgates.contract.events import (
    CallCleared,
    CallCompleted,
    CallRequested,
    CallValidated,
    EffectEntry,
    LedgerEntry,
    Record,
)
from fourgates.contract.parts import Origin
from fourgates.contract.ports import Received
from fourgates.contract.seals import record_bytes, writers_of
from fourgates.contract.topology import BY_RECORD, EFFECTS
from fourgates.gates.redaction_patterns import CHOSEN, PATTERNS, Pattern
from support.auditing import Engine, row_maker
from support.records import instances_of
from support.samples import REQUESTED, SEALED
from support.sealing import keyring, opener
from support.stories import Tape, a_misspelt_call, a_read, a_waived_write, good_stories

pytestmark = pytest.mark.engine

MAPPED = (CallRequested, CallValidated, CallCleared, LedgerEntry, EffectEntry, CallCompleted)
VALUES = (
    {}, [], "x", None, 1, 0.5, 12.50, 1e21, 1.0, -3, 2**53, 2**70, True, {"rules": ["a", "b"]},
    {"policies": ["p"], "digest": "abc"}, {"policies_digest": "def", "policies": []}, {"rules": "no list"},
    {"a": {"b": [1, {"c": "d/e \" \n \t"}]}}, ["ä", "\u2028", "\x7f"], {"reason": None, "field": 1, "message": "x"},
    {"ok": True, "reason": "r", "field": "/a", "message": "words", "replayed": True, "content": None},
    {"note": "see <b> & 'this'"}, {"price": "59.90 EUR", "at": "2026-01-02T03:04:05Z"},
)  # fmt: skip
PLACES = ("arguments", "intent", "facts", "detail", "observation", "user_turns", "quote")
Make = Callable[..., BulkMaker]


def spelt(pattern: Pattern, glue: str) -> str:
    """The pattern's sample, in two halves with something invisible between them."""
    before, first, second, after = pattern.sample
    return f"{before}{first}{glue}{second}{after}"


@pytest.fixture
def make(engine: Engine) -> Make:
    client = engine.connect()
    engine.rows = row_maker()

    def maker(**kinds: tuple[str, ...]) -> BulkMaker:
        return BulkMaker(opener(), row_maker(**kinds), running(client))

    return maker


def in_bulk(engine: Engine, maker: BulkMaker, received: Sequence[Received]) -> tuple[list[dict[str, Any]], int]:
    """The rows as they lie in the store, and how many of them were left to the row maker."""
    engine.empty()
    made = maker.make(received)
    assert made.rows + len(made.left) == len(received)
    if made.native:
        engine.store.insert_native(made.native)
    if made.left:
        engine.take(made.left)
    return stored(engine), len(made.left)


def one_by_one(engine: Engine, received: Sequence[Received]) -> list[dict[str, Any]]:
    engine.empty()
    engine.take(received)
    return stored(engine)


def same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Says which columns differ."""
    differing = [
        {name: (one[name], other[name]) for name in one if one[name] != other[name]}
        for one, other in zip(found, expected, strict=True)
    ]
    assert [one for one in differing if one] == []


def stored(engine: Engine) -> list[dict[str, Any]]:
    return engine.ask("SELECT * FROM fourgates.records ORDER BY topic, partition, offset")


def test_the_rows_of_whole_stories_are_the_row_makers(engine: Engine, make: Make) -> None:
    """L1, L2."""
    tape = Tape()
    good_stories(tape)
    for sealed_by, record in (("run", REQUESTED), *SEALED):
        tape.put(sealed_by, record, headers=(("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),))
    rows, left = in_bulk(engine, make(), tape.received)
    same(rows, one_by_one(engine, tape.received))
    assert 0 < left < len(tape.received) / 2


def test_what_happens_every_day_is_left_to_nobody(engine: Engine, make: Make) -> None:
    """L2: else the quick way would be one in name only."""
    tape = Tape()
    a_read(tape)
    a_waived_write(tape)
    a_misspelt_call(tape)
    assert in_bulk(engine, make(), tape.received)[1] == 0


def with_json(record: Record, chance: Any) -> Record:
    """The record, with JSON where JSON is meant to be."""

    def text() -> str:
        return json.dumps(chance.choice(VALUES), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))

    if isinstance(record, CallValidated):
        verdicts = tuple(dataclasses.replace(one, reasons=text(), preview_digest="") for one in record.verdicts)
        return dataclasses.replace(record, facts=text(), verdicts=verdicts)
    if isinstance(record, LedgerEntry):
        return dataclasses.replace(record, detail=text())
    return dataclasses.replace(record, observation=text()) if isinstance(record, CallCompleted) else record


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(st.lists(st.one_of([instances_of(cls) for cls in MAPPED]), min_size=20, max_size=40), st.randoms())
def test_whatever_a_sealed_record_holds_its_row_is_the_row_makers(
    engine: Engine, make: Make, records: list[Record], chance: Any
) -> None:
    """L1, R3: also where texts are no JSON, nothing, or full of signs."""
    tape = Tape()
    for record in records:
        tape.put(sealer(record, chance), record)
        tape.put(sealer(record, chance), with_json(record, chance))
    same(in_bulk(engine, make(), tape.received)[0], one_by_one(engine, tape.received))


def sealer(record: Record, chance: Any) -> str:
    if isinstance(record, CallRequested):
        return "run"
    return str(chance.choice(sorted(writers_of(BY_RECORD[type(record).__name__].name, record))))


@pytest.mark.parametrize("glue", ["", "\u200b", "\\u200b"], ids=ascii)
def test_a_secret_is_redacted_as_the_row_maker_does(engine: Engine, make: Make, glue: str) -> None:
    """R3, L1: of any kind, in any text, also split by what nobody sees."""
    tape = Tape()
    for pattern in PATTERNS:
        for where in PLACES:
            tape.put(*holding(spelt(pattern, glue), where))
    engine.rows = row_maker(refund_order=CHOSEN)
    rows, left = in_bulk(engine, make(refund_order=CHOSEN), tape.received)
    same(rows, one_by_one(engine, tape.received))
    assert left == len(tape.received) or glue == "\\u200b"


def holding(secret: str, where: str) -> tuple[str, Record]:
    """A record that holds the secret there, and who seals it."""
    sealed: dict[str, Record] = {type(record).__name__: record for _, record in SEALED}
    text = json.dumps({"note": f"see {secret} there"}, ensure_ascii=False)
    validated, completed = sealed["CallValidated"], sealed["CallCompleted"]
    assert isinstance(validated, CallValidated) and isinstance(completed, CallCompleted)
    ledger = next(record for _, record in SEALED if isinstance(record, LedgerEntry))
    if where == "user_turns":
        return "run", dataclasses.replace(REQUESTED, user_turns=(secret,))
    if where == "quote":
        return "run", dataclasses.replace(REQUESTED, origins=(Origin(pointer="/a", origin="model", quote=secret),))
    if where == "facts":
        return "validator", dataclasses.replace(validated, facts=text)
    if where == "detail":
        return "executor", dataclasses.replace(ledger, detail=text)
    if where == "observation":
        told = json.loads(completed.observation) | {"content": text, "reason": "", "field": "", "message": ""}
        return "sanitizer", dataclasses.replace(completed, observation=json.dumps(told, ensure_ascii=False))
    call = dataclasses.replace(validated.call, **{where: secret if where == "intent" else text})
    return "validator", dataclasses.replace(validated, call=call)


def test_what_does_not_prove_itself_is_left_to_the_row_maker(engine: Engine, make: Make) -> None:
    """P6, L2."""
    tape = Tape()
    a_waived_write(tape)
    good = next(one for one in tape.received if one.position.topic == "calls.ledger")
    assert good.value is not None
    wrong = [
        dataclasses.replace(good, value=good.value[:-1] + bytes([good.value[-1] ^ 1])),
        dataclasses.replace(good, value=None),
        dataclasses.replace(good, value=b"\0garbage"),
        dataclasses.replace(good, key=b"another"),
    ]
    asked = next(one for one in tape.received if one.position.topic == "calls.requested")
    assert asked.value is not None
    wrong += [
        dataclasses.replace(asked, value=asked.value[:40]),
        dataclasses.replace(asked, value=asked.value + b"x"),
        dataclasses.replace(asked, position=dataclasses.replace(asked.position, partition=asked.position.partition + 1)),
        dataclasses.replace(asked, value=asked.value.replace(b"\x08call", b"\x08gall", 1)),
    ]
    forged = Tape()
    forged.put("validator", next(record for _, record in SEALED if isinstance(record, EffectEntry)))
    made = make().make([*wrong, *forged.received])
    assert (made.rows, len(made.left)) == (0, 9)


def test_a_batch_that_the_engine_cannot_read_is_left_whole(engine: Engine, make: Make) -> None:
    """L2: a stage that seals what is no record must not hold up the others' records."""
    tape = Tape()
    a_waived_write(tape)
    effect = next(one.value for one in tape.received if one.position.topic == EFFECTS)
    signer = keyring().signer("executor")
    assert effect is not None
    value = effect[:5] + b"\x04no" + effect[-33 - 11 :]
    tape.put_raw(EFFECTS, b"k", value[:-32] + signer.sign(record_bytes(EFFECTS, value, 32)))
    made = make().make(tape.received)
    assert {one.position.topic for one in made.left} == {"effects"}
    assert len(made.left) == 2


def test_a_small_batch_is_made_one_by_one_and_a_large_one_in_bulk(engine: Engine, make: Make) -> None:
    """L2, L3: what somebody waits for is not held up by preparing for thousands."""
    tape = Tape()
    a_waived_write(tape)
    rows = BulkRows(row_maker(), make(), least=len(tape.received))
    assert rows.prepare(tape.received[:-1]).native == ()
    prepared = rows.prepare(tape.received)
    assert prepared.native and not prepared.rows
