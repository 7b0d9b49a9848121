"""A placeholder never travels back into a write."""

from __future__ import annotations

from typing import Any

import pytest

from fourgates.contract.codes import Code
from fourgates.gates.placeholders import placeholder_refusal
from fourgates.gates.redaction import Redactor
from support.sanitizing import Sanitizing

SHOWN = Redactor(b"k", "c").redact("password=swordfish").text


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"to": SHOWN}, ["/to"]),
        ({"lines": ["a", {"note": f"see {SHOWN}"}], "b/c": SHOWN}, ["/lines/1/note", "/b~1c"]),
        ({SHOWN: 1}, [""]),
        ({"to": "[reda\u200bcted:secret:ab12cd]"}, ["/to"]),
    ],
    ids=str,
)
def test_a_write_with_a_placeholder_is_refused_and_told_where(arguments: dict[str, Any], fields: list[str]) -> None:
    """R3"""
    tool = Sanitizing().catalog.get("pay")
    assert tool is not None
    refusal = placeholder_refusal(tool, arguments)
    assert refusal is not None
    assert (refusal.code, refusal.reason, refusal.field) == (Code.INVALID_ARGUMENTS, "redacted_value", fields[0])
    assert [fault.field for fault in refusal.faults] == fields


def test_a_read_may_look_for_anything_and_other_text_passes() -> None:
    catalog = Sanitizing().catalog
    look, pay = catalog.get("look"), catalog.get("pay")
    assert look is not None and pay is not None
    assert placeholder_refusal(look, {"text": SHOWN}) is None
    assert placeholder_refusal(pay, {"text": "[redacted]", "n": 1, "deep": [None, True]}) is None
