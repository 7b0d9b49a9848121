"""What a run puts into a request: the model's raw text, where its values came from, what the user said; all within bounds."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from fourgates.contract.codes import Code
from fourgates.contract.parts import Origin
from fourgates.gates.format import Limits, strict_parse
from fourgates.gates.origins import OriginBook
from fourgates.gates.refusal import Refusal

from .answer import Answer

LIMITS = Limits()
MAX_TOOL_CHARS = 256
MAX_ID_CHARS = 256
MAX_INTENT_BYTES = 16_384
TURNS_BYTES = 131_072
"""So much of what the user said travels with each call, the newest turns first; values of older turns count as the model's."""
MARKS_BYTES = 262_144
"""So much room have the marks; where it does not do, quotes are left out first, then marks: those values are the model's."""
_LARGE = 8_192


def raw_text(arguments: str | Mapping[str, Any]) -> str:
    """The model's raw text; where a client library has parsed it already (Anthropic), its JSON form."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def own_refusal(tool: str, raw: str, tool_call_id: str) -> Answer | None:
    """What the SDK refuses itself because no record could carry it: too large, or no Unicode text."""
    if len(tool) > MAX_TOOL_CHARS or not _encodes(tool):
        return Answer(Code.UNKNOWN_TOOL, "", "bad_name", tool_call_id=tool_call_id)
    if len(raw) <= LIMITS.bytes and _encodes(raw) and len(raw.encode()) <= LIMITS.bytes:
        return None
    refusal = strict_parse(raw, LIMITS)
    assert isinstance(refusal, Refusal), "text that is too large or no Unicode is never parsed"
    return Answer(
        refusal.code, "", refusal.reason, refusal.field, refusal.faults, refusal.sentence, tool_call_id=tool_call_id
    )  # fmt: skip


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def marks_of(book: OriginBook, raw: str) -> tuple[Origin, ...]:
    """The host's marks of the arguments, which from now on count as passed on to a tool.

    `user` and `model` stay away: the validator finds the former, and assumes the latter.
    """
    arguments = strict_parse(raw, LIMITS)
    if isinstance(arguments, Refusal):
        return ()
    # Looking for hundreds of values takes long enough to hold up everything else of the host.
    marks = await asyncio.to_thread(book.mark, arguments) if len(raw) > _LARGE else book.mark(arguments)
    book.passes_on(arguments, marks)
    return fitting([mark for mark in marks if mark.origin not in ("user", "model")])


def fitting(marks: Sequence[Origin], room: int = MARKS_BYTES) -> tuple[Origin, ...]:
    """The marks that have room, without their quotes where these alone are too much."""
    if sum(map(_size, marks)) > room:
        marks = [dataclasses.replace(mark, quote="") for mark in marks]
    kept, used = [], 0
    for mark in marks:
        used += _size(mark)
        if used > room:
            break
        kept.append(mark)
    return tuple(kept)


def _size(mark: Origin) -> int:
    return sum(len(part.encode(errors="replace")) + 3 for part in (mark.pointer, mark.origin, mark.source, mark.quote))


def newest_turns(turns: Sequence[str], room: int = TURNS_BYTES) -> tuple[str, ...]:
    """As many of the newest turns as have room, in their order."""
    kept: list[str] = []
    for turn in reversed(turns):
        room -= len(turn.encode())
        if room < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))
