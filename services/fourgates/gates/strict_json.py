"""Strict decode of a model's raw argument text: exactly one JSON value, read in exactly one way, or a refusal (C5).

Two readers of one text must never see two things. So whatever JSON parsers are known to differ about is refused: duplicate keys,
numbers that a double cannot carry, lone surrogates, a byte order mark, anything after the value.
"""

from __future__ import annotations

import gc
import json
import math
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from fourgates.catalog.keywords import step
from fourgates.contract.codes import Code
from fourgates.contract.parts import Fault

from .refusal import Refusal


@dataclass(frozen=True, slots=True)
class Limits:
    """How much text is looked at at all."""

    bytes: int = 262_144
    depth: int = 32
    """Objects and arrays inside each other; judged before anything is parsed, so that no depth can crash the parser."""


SENTENCES = {
    "too_large": "The arguments are too large.",
    "too_deep": "The arguments are nested too deeply.",
    "byte_order_mark": "The arguments start with a byte order mark; send JSON only.",
    "malformed_json": "The arguments are not valid JSON.",
    "trailing_text": "Something follows after the JSON object; send one JSON object only.",
    "two_values": "There is more than one JSON value; send one JSON object only.",
    "duplicate_key": "A field stands twice in the same object; send each field once.",
    "not_finite": "NaN and Infinity are not JSON numbers.",
    "number_overflow": "A number is too large for a double.",
    "integer_out_of_range": "An integer lies beyond 2^53-1 and would be read inexactly.",
    "lone_surrogate": "A text holds half of a surrogate pair, which is no character.",
    "not_an_object": "The arguments must be one JSON object.",
}
"""What a model is told, by reason."""

MAX_SAFE_INTEGER = 2**53 - 1
_LONGEST_SAFE = len(str(-MAX_SAFE_INTEGER))
_EXPONENT_FROM = 1e21
"""From here on canonical JSON writes an exponent; below, a large double would come back as an integer beyond 2^53-1."""
_WHITESPACE = " \t\n\r"
# Never backtracks: an unclosed string runs to the end of the text.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.S)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as the steps that they make in depth, +1 and -1 read as signed bytes."""
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_LARGE_NUMBER = re.compile(r"[0-9](?:[eE]|[0-9]{15})")
"""Without one of these every number of a text is small enough to be read as it is meant."""
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LONGEST_POINTER = 200
_LARGE = 32_768
"""Characters from which the values of a text are so many that they are worth some care."""


def refused(reason: str, pointer: str = "", **detail: Any) -> Refusal:
    """A refusal of the argument text itself."""
    field = shown(pointer)
    fault = Fault(field=field, reason=reason)
    return Refusal(Code.INVALID_ARGUMENTS, reason, field, (fault,), SENTENCES.get(reason, ""), detail)


def shown(pointer: str) -> str:
    """A pointer as it may go into a record: it may hold a model's own words, so it is whole characters and not long."""
    whole = _SURROGATE.sub("�", pointer)
    return whole if len(whole) <= _LONGEST_POINTER else whole[: _LONGEST_POINTER - 1] + "…"


def strict_parse(text: str, limits: Limits = Limits()) -> Any | Refusal:
    """Any JSON value, or why the text is not one. Objects come as dict with their keys in the order of the text."""
    if len(text) < _LARGE or not gc.isenabled():
        return _parse(text, limits)
    gc.disable()  # half the time of a large text would go into looking for cycles, which JSON cannot have
    try:
        return _parse(text, limits)
    finally:
        gc.enable()


def _parse(text: str, limits: Limits) -> Any | Refusal:
    if (size := _size(text, limits.bytes)) > limits.bytes:
        return refused("too_large", bytes=size)
    if text.startswith("\ufeff"):
        return refused("byte_order_mark")
    if _deeper_than(text, limits.depth):
        return refused("too_deep")
    start = len(text) - len(text.lstrip(_WHITESPACE))
    large = bool(_LARGE_NUMBER.search(text))
    marked = large or "NaN" in text or "Infinity" in text
    marking = _MARKING_LARGE if large else _MARKING
    try:
        try:
            value, end = (marking if marked else _QUICK).raw_decode(text, start)
        except _DuplicateKey:
            marked = True
            value, end = marking.raw_decode(text, start)
    except json.JSONDecodeError as fault:
        return refused("malformed_json", position=fault.pos)
    if end < len(text) and (rest := text[end:].strip(_WHITESPACE)):
        return refused("two_values" if _starts_a_value(rest) else "trailing_text", position=end)
    if (marked or _may_hold_halves(text)) and (found := _find(value)):
        reason, path = found
        return refused(reason, step("", *reversed(path)))
    return value


class _DuplicateKey(ValueError):
    """Which key of which object is found by reading the text again, with marks."""


class _Mark(NamedTuple):
    """Stands in the parsed value where something may not be, so that its path can be told."""

    reason: str
    keys: tuple[str, ...] = ()


_NOT_FINITE, _OVERFLOW, _INEXACT = _Mark("not_finite"), _Mark("number_overflow"), _Mark("integer_out_of_range")


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(items)
    if len(made) != len(items):
        raise _DuplicateKey
    return made


def _marked_pairs(items: list[tuple[str, Any]]) -> Any:
    made = dict(items)
    if len(made) == len(items):
        return made
    seen: set[str] = set()
    for key, _ in items:
        if key in seen:
            return _Mark("duplicate_key", (key,))
        seen.add(key)
    raise AssertionError("fewer keys than pairs, and none twice")


def _marked_integer(digits: str) -> Any:
    if len(digits) > _LONGEST_SAFE or abs(number := int(digits)) > MAX_SAFE_INTEGER:
        return _INEXACT
    return number


def _marked_float(digits: str) -> Any:
    number = float(digits)
    if math.isinf(number):
        return _OVERFLOW
    return _INEXACT if MAX_SAFE_INTEGER < abs(number) < _EXPONENT_FROM else number


def _marked_constant(_: str) -> Any:
    return _NOT_FINITE


_QUICK = json.JSONDecoder(object_pairs_hook=_pairs)
_MARKING = json.JSONDecoder(object_pairs_hook=_marked_pairs, parse_constant=_marked_constant)
_MARKING_LARGE = json.JSONDecoder(
    object_pairs_hook=_marked_pairs, parse_constant=_marked_constant, parse_int=_marked_integer, parse_float=_marked_float
)


def _size(text: str, limit: int) -> int:
    """Bytes in UTF-8; only counted where the number of characters leaves it open."""
    return len(text) if len(text) > limit or len(text) * 4 <= limit else len(text.encode("utf-8", "surrogatepass"))


def _deeper_than(text: str, depth: int) -> bool:
    """Judged over the brackets outside of strings, before anything is parsed."""
    if text.count("[") + text.count("{") <= depth:
        return False
    data = text.encode("utf-8", "surrogatepass")
    brackets = (_STRING.sub(b"", data) if b'"' in data else data).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(brackets).cast("b")), default=0) > depth


def _starts_a_value(rest: str) -> bool:
    try:
        json.JSONDecoder().raw_decode(rest)
    except ValueError:  # JSONDecodeError is one; so is an integer of too many digits
        return False
    return True


def _find(value: Any) -> tuple[str, list[str | int]] | None:
    """(reason, path from its end) of the first thing that may not be; the depth is already bounded."""
    kind = type(value)
    if kind is str:
        return ("lone_surrogate", []) if _halved(value) else None
    if kind is _Mark:
        return value.reason, list(value.keys)
    if kind is dict:
        for key, item in value.items():
            if _halved(key):
                return "lone_surrogate", [key]
            if type(item) in _WALKED and (found := _find(item)):
                found[1].append(key)
                return found
    if kind is list:
        for at, item in enumerate(value):
            if type(item) in _WALKED and (found := _find(item)):
                found[1].append(at)
                return found
    return None


def _may_hold_halves(text: str) -> bool:
    """Whether half a surrogate pair may stand in a text of JSON, as it is or escaped."""
    return _halved(text) or ("\\u" in text and _ESCAPED_HALF.search(text) is not None)


def _halved(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


_WALKED = frozenset({str, dict, list, _Mark})
