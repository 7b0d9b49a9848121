"""A placeholder of the redaction stands for a value that the model never saw: no write may take it for the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fourgates.catalog import Tool
from fourgates.catalog.keywords import step
from fourgates.contract.codes import Code
from fourgates.contract.parts import Fault
from fourgates.gates.redaction_marks import has_placeholder
from fourgates.gates.refusal import Refusal

REASON = "redacted_value"
_SENTENCE = "An argument holds a placeholder for a redacted value; the value itself is not available. Nothing ran."


def placeholder_refusal(tool: Tool, arguments: Mapping[str, Any]) -> Refusal | None:
    """Refuses a write whose arguments hold a placeholder, naming where. A read may look for anything."""
    if not tool.writes:
        return None
    faults = tuple(Fault(field=pointer, reason=REASON) for pointer in _places(arguments))
    if not faults:
        return None
    return Refusal(Code.INVALID_ARGUMENTS, REASON, faults[0].field, faults[:10], _SENTENCE)


def _places(value: Any, pointer: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if has_placeholder(name):
                yield pointer
            yield from _places(inner, step(pointer, name))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _places(inner, step(pointer, index))
    elif has_placeholder(value):
        yield pointer
