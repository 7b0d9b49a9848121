"""Strict decode of a model's raw argument text: exactly one JSON value, read in exactly one way, or a refusal (C5).

Two readers of one text must never see two things. So whatever JSON parsers are known to differ about is refused: duplicate keys,
numbers that a double cannot carry, lone surrogates, a byte order mark, anything after the value.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

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
_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.S)
_SURROGATE_SUSPECT = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LONGEST_POINTER = 200


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
    if (size := _size(text, limits.bytes)) > limits.bytes:
        return refused("too_large", bytes=size)
    if text.startswith("\ufeff"):
        return refused("byte_order_mark")
    if _deeper_than(text, limits.depth):
        return refused("too_deep")
    marks: list[_Mark] = []
    decoder = _decoder(marks)
    start = len(text) - len(text.lstrip(_WHITESPACE))
    try:
        value, end = decoder.raw_decode(text, start)
    except json.JSONDecodeError as fault:
        return refused("malformed_json", position=fault.pos)
    if rest := text[end:].strip(_WHITESPACE):
        return refused("two_values" if _starts_a_value(rest) else "trailing_text", position=end)
    if (marks or _SURROGATE_SUSPECT.search(text)) and (found := _find(value, "")):
        reason, pointer = found
        return refused(reason, pointer)
    return value


@dataclass(frozen=True, slots=True)
class _Mark:
    """Stands in the parsed value where something may not be, so that its path can be told."""

    reason: str
    key: str | None = None


def _decoder(marks: list[_Mark]) -> json.JSONDecoder:
    def mark(reason: str, key: str | None = None) -> _Mark:
        marks.append(_Mark(reason, key))
        return marks[-1]

    def pairs(items: list[tuple[str, Any]]) -> Any:
        made = dict(items)
        if len(made) == len(items):
            return made
        seen: set[str] = set()
        twice = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add gives None
        return mark("duplicate_key", twice)

    def integer(digits: str) -> Any:
        if len(digits) > _LONGEST_SAFE or abs(number := int(digits)) > MAX_SAFE_INTEGER:
            return mark("integer_out_of_range")
        return number

    def floating(digits: str) -> Any:
        number = float(digits)
        if math.isinf(number):
            return mark("number_overflow")
        return mark("integer_out_of_range") if MAX_SAFE_INTEGER < abs(number) < _EXPONENT_FROM else number

    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_int=integer, parse_float=floating, parse_constant=lambda _: mark("not_finite")
    )


def _size(text: str, limit: int) -> int:
    """Bytes in UTF-8; only counted where the number of characters leaves it open."""
    return len(text) if len(text) > limit or len(text) * 4 <= limit else len(text.encode("utf-8", "surrogatepass"))


def _deeper_than(text: str, depth: int) -> bool:
    if text.count("[") + text.count("{") <= depth:
        return False
    level = 0
    for found in _BRACKET_OR_STRING.finditer(text):
        first = found[0][0]
        if first in "[{":
            level += 1
            if level > depth:
                return True
        elif first in "]}":
            level -= 1
    return False


def _starts_a_value(rest: str) -> bool:
    try:
        json.JSONDecoder().raw_decode(rest)
    except ValueError:  # JSONDecodeError is one; so is an integer of too many digits
        return False
    return True


def _find(value: Any, pointer: str) -> tuple[str, str] | None:
    """(reason, pointer) of the first thing that may not be; the depth is already bounded."""
    if isinstance(value, _Mark):
        return value.reason, pointer if value.key is None else step(pointer, value.key)
    if isinstance(value, str):
        return ("lone_surrogate", pointer) if _SURROGATE.search(value) else None
    if isinstance(value, dict):
        for key, item in value.items():
            if _SURROGATE.search(key):
                return "lone_surrogate", step(pointer, key)
            if found := _find(item, step(pointer, key)):
                return found
    if isinstance(value, list):
        for at, item in enumerate(value):
            if found := _find(item, step(pointer, at)):
                return found
    return None
