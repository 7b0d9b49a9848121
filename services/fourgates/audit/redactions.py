"""What lands in the store is redacted: secrets and passwords always, personal data as the tool's contract names it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fourgates.catalog import Catalog
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_patterns import CHOSEN

KindsOf: TypeAlias = Callable[[str], Sequence[str] | None]
"""The kinds of personal data that a tool's contract names; None for a tool that nobody knows."""
_REMEMBERED_CHARS, _REMEMBERED_TEXTS = 4_096, 8_192


def kinds_in(catalog: Catalog) -> KindsOf:
    """As the catalog's contracts say."""

    def kinds_of(tool: str) -> Sequence[str] | None:
        known = catalog.get(tool)
        return None if known is None else known.redact

    return kinds_of


class Clean:
    """Redacts what one call's records say. Texts in which nothing was found are remembered: a call travels in five records."""

    def __init__(self, redactor: Redactor, harmless: dict[str, str]) -> None:
        self._redactor, self._harmless = redactor, harmless

    def text(self, said: str) -> str:
        """Text redacted; JSON text by its structure."""
        known = self._harmless.get(said)
        if known is not None:
            return known
        redacted = self._redactor.redact(said)
        shown = encodable(redacted.text)
        if not redacted.count and len(said) <= _REMEMBERED_CHARS:
            if len(self._harmless) >= _REMEMBERED_TEXTS:
                del self._harmless[next(iter(self._harmless))]
            self._harmless[said] = shown
        return shown

    def value(self, value: dict[str, Any]) -> dict[str, Any]:
        """A JSON object, redacted."""
        shown = self._redactor.redact_json(value)[0]
        return shown if isinstance(shown, dict) else {"redacted": shown}


class Redactions:
    """The redactor of each call. A tool that nobody knows gets the strictest: all kinds.

    `key` is the sanitizer's placeholder key, so that a placeholder here is the one that the model saw.
    """

    def __init__(self, key: bytes, kinds_of: KindsOf) -> None:
        self._key, self._kinds_of = key, kinds_of
        self._harmless: dict[tuple[str, ...], dict[str, str]] = {}

    def of(self, tool: str, call_id: str) -> Clean:
        named = self._kinds_of(tool) if tool else CHOSEN
        # A model may need a password that stands in running text; whoever reads the audit does not.
        kinds = CHOSEN if named is None else tuple(sorted({*named, "password"}))
        harmless = self._harmless.setdefault(kinds, {})
        return Clean(Redactor(self._key, call_id, kinds), harmless)


def compact(value: Any) -> str:
    return encodable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def encodable(text: str) -> str:
    """The text with lone surrogates as JSON escapes: they have no UTF-8 form, and one would block a whole batch."""
    return text.encode("utf-8", "backslashreplace").decode()
