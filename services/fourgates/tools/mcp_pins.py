"""Definitions of MCP tools that an operator accepted, in one file beside the catalog."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fourgates.contract.canonical import digest
from fourgates.contract.errors import ConfigurationError

_FORM = "write it by `fourgates catalog accept`"


def definition_digest(definition: Mapping[str, Any]) -> str:
    """Over everything that a server says of a tool: a description speaks to the model, so it counts like the schema."""
    return digest(dict(definition))


class Pins:
    """`{tool: {"server", "digest", "definition"}}`. Belongs under version control: its changes are what a reviewer reads."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def definition(self, tool: str, server: str) -> dict[str, Any] | None:
        """The accepted definition of that tool of that server; None where there is none.

        Raises ConfigurationError for a file that cannot be read, or was changed by hand.
        """
        pin = self._read().get(tool)
        if pin is None or pin["server"] != server:
            return None
        definition: dict[str, Any] = pin["definition"]
        if definition_digest(definition) != pin["digest"]:
            raise ConfigurationError(f"{self.path}: the definition of {tool!r} does not fit its digest; {_FORM}")
        return definition

    def accept(self, tool: str, server: str, definition: Mapping[str, Any]) -> None:
        """Writes it, whole or not at all."""
        pins = self._read()
        pins[tool] = {"server": server, "digest": definition_digest(definition), "definition": dict(definition)}
        other = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        other.write_text(json.dumps(pins, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        other.replace(self.path)

    def _read(self) -> dict[str, Any]:
        try:
            pins: dict[str, Any] = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as fault:
            raise ConfigurationError(f"{self.path}: no file of accepted definitions ({fault}); {_FORM}") from fault
        fit = isinstance(pins, dict) and all(
            isinstance(pin, dict) and {"server", "digest", "definition"} <= pin.keys() for pin in pins.values()
        )
        if not fit:
            raise ConfigurationError(f"{self.path}: no file of accepted definitions; {_FORM}")
        return pins
