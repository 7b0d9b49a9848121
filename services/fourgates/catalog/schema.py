"""Compiling an argument schema: linear-time patterns, formats asserted, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from fourgates.contract.errors import ConfigurationError

from .closing import DIALECT, close_schema, open_place
from .formats import FORMATS
from .keywords import step

__all__ = ["DIALECT", "close_schema", "compile_schema", "open_place"]


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """The compiled validator.

    Raises ConfigurationError for an invalid schema, a pattern beyond the linear-time engine, an unknown format, a reference that
    leads nowhere.
    """
    try:
        return jsonschema_rs.Draft202012Validator(
            dict(schema), pattern_options=jsonschema_rs.RegexOptions(), validate_formats=True, formats=dict(FORMATS),
            ignore_unknown_formats=False, offline=True,
        )  # fmt: skip
    except jsonschema_rs.ValidationError as fault:
        place = step("", *fault.instance_path) or "/"
        hint = ""
        if "regex" in fault.message:
            hint = "; patterns run on a linear-time engine without lookaround and back-references, write it without them"
        if "format" in fault.message:
            hint = f"; nobody would check it, use one of JSON Schema's own or {', '.join(FORMATS)}"
        raise ConfigurationError(f"its schema is not usable at {place}: {fault.message}{hint}") from fault
