"""From a raw result to what a model reads: cleaned and redacted as a whole, the whole stored, then cut to the tool's limit."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from fourgates.catalog import Catalog, OutputLimit, Tool
from fourgates.contract.errors import OverQuota
from fourgates.contract.observation import ContentRef
from fourgates.contract.parts import CallRef, Fault
from fourgates.contract.ports import BlobOwner, BlobStore
from fourgates.gates.injection import signals
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_json import container
from fourgates.gates.redaction_patterns import CHOSEN
from fourgates.gates.result import cut, fits
from fourgates.gates.result_items import bounded_items
from fourgates.sanitizer.settings import SanitizerSettings
from fourgates.sanitizer.streaming import Ends, redacted

_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"
_NOT_IN_A_REASON = re.compile(r"[^A-Za-z0-9_.:\-]+")
_REASON_CHARS, _POINTER_BYTES, _FAULTS = 100, 300, 10
_LARGEST_INTEGER = 2**53 - 1
_LISTENED_TO = 1 << 20


@dataclass(frozen=True, slots=True)
class Shown:
    """What a model gets of a result."""

    text: str | None = None
    ref: ContentRef | None = None
    truncated: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    """Bytes of the whole redacted result."""
    redactions: int = 0
    signals: tuple[str, ...] = ()
    """What in the raw result speaks to a model (`gates/injection.py`)."""


@dataclass(frozen=True, slots=True)
class Words:
    """Reason, place and sentence, safe to show."""

    reason: str
    sentence: str
    field: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class _Whole:
    text: str
    kind: str
    fields: Mapping[str, Any]
    redactions: int
    signals: tuple[str, ...]
    value: Any = None
    """The redacted JSON value; None of text."""

    @property
    def items(self) -> Any:
        """What may have lists: the value, or the JSON that a text is."""
        if self.value is not None or (parsed := container(self.text)) is None:
            return self.value
        return parsed.value


class Contents:
    """Makes raw results and declared words fit to be read, by the contract of the tool they come from.

    Of a tool that is in the catalog no more, or in another version, the contract is not known: every kind of personal data is
    redacted then, the default limit holds, and nothing is lifted.
    """

    def __init__(self, catalog: Catalog, blobs: BlobStore, placeholder_key: bytes, settings: SanitizerSettings) -> None:
        self._catalog, self._blobs, self._key, self._settings = catalog, blobs, placeholder_key, settings

    async def of(self, value: Any, size: int, call_id: str, about: CallRef) -> Shown:
        """`value` is the opened content, a JSON value, `size` its bytes. The same value gives the same result."""
        tool, redactor = self._tool(about), self._redactor(call_id, about)
        lift = tool.lift if tool is not None else ()
        if size > self._settings.in_thread_bytes:
            whole = await asyncio.to_thread(self._whole, value, redactor, lift)
        else:
            whole = self._whole(value, redactor, lift)
        data, limit = whole.text.encode(), self._limit(tool)
        of_all = Shown(whole.text, None, False, whole.fields, len(data), whole.redactions, whole.signals)
        if not _too_many(whole, limit) and fits(whole.text, limit):
            return of_all
        ref = await self._stored(about, data)
        text = _bounded(whole, limit, ref) if _too_many(whole, limit) else whole.text
        content = ContentRef(ref, len(data), whole.kind) if ref else None
        return dataclasses.replace(of_all, text=cut(text, limit, ref).text, ref=content, truncated=True)

    async def of_stream(self, pieces: AsyncIterator[bytes], size: int, call_id: str, about: CallRef) -> Shown:
        """The same of text that is `size` bytes in pieces. Raises Endless where it is not fit to be shown."""
        if size <= self._settings.whole_bytes:
            text = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
            return await self.of(text, size, call_id, about)
        redactor, limit = self._redactor(call_id, about), self._limit(self._tool(about))
        ends, places, first = Ends(limit), list[int](), bytearray()

        async def listened() -> AsyncIterator[bytes]:
            async for piece in pieces:
                if len(first) < _LISTENED_TO:
                    first.extend(piece)
                yield piece

        owner = BlobOwner(about.subject, about.run_id)
        try:
            ref = await self._blobs.put_stream(about.tenant, redacted(listened(), redactor, ends, places), owner)
        except OverQuota:
            ref = ""
        told = signals(first.decode("utf-8", "replace"))
        shown = cut(ends.text, limit, ref, ends.left_out)
        content = ContentRef(ref, ends.size, _TEXT) if ref else None
        return Shown(shown.text, content, True, {}, ends.size, sum(places), told)

    def words(
        self, call_id: str, about: CallRef, reason: str, sentence: str, where: str = "", faults: Sequence[Fault] = ()
    ) -> Words:
        """A declared sentence is a promise, not a proof: it is cleaned, redacted and bounded like everything else."""
        redactor = self._redactor(call_id, about)
        return Words(
            reason=_reason(redactor, reason),
            sentence=_short(redactor, " ".join(sentence.split()), self._settings.sentence_chars),
            field=_short(redactor, where, _POINTER_BYTES),
            faults=tuple(
                Fault(field=_short(redactor, fault.field, _POINTER_BYTES), reason=_reason(redactor, fault.reason))
                for fault in faults[:_FAULTS]
            ),
        )

    def _tool(self, about: CallRef) -> Tool | None:
        tool = self._catalog.get(about.tool, about.tool_version)
        return tool if tool is not None and about.tool_version in ("", tool.version) else None

    def _redactor(self, call_id: str, about: CallRef) -> Redactor:
        tool = self._tool(about)
        return Redactor(self._key, call_id, tool.redact if tool is not None else CHOSEN)

    def _limit(self, tool: Tool | None) -> OutputLimit:
        limit = tool.output if tool is not None else OutputLimit()
        return OutputLimit(min(limit.bytes, self._settings.content_ceiling), limit.lines, limit.items)

    async def _stored(self, about: CallRef, data: bytes) -> str:
        """Its reference; empty where the tenant may store no more: what is shown says then only how much is missing."""
        try:
            return await self._blobs.put(about.tenant, data, BlobOwner(about.subject, about.run_id))
        except OverQuota:
            return ""

    def _whole(self, value: Any, redactor: Redactor, lift: Sequence[str]) -> _Whole:
        if isinstance(value, str):
            shown = redactor.redact(value)
            return _Whole(shown.text, _TEXT, {}, shown.count, signals(value))
        raw = json.dumps(value, ensure_ascii=False)
        redacted, count = (value, 0) if redactor.holds_nothing(raw) else redactor.redact_json(value)
        fields: dict[str, Any] = {}
        if isinstance(redacted, dict):
            fields = {name: self._lifted(redacted[name]) for name in lift if name in redacted}
        return _Whole(_as_text(redacted), _JSON, fields, count, signals(raw), redacted)

    def _lifted(self, value: Any) -> Any:
        value = _exact(value)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        limit = OutputLimit(self._settings.field_bytes)
        return value if fits(text, limit) else cut(text, limit, "").text


def _too_many(whole: _Whole, limit: OutputLimit) -> bool:
    return limit.items is not None and bounded_items(whole.items, limit.items, "")[1] > 0


def _bounded(whole: _Whole, limit: OutputLimit, ref: str) -> str:
    return _as_text(bounded_items(whole.items, limit.items or 0, ref)[0])


def _as_text(value: Any) -> str:
    return to_json(value, indent=2, inf_nan_mode="constants").decode()


def _exact(value: Any) -> Any:
    """What canonical JSON cannot carry exactly, as text."""
    if isinstance(value, dict):
        return {str(name): _exact(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_exact(inner) for inner in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    carried = math.isfinite(value) if isinstance(value, float) else abs(value) <= _LARGEST_INTEGER
    return value if carried else str(value)


def _reason(redactor: Redactor, reason: str) -> str:
    return _NOT_IN_A_REASON.sub("_", redactor.redact(reason).text)[:_REASON_CHARS]


def _short(redactor: Redactor, text: str, size: int) -> str:
    return cut(redactor.redact(text).text, OutputLimit(size), "").text
