"""Gate 1, format: from a model's raw text to normalised arguments, or a refusal that it can mend (C5-C8)."""

from __future__ import annotations

import json
from typing import Any

import rfc8785
from pydantic import ValidationError

from fourgates.catalog.schema import compile_schema
from fourgates.catalog.tool import Tool
from fourgates.contract.canonical import canonical

from .faults import model_faults, refusal_of, schema_faults
from .refusal import Refusal
from .strict_json import Limits, refused, strict_parse

__all__ = ["ArgumentCheck", "Limits", "strict_parse"]


class ArgumentCheck:
    """One tool's check, compiled once."""

    def __init__(self, tool: Tool, limits: Limits = Limits()) -> None:  # noqa: B008  # frozen
        """Raises ConfigurationError for a schema that does not compile."""
        self._tool, self._limits = tool, limits
        self._validator = compile_schema(tool.schema)
        properties = tool.schema.get("properties", {})
        self._defaults = {
            name: schema["default"] for name, schema in properties.items() if isinstance(schema, dict) and "default" in schema
        }

    def check(self, raw: str) -> dict[str, Any] | Refusal:
        """The normalised arguments of the raw text: parsed strictly, fitting the schema, defaults filled in.

        They are as their canonical form reads, so every later reader of that form sees the same values.
        """
        parsed = strict_parse(raw, self._limits)
        if isinstance(parsed, Refusal):
            return parsed
        if not isinstance(parsed, dict):
            return refused("not_an_object")
        if not self._validator.is_valid(parsed):
            return refusal_of(schema_faults(self._validator.iter_errors(parsed)))
        given = canonical(parsed)
        try:
            text = self._normal(parsed, given)
            arguments: dict[str, Any] = json.loads(text)
            # What comes out as it went in has been judged as it stands.
            stable = text == given or self._stable(arguments, text)
        except ValidationError as error:
            return refusal_of(model_faults(error, parsed))
        except rfc8785.CanonicalizationError:
            return refused("normalisation_unstable")
        return arguments if stable else refused("normalisation_unstable")

    def _normal(self, arguments: dict[str, Any], given: bytes) -> bytes:
        """Canonical text of the arguments with defaults and normalisation, by the typed model where there is one.

        `given` is the canonical text of the arguments: in it 1 and 1.0 are one number, as they are to the schema; a strict model
        would differ.
        """
        if self._tool.model is None:
            missing = self._defaults.keys() - arguments.keys()
            return canonical({**arguments, **{name: self._defaults[name] for name in missing}}) if missing else given
        landed = self._tool.model.model_validate_json(given, strict=True)
        return canonical(landed.model_dump(mode="json", by_alias=True))

    def _stable(self, arguments: dict[str, Any], text: bytes) -> bool:
        """Normalised arguments pass again and stay as they are, else the executor would run other ones than were judged."""
        try:
            return self._validator.is_valid(arguments) and self._normal(arguments, text) == text
        except (ValidationError, rfc8785.CanonicalizationError):
            return False
