"""Which redactor cleans what lands in the store: secrets always, personal data as the tool's contract names it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

KindsOf: TypeAlias = Callable[[str], Sequence[str] | None]
"""The kinds of personal data that a tool's contract names; None for a tool that nobody knows."""
_CACHED_CHARS, _CACHED_TEXTS = 4_096, 4_096


class Redacted(Protocol):
    """A text, and how many places in it were redacted."""

    @property
    def text(self) -> str: ...


class Redacts(Protocol):
    """The part of `gates.redaction.Redactor` that the audit needs."""

    def redact(self, text: str) -> Redacted: ...

    def redact_json(self, value: Any) -> Any: ...


class Clean:
    """Redacts with one redactor. A call's arguments travel in five records or so, hence the small memory."""

    def __init__(self, redactor: Redacts) -> None:
        self._redactor = redactor
        self._known: dict[str, str] = {}

    def text(self, said: str) -> str:
        return encodable(self._redactor.redact(said).text)

    def json_text(self, said: str) -> str:
        """JSON text redacted by its structure; any other text as text."""
        known = self._known.get(said)
        if known is not None:
            return known
        try:
            value = json.loads(said)
        except (ValueError, RecursionError):
            return self.text(said)
        clean = self.value_text(value)
        if len(said) <= _CACHED_CHARS:
            if len(self._known) >= _CACHED_TEXTS:
                del self._known[next(iter(self._known))]
            self._known[said] = clean
        return clean

    def value_text(self, value: Any) -> str:
        """A JSON value, redacted, as compact JSON."""
        return encodable(json.dumps(self._redactor.redact_json(value), ensure_ascii=False, separators=(",", ":")))


class Redactions:
    """The redactor of each tool. A tool that nobody knows gets the strictest: all kinds."""

    def __init__(self, redactor: Callable[[tuple[str, ...]], Redacts], kinds_of: KindsOf, all_kinds: Sequence[str]) -> None:
        self._redactor, self._kinds_of, self._all = redactor, kinds_of, tuple(all_kinds)
        self._made: dict[tuple[str, ...], Clean] = {}

    def of(self, tool: str) -> Clean:
        kinds = self._kinds_of(tool) if tool else ()
        wanted = self._all if kinds is None else tuple(sorted(kinds))
        made = self._made.get(wanted)
        if made is None:
            made = self._made[wanted] = Clean(self._redactor(wanted))
        return made


def encodable(text: str) -> str:
    """The text with lone surrogates as JSON escapes: they have no UTF-8 form, and one would block a whole batch."""
    return text.encode("utf-8", "backslashreplace").decode()
