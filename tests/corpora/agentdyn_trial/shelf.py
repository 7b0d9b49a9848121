"""Tools without a body: schemas and contracts are all that the first two gates look at."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from fourgates.catalog import Catalog, OnBreach, Tool
from fourgates.contract.parts import Risk

Schema = Mapping[str, Any]
TEXT: Schema = {"type": "string", "maxLength": 100_000}
TEXTS: Schema = {"type": "array", "items": TEXT, "maxItems": 100}
TEXT_OR_TEXTS: Schema = {"anyOf": [TEXT, TEXTS]}
# The models of the data send numbers and flags as text too, and the tools that answered them took both.
NUMBER: Schema = {"anyOf": [{"type": "number"}, TEXT]}
FLAG: Schema = {"anyOf": [{"type": "boolean"}, TEXT]}
CONTENT: Schema = {"anyOf": [TEXT, {"type": "array", "items": NUMBER}]}
_FILE_FIELDS = (
    "type", "file_type", "mime_type", "file_path", "filepath", "file_name", "filename", "file_id", "file_content", "content",
    "url",
)  # fmt: skip
_FILE: Schema = {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(_FILE_FIELDS, TEXT)}
FILES: Schema = {"anyOf": [{"type": "array", "items": {"anyOf": [_FILE, TEXT]}, "maxItems": 20}, TEXT]}

Origins = Mapping[str, frozenset[str]]


def maybe(schema: Schema, **more: Any) -> Schema:
    """An optional argument; null counts as left out."""
    return {"anyOf": [schema, {"type": "null"}], "default": None, **more}


class Shelf:
    """Fills a catalog. An argument without a default is required."""

    def __init__(self, name: str) -> None:
        self.catalog = Catalog(name)

    def read(self, name: str, arguments: Mapping[str, Schema] | None = None, *, trusted: Collection[str] = ()) -> None:
        self._add(name, Risk.READ, arguments or {}, {}, trusted=trusted)

    def write(
        self, name: str, arguments: Mapping[str, Schema] | None = None, origins: Origins | None = None,
        on_breach: OnBreach = OnBreach.HOLD,
    ) -> None:  # fmt: skip
        self._add(name, Risk.WRITE, arguments or {}, origins or {}, on_breach=on_breach)

    def destroy(self, name: str, arguments: Mapping[str, Schema] | None = None, origins: Origins | None = None) -> None:
        self._add(name, Risk.DESTRUCTIVE, arguments or {}, origins or {})

    def _add(
        self, name: str, risk: Risk, arguments: Mapping[str, Schema], origins: Origins, *, trusted: Collection[str] = (),
        on_breach: OnBreach = OnBreach.HOLD,
    ) -> None:  # fmt: skip
        schema = {
            "type": "object", "additionalProperties": False, "properties": dict(arguments),
            "required": [argument for argument, each in arguments.items() if "default" not in each],
        }  # fmt: skip
        self.catalog.add(Tool(
            name=name, description=name.replace("_", " "), risk=risk, schema=schema, model=None, run=_nothing_runs,
            timeout=timedelta(seconds=5), origins=origins, trusted_results=frozenset(trusted), on_breach=on_breach,
        ))  # fmt: skip


def _nothing_runs(args: Any, ctx: Any) -> None:
    raise AssertionError("a corpus runs no tool")
