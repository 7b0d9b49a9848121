"""The closed list of codes, and what follows from each."""

from __future__ import annotations

import json

import pytest

from fourgates.contract.codes import CODES, Code, CodeClass, ends_call
from fourgates.contract.observation import ContentRef, Observation
from fourgates.contract.parts import Fault

# The list of the design, written out here a second time: a code that changes class must change in both places.
DESIGN = {
    "ok": "ok",
    "invalid": "invalid_arguments unknown_tool",
    "transient": "unavailable rate_limited timeout audit_unavailable tool_changed",
    "waiting": "approval_pending",
    "denied": "identity_invalid permission_denied approval_required approval_denied approval_expired "
    "quota_exceeded tool_disabled",
    "terminal": "rule_violated origin_refused duplicate_effect idempotency_conflict approval_effect_changed tool_failed "
    "budget_exhausted cancelled call_too_old",
    "in_doubt": "in_doubt cancel_too_late",
    "internal": "internal run_stopped",
}
ABOUT_THE_RECORD = {"identity_invalid", "idempotency_conflict"}
every_code = pytest.mark.parametrize("code", Code, ids=str)


def test_codes_are_the_closed_list_by_class() -> None:
    by_class: dict[str, set[str]] = {}
    for code, info in CODES.items():
        by_class.setdefault(info.code_class.value, set()).add(code.value)
    assert by_class == {name: set(words.split()) for name, words in DESIGN.items()}


@every_code
def test_final_is_everything_but_transient_waiting_in_doubt_and_answers_to_a_record(code: Code) -> None:
    open_classes = {CodeClass.TRANSIENT, CodeClass.WAITING, CodeClass.IN_DOUBT}
    final = CODES[code].code_class not in open_classes and code.value not in ABOUT_THE_RECORD
    assert CODES[code].final is final
    assert ends_call(code) is final


@every_code
def test_retryable_and_recoverable_follow_from_the_class(code: Code) -> None:
    info = CODES[code]
    assert info.retryable is (info.code_class is CodeClass.TRANSIENT)
    assert info.recoverable is (info.code_class is CodeClass.INVALID)


@every_code
def test_every_code_has_one_fixed_sentence_that_names_nothing_inside(code: Code) -> None:
    """R5"""
    message = CODES[code].message
    assert message.endswith(".")
    assert not {"kafka", "clickhouse", "traceback", "/"} & set(message.lower().split())


def test_observation_is_the_same_bytes_again() -> None:
    """E1"""
    one = Observation(
        code=Code.INVALID_ARGUMENTS,
        call_id="c",
        reason="unknown_field",
        field="/ordr_id",
        faults=(Fault(field="/ordr_id", reason="unknown_field"),),
        fields={"b": 1, "a": [1, None]},
        content="text \U0001f600",
        content_ref=ContentRef("sha256:1", 7),
        truncated=True,
    )
    assert Observation.from_json(one.to_json()).to_json() == one.to_json()


@every_code
def test_observation_is_always_untrusted_and_tells_its_class(code: Code) -> None:
    """R4"""
    told = json.loads(Observation(code=code, call_id="c").to_json())
    assert told["trust"] == "untrusted"
    assert (told["ok"], told["final"], told["class"]) == (code is Code.OK, CODES[code].final, CODES[code].code_class.value)
    assert told["message"] == CODES[code].message
