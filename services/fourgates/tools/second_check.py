"""The second check of arguments that have no typed model: another implementation of JSON Schema than gate 1's (C7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema
import re2
from jsonschema.validators import extend

from fourgates.tools.answers import refused_arguments


class SecondCheck:
    """Checks arguments against a closed schema. Patterns run on re2, in linear time, whatever a server wrote.

    Patterns that only gate 1's engine knows are left to it, and so is a schema with `patternProperties`, whose names would be
    matched by Python's own engine.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._check: Callable[[Any], Iterator[Any]] | None = None
        if not _has(schema, "patternProperties"):
            kind = extend(jsonschema.Draft202012Validator, {"pattern": _pattern})
            self._check = kind(schema).iter_errors

    def __call__(self, arguments: Mapping[str, Any]) -> None:
        """Raises ToolError, with nothing sent, for what does not fit."""
        if self._check is not None and next(self._check(dict(arguments)), None) is not None:
            raise refused_arguments("second_check", "The arguments do not fit the tool.")


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(value, str):
        return
    try:
        fits = re2.search(pattern, value) is not None
    except re2.error:
        return
    if not fits:
        yield jsonschema.ValidationError("it does not fit the pattern")


def _has(schema: Any, word: str) -> bool:
    if isinstance(schema, Mapping):
        return word in schema or any(_has(part, word) for part in schema.values())
    return isinstance(schema, list) and any(_has(part, word) for part in schema)
