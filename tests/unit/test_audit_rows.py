"""What becomes of a record in the audit store: what is kept, what is redacted, what never lands."""

from __future__ import annotations

import json

import pytest

from fourgates.audit.columns import COLUMNS, Row
from fourgates.audit.fields import fields_of
from fourgates.contract.codes import Code
from fourgates.contract.events import RECORDS, AuditWatermark, DeadRecord, LedgerEntry, LedgerKind, Record
from fourgates.contract.parts import Cause, ResultBox, Risk, ref_of
from fourgates.contract.ports import Received
from fourgates.contract.topology import CALLS_LEDGER, CALLS_REQUESTED
from support.auditing import row_maker
from support.samples import CALL, REQUESTED, SEALED
from support.stories import Life, Tape, a_read, an_approved_write

SECRET = "-".join(("ghp", "x")).replace("-x", "_") + "4fA7bQ9cZ2dK8eM3aR5tW6yU1iO0pLkJhGfD"
CARD = "4111 1111 1111 1111"
TRACE = ("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")


def rows_of(tape: Tape, **kinds: tuple[str, ...]) -> list[Row]:
    maker = row_maker(**kinds)
    return [maker.row(one) for one in tape.received]


def everything(rows: list[Row]) -> str:
    return json.dumps(rows, ensure_ascii=False)


def test_every_record_has_a_row_with_every_column() -> None:
    """L2, L1."""
    tape = Tape()
    tape.put("run", REQUESTED)
    for sealed_by, record in SEALED:
        if not isinstance(record, AuditWatermark):
            tape.put(sealed_by, record)
    rows = rows_of(tape)
    assert {row["record"] for row in rows} == {cls.__name__ for cls in RECORDS if cls is not AuditWatermark}
    for row, received in zip(rows, tape.received, strict=True):
        assert tuple(row) == COLUMNS
        assert (row["topic"], row["partition"], row["offset"]) == (
            received.position.topic, received.position.partition, received.position.offset,
        )  # fmt: skip
        assert row["at"] == received.time_ms
        assert (row["cause_topic"], row["cause_offset"]) == ("calls.requested", 7)
        json.loads(row["body"])


def test_a_call_lands_with_who_what_and_why() -> None:
    """L1."""
    tape = Tape()
    life = an_approved_write(tape)
    claimed = next(row for row in rows_of(tape) if row["kind"] == "Claimed" and row["record"] == "LedgerEntry")
    assert (claimed["run_id"], claimed["tool_call_id"], claimed["call_id"]) == (life.call.run_id, "approved-1", life.call_id)
    assert (claimed["tenant"], claimed["subject"], claimed["agent"], claimed["risk"]) == ("acme", "anna", "support-bot", "write")
    assert (claimed["rules"], claimed["policies"], claimed["approvers"]) == (["own_order"], ["support-may-refund"], ["fiona"])
    assert claimed["arguments"] == life.call.arguments
    assert claimed["obligations"] == ["approval:finance:1"]


@pytest.mark.parametrize("place", ["arguments", "intent", "user_turns", "facts", "state_change", "detail", "words", "sentence"])
def test_a_secret_lands_nowhere_whoever_said_it(place: str) -> None:
    """R3, P1."""
    tape, said = Tape(), f"use {SECRET} please"
    life = Life(tape, arguments={"note": said}) if place == "arguments" else Life(tape)
    if place == "intent":
        life = Life(tape, intent=said)
    life.asked(user_turns=(said,)) if place == "user_turns" else life.asked()
    life.validated(facts=json.dumps({"note": said})) if place == "facts" else life.validated()
    life.held()
    life.shown()
    life.decided("approve", "fiona", said if place == "words" else "")
    life.cleared("fiona")
    life.claimed("fiona")
    more = {place: json.dumps({"note": said})} if place in ("state_change", "detail") else {}
    life.finished(**(more | ({"sentence": said} if place == "sentence" else {})))
    life.told()
    rows = rows_of(tape)
    assert SECRET not in everything(rows)
    assert "[redacted:" in everything(rows)


def test_a_secret_split_by_invisible_characters_or_escapes_lands_nowhere() -> None:
    """R3."""
    split = SECRET[:12] + "\u200b" + SECRET[12:]
    tape = Tape()
    life = Life(tape, arguments={"note": split})
    life.asked(json.dumps({"note": split}))
    life.validated()
    assert SECRET[12:] not in everything(rows_of(tape))


def test_personal_data_is_redacted_as_the_contract_names_it_and_wholly_for_an_unknown_tool() -> None:
    """R3."""
    tape = Tape()
    life = Life(tape, arguments={"note": f"card {CARD}"})
    life.validated()
    assert CARD in everything(rows_of(tape))
    assert CARD not in everything(rows_of(tape, refund_order=("card",)))
    unknown = Tape()
    Life(unknown, arguments={"note": f"card {CARD}"}, tool="no_such_tool").validated()
    assert CARD not in everything(rows_of(unknown))


def test_a_password_in_running_text_never_lands_whatever_the_contract_says() -> None:
    """R3."""
    tape = Tape()
    Life(tape, arguments={"note": "sign in for me, my password: summer2024"}).validated()
    assert "summer2024" not in everything(rows_of(tape)) + everything(rows_of(tape, refund_order=("card",)))


def test_a_placeholder_here_is_the_one_that_the_model_saw() -> None:
    """R3: it depends on the call and the key, not on where the value stood."""
    tape = Tape()
    life = Life(tape, arguments={"note": SECRET})
    life.asked()
    life.validated()
    asked, validated = rows_of(tape)
    assert json.loads(asked["arguments"]) == json.loads(validated["arguments"])


def test_grants_seals_results_and_dead_payloads_never_land() -> None:
    """P1, R3."""
    tape = Tape()
    life = Life(tape)
    life.asked()
    box = ResultBox(key_id="result:1", nonce=b"nonce-nonce!", ciphertext=b"raw-result-ciphertext", size=21)
    life.claim_id = "c" * 32
    life.finished(result=box)
    dead = DeadRecord(
        event_id="e" * 32, producer="p", worker="validator", topic=CALLS_REQUESTED, partition=1, offset=2, at_ms=3,
        reason="bad_grant", detail="", digest="f" * 64, size=22, record_key=b"key", payload=b"payload-of-a-dead-one",
    )  # fmt: skip
    tape.put("validator", dead)
    rows = rows_of(tape)
    text = everything(rows)
    for hidden in ("opaque.grant", "raw-result-ciphertext", "payload-of-a-dead-one", "nonce-nonce!"):
        assert hidden not in text
        assert hidden.encode().hex() not in text
    assert rows[1]["output_bytes"] == 21
    assert (rows[2]["origin_topic"], rows[2]["origin_partition"], rows[2]["origin_offset"]) == (CALLS_REQUESTED, 1, 2)


def test_digests_are_keyed_and_equal_where_the_arguments_are() -> None:
    """L1: whoever reads the store must not find arguments by trying."""
    tape = Tape()
    life = an_approved_write(tape)
    rows = rows_of(tape)
    validated, held = (next(row for row in rows if row["kind"] == kind) for kind in ("validated", "Held"))
    claimed = next(row for row in rows if row["record"] == "LedgerEntry" and row["kind"] == "Claimed")
    assert len({validated["args_digest"], held["args_digest"], claimed["args_digest"]}) == 1
    text = everything(rows)
    assert life.call.args_digest not in text
    assert life.call.effect_key not in text
    assert validated["effect_key"].startswith("acme/refund/")


def test_a_record_that_cannot_be_opened_becomes_an_invalid_row_with_its_digest() -> None:
    """L2, P6."""
    tape = Tape()
    good = tape.put("executor", LedgerEntry(event_id="e", producer="p", kind=LedgerKind.REPLAYED, call_id="c"))
    tape.put_raw(CALLS_LEDGER, good.key, b"\x00\x00\x00\x00\x01secret garbage")
    _, invalid = rows_of(tape)
    assert (invalid["kind"], invalid["record"], invalid["reason"]) == ("invalid", "", "unknown_schema")
    assert len(invalid["value_digest"]) == 64
    assert "garbage" not in everything([invalid])


def test_a_fault_of_our_own_still_leaves_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """L2."""
    tape = Tape()
    a_read(tape)
    maker = row_maker()

    def failing(record: Record, digest: object) -> dict[str, object]:
        raise KeyError("a new kind")

    monkeypatch.setattr("fourgates.audit.rows.fields_of", failing)
    row = maker.row(tape.received[0])
    assert (row["kind"], row["reason"], row["sentence"]) == ("invalid", "unforeseen", "KeyError")


def test_refused_says_whether_it_ends_the_call() -> None:
    """L4: a report must not count a transient refusal as an end."""
    values = {
        code: fields_of(
            LedgerEntry(event_id="e", producer="p", kind=LedgerKind.REFUSED, call_id="c", about=ref_of(CALL), code=code.value),
            str,
        )["final"]
        for code in (Code.PERMISSION_DENIED, Code.UNAVAILABLE, Code.IDENTITY_INVALID)
    }
    assert values == {Code.PERMISSION_DENIED: True, Code.UNAVAILABLE: False, Code.IDENTITY_INVALID: False}


def test_the_trace_of_the_headers_is_kept() -> None:
    """L1, S3."""
    tape = Tape()
    record = LedgerEntry(event_id="e", producer="p", kind=LedgerKind.REPLAYED, call_id="c", cause=None)
    tape.put("executor", record, headers=(TRACE,))
    tape.put("executor", record, headers=(("traceparent", b"not one"),))
    assert [row["trace_id"] for row in rows_of(tape)] == ["0af7651916cd43dd8448eb211c80319c", ""]


def test_a_hosts_request_is_marked_as_unproven_and_bounded() -> None:
    """L1, P6: anybody who can write to the topic may write anything in it."""
    tape = Tape()
    life = Life(tape, tool="t" * 5_000, risk=Risk.READ)
    life.asked("x" * 300_000)
    (row,) = rows_of(tape)
    assert row["writer"] == "run"
    assert len(row["tool"]) == 256
    assert len(row["arguments"]) <= 65_536
    assert row["value_bytes"] > 300_000


def test_an_unlikely_cause_does_not_break_the_row() -> None:
    """L2: partitions in a forged record may be any long."""
    tape = Tape()
    cause = Cause(event_id="x", topic="y" * 300, partition=2**62, offset=-(2**62))
    received: Received = tape.put(
        "executor", LedgerEntry(event_id="e", producer="p", kind=LedgerKind.REPLAYED, call_id="c", cause=cause)
    )
    row = row_maker().row(received)
    assert row["cause_partition"] == 2**62
