"""What a refusing rule looked at, for whoever asks the audit why: redacted and bounded, and never told to a model."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from fourgates.gates.redaction import Redactor

_MOST_NAMES, _MOST_CHARS = 20, 300
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_DIGITS = re.compile(r"(\[redacted:[a-z_]+:)[0-9a-f]{6}\]")


def names_in(expression: str, known: Iterable[str]) -> tuple[str, ...]:
    """The variables among `known` that a rule's expression speaks of, in their order; texts in quotes do not count."""
    bare = _QUOTED.sub("''", expression)
    return tuple(name for name in known if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", bare))


def looked_at(names: Iterable[str], values: Mapping[str, Any], kinds: Collection[str]) -> dict[str, Any]:
    """Variable -> its value, without secrets, passwords and the personal data of these kinds; a long one is cut.

    The marks bear no digits of the values: these records are read by more people than the placeholders' key.
    """
    redactor, shown = Redactor(bytes(32), "", {*kinds, "password"}), {}
    for name in list(names)[:_MOST_NAMES]:
        value = values.get(name)
        plain = {name.rpartition(".")[2]: value.isoformat() if isinstance(value, datetime) else value}
        clean, _ = redactor.redact_json(plain)
        shown[name] = _short(next(iter(clean.values())) if isinstance(clean, dict) and clean else "")
    return shown


def _short(value: Any) -> Any:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
    except ValueError:  # a number that is none
        text = json.dumps(str(value))
    text = _DIGITS.sub(r"\g<1>000000]", text)
    return json.loads(text) if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "..."
