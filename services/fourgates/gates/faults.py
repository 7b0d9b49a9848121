"""What a validator found wrong, as faults that a model can mend: a pointer to the place and a stable word (C5, C6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from jsonschema_rs import ValidationError as SchemaError
from jsonschema_rs import ValidationErrorKind as Kind
from pydantic import ValidationError as ModelError

from fourgates.catalog.formats import WORKSPACE_PATH
from fourgates.catalog.keywords import step
from fourgates.contract.codes import Code
from fourgates.contract.parts import Fault

from .refusal import Refusal
from .strict_json import shown

MOST_FAULTS = 10
_LOOKED_AT = 200
"""An array of a thousand wrong items has a thousand errors; nobody needs them."""

_REASONS = {
    "required": "missing_field", "additionalProperties": "unknown_field", "unevaluatedProperties": "unknown_field",
    "falseSchema": "unknown_field", "unevaluatedItems": "unknown_field", "type": "wrong_type", "enum": "not_allowed",
    "const": "not_allowed", "minimum": "out_of_range", "maximum": "out_of_range", "exclusiveMinimum": "out_of_range",
    "exclusiveMaximum": "out_of_range", "multipleOf": "out_of_range", "minLength": "wrong_length",
    "maxLength": "wrong_length", "minItems": "wrong_length", "maxItems": "wrong_length", "minProperties": "wrong_length",
    "maxProperties": "wrong_length", "pattern": "wrong_pattern", "format": "wrong_format", "uniqueItems": "not_unique",
    "anyOf": "fits_no_alternative", "oneOf": "fits_no_alternative", "not": "not_allowed", "contains": "missing_item",
    "propertyNames": "unknown_field", "dependentRequired": "missing_field",
}  # fmt: skip
_MODEL_REASONS = {
    "missing": "missing_field", "extra_forbidden": "unknown_field", "enum": "not_allowed", "literal_error": "not_allowed",
    "greater_than": "out_of_range", "greater_than_equal": "out_of_range", "less_than": "out_of_range",
    "less_than_equal": "out_of_range", "multiple_of": "out_of_range", "string_too_short": "wrong_length",
    "string_too_long": "wrong_length", "too_short": "wrong_length", "too_long": "wrong_length",
    "string_pattern_mismatch": "wrong_pattern",
}  # fmt: skip


def refusal_of(faults: Iterable[Fault]) -> Refusal:
    """The refusal of arguments for up to ten faults, told by the first."""
    few = tuple(islice(dict.fromkeys(faults), MOST_FAULTS))
    return Refusal(Code.INVALID_ARGUMENTS, few[0].reason, few[0].field, few)


def schema_faults(errors: Iterable[SchemaError]) -> list[Fault]:
    """The faults behind a compiled validator's errors."""
    found = list(islice((fault for error in errors for fault in _faults(error)), _LOOKED_AT))
    # A part that failed vouches for none of its fields, so the whole then calls them unknown: only the part's own fault is real.
    real = [fault.field for kind, fault in found if not kind.startswith("unevaluated")]
    return [
        fault
        for kind, fault in found
        if not kind.startswith("unevaluated") or not any(_at_or_below(field, _parent(fault.field)) for field in real)
    ]


def _faults(error: SchemaError) -> Iterator[tuple[str, Fault]]:
    place, name = step("", *error.instance_path), error.kind.name
    reason = _REASONS.get(name, "not_allowed")
    match error.kind:
        case Kind.AdditionalProperties(unexpected) | Kind.UnevaluatedProperties(unexpected):
            for key in unexpected:
                yield name, _fault(step(place, key), reason)
        case Kind.Required(key):
            yield name, _fault(step(place, key), reason)
        case Kind.PropertyNames(inner):
            yield name, _fault(step(place, inner.instance), reason)
        case Kind.AnyOf(branches) | Kind.OneOfNotValid(branches) if (nearest := _nearest(error, branches)) is not None:
            for part in nearest:
                yield from _faults(part)
        case Kind.Format(form) if form == WORKSPACE_PATH:
            yield name, _fault(place, "outside_workspace")
        case _:
            yield name, _fault(place, reason)


def _nearest(error: SchemaError, branches: Sequence[Sequence[SchemaError]]) -> Sequence[SchemaError] | None:
    """The alternative that was meant, where that is plain: of those of the right type, the one with the fewest faults."""
    here = len(error.instance_path)
    meant = [branch for branch in branches if branch and not any(_another(part, here) for part in branch)]
    if not meant:
        return None
    fewest = min(len(branch) for branch in meant)
    nearest = [branch for branch in meant if len(branch) == fewest]
    return nearest[0] if len(nearest) == 1 else None


def _another(error: SchemaError, depth: int) -> bool:
    """True where the value is of another kind altogether: its type is wrong, or the field that names its kind says another."""
    below = len(error.instance_path) - depth
    return (error.kind.name == "type" and below == 0) or (error.kind.name == "const" and below <= 1)


def _fault(pointer: str, reason: str) -> Fault:
    return Fault(field=shown(pointer), reason=reason)


def _parent(pointer: str) -> str:
    return pointer.rpartition("/")[0]


def _at_or_below(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(f"{place}/")


def model_faults(error: ModelError, arguments: Any) -> list[Fault]:
    """The faults behind a typed model's error; its messages quote the input and are left out."""
    return [
        _fault(_pointer(each["loc"], each["type"], arguments), _model_reason(each["type"]))
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _pointer(loc: Sequence[int | str], kind: str, arguments: Any) -> str:
    """The path inside the arguments: pydantic's also names the alternatives of a union, which are no fields."""
    pointer, value = "", arguments
    for at, token in enumerate(loc):
        missing = kind == "missing" and at == len(loc) - 1
        if missing:
            return step(pointer, token)
        if _holds(value, token):
            pointer, value = step(pointer, token), value[token]
    return pointer


def _holds(value: Any, token: int | str) -> bool:
    if isinstance(value, dict):
        return token in value
    return isinstance(value, list) and isinstance(token, int) and token < len(value)


def _model_reason(kind: str) -> str:
    if kind in _MODEL_REASONS:
        return _MODEL_REASONS[kind]
    if kind.endswith(("_type", "_parsing")):
        return "wrong_type"
    return "not_allowed" if kind in ("value_error", "assertion_error") else kind
