"""What a fold remembers of a hundred thousand holds: some three hundred bytes each, made into a state when it is asked for."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

from fourgates.contract.events import HoldReason
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Position
from fourgates.contract.topology import APPROVALS
from fourgates.gates.hold import HoldState, HoldStatus

Key: TypeAlias = int | str
"""A hold's id as a number, or as it stands where it is none that we derive."""
Kept: TypeAlias = bytes | HoldState

_STATUS, _REASONS = tuple(HoldStatus), tuple(HoldReason)
_APPROVABLE, _EXPIRES, _SHOWN, _PREVIEWED, _JOINED = 1, 2, 4, 8, 16
_FIXED = struct.Struct("<BBBBHHQqqqqq9I32s32s16s")
"""status, reason, flags, partition, quorum, length of the run id, offset, five times, nine words, call, arguments, binding."""
_WORD = struct.Struct("<I")
_DIGEST, _ID = 32, 16
_YOUNG = 2_000
_STATUS_NUMBER, _REASON_NUMBER = ({word: n for n, word in enumerate(words)} for words in (_STATUS, _REASONS))


class HoldStates:
    """hold_id -> state, apart for those that are open; and the holds of each call, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Key, Kept] = {}
        self._ended: dict[Key, Kept] = {}
        self._by_call: dict[Key, Key | tuple[Key, ...]] = {}
        self._young: deque[Key] = deque()
        """Those that are not packed yet."""
        self._words = _Words()

    def get(self, hold_id: str) -> HoldState | None:
        key = _key(hold_id, _ID)
        kept = self._open.get(key) or self._ended.get(key)
        return None if kept is None else self._state(key, kept)

    def put(self, hold: HoldState) -> None:
        """Keeps the state instead of the one before."""
        key = _key(hold.hold_id, _ID)
        young = hold.status is HoldStatus.HELD  # asked in a moment, and read once more for that
        kept = hold if young else self._packed(key, hold)
        if key not in self._open and key not in self._ended:
            call = _key(hold.call_id, _DIGEST)
            before = self._by_call.get(call, ())
            self._by_call[call] = (*(before if isinstance(before, tuple) else (before,)), key) if before != () else key
        if hold.open:
            self._open[key] = kept
        else:
            self._open.pop(key, None)
            self._ended[key] = kept
        if young:
            self._grow_up(key)

    def _grow_up(self, key: Key) -> None:
        self._young.append(key)
        if len(self._young) > _YOUNG:
            old = self._young.popleft()
            if isinstance(kept := self._open.get(old), HoldState):
                self._open[old] = self._packed(old, kept)

    def of_call(self, call_id: str) -> tuple[HoldState, ...]:
        """All holds of a call, oldest first."""
        found = self._by_call.get(_key(call_id, _DIGEST), ())
        keys = found if isinstance(found, tuple) else (found,)
        return tuple(self._state(key, self._open.get(key) or self._ended[key]) for key in keys)

    def knows(self, call_id: str) -> bool:
        """Whether there is any hold of that call."""
        return _key(call_id, _DIGEST) in self._by_call

    def open(self) -> Iterator[HoldState]:
        """Those that people may still decide, oldest first; what ends meanwhile is left out."""
        return (self._state(key, kept) for key in list(self._open) if (kept := self._open.get(key)) is not None)

    def __iter__(self) -> Iterator[HoldState]:
        """Those that ended first."""
        yield from (self._state(key, kept) for key, kept in self._ended.items())
        yield from self.open()

    def __len__(self) -> int:
        return len(self._open) + len(self._ended)

    def _packed(self, key: Key, hold: HoldState) -> Kept:
        """The state as bytes; itself where it has ids that nothing of ours derives (a test's, a forger's)."""
        about, where, word = hold.about, hold.position, self._words.number
        call, arguments = _raw(hold.call_id, _DIGEST), _raw(about.args_digest, _DIGEST)
        binding, rest = _raw(hold.binding, _ID), [_raw(hold.shown_digest, _DIGEST), _raw(hold.preview_digest, _DIGEST)]
        rest.append(_raw(hold.joined_to, _ID))
        run, wild = about.run_id.encode(), where.topic != APPROVALS or not where.partition < 256 or hold.quorum > 0xFFFF
        if wild or isinstance(key, str) or not (call and arguments and binding) or None in rest or len(run) > 0xFFFF:
            return hold
        flags = (
            (_APPROVABLE if hold.approvable else 0) | (_EXPIRES if hold.expires_ms is not None else 0)
            | (_SHOWN if rest[0] else 0) | (_PREVIEWED if rest[1] else 0) | (_JOINED if rest[2] else 0)
        )  # fmt: skip
        words = (about.tenant, about.subject, about.agent, about.tool, about.tool_version, about.risk, hold.asker, hold.group)
        fixed = _FIXED.pack(
            _STATUS_NUMBER[hold.status], _REASON_NUMBER[hold.reason], flags, where.partition, hold.quorum, len(run), where.offset,
            hold.held_ms, hold.expires_ms or 0, hold.not_before_ms, hold.requested_ms, hold.ended_ms,
            *map(word, words), len(hold.approvers), call, arguments, binding,
        )  # fmt: skip
        said = [word(hold.verdict), word(hold.ended_by), *map(word, hold.approvers)] if hold.ended_ms or hold.approvers else []
        tail = b"".join([_WORD.pack(len(said)), *map(_WORD.pack, said), run, about.tool_call_id.encode()])
        return b"".join([fixed, *(part for part in rest if part), tail])

    def _state(self, key: Key, kept: Kept) -> HoldState:
        if isinstance(kept, HoldState):
            return kept
        (
            status, reason, flags, partition, quorum, run_bytes, offset, held, expires, not_before, requested, ended,
            tenant, subject, agent, tool, version, risk, asker, group, _, call, arguments, binding,
        ) = _FIXED.unpack_from(kept)  # fmt: skip
        at, text = _FIXED.size, self._words.text
        parts: list[str] = []
        for flag, size in ((_SHOWN, _DIGEST), (_PREVIEWED, _DIGEST), (_JOINED, _ID)):
            size = size if flags & flag else 0
            parts.append(kept[at : at + size].hex())
            at += size
        count = _WORD.unpack_from(kept, at)[0]
        at += _WORD.size
        said = [text(number) for number in struct.unpack_from(f"<{count}I", kept, at)] or ["", ""]
        at += count * _WORD.size
        about = CallRef(
            tenant=text(tenant), run_id=kept[at : at + run_bytes].decode(), tool_call_id=kept[at + run_bytes :].decode(),
            subject=text(subject), agent=text(agent), tool=text(tool), tool_version=text(version), risk=text(risk),
            args_digest=arguments.hex(),
        )  # fmt: skip
        return HoldState(
            hold_id=f"{key:032x}", call_id=call.hex(), position=Position(APPROVALS, partition, offset), held_ms=held,
            status=_STATUS[status], reason=_REASONS[reason], binding=binding.hex(), about=about, asker=text(asker),
            group=text(group), quorum=quorum, expires_ms=expires if flags & _EXPIRES else None, not_before_ms=not_before,
            joined_to=parts[2], requested_ms=requested, shown_digest=parts[0], preview_digest=parts[1],
            approvable=bool(flags & _APPROVABLE), approvers=tuple(said[2:]), verdict=said[0], ended_by=said[1], ended_ms=ended,
        )  # fmt: skip


class _Words:
    """Texts that many holds share (tenants, tools, groups, people), each kept once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return found

    def text(self, number: int) -> str:
        return self._texts[number]


def _raw(text: str, size: int) -> bytes | None:
    """The bytes that a lower-case hex text of so many bytes stands for; none for an empty one, None for any other."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw if len(raw) in (0, size) and raw.hex() == text else None


def _key(text: str, size: int) -> Key:
    raw = _raw(text, size)
    return int.from_bytes(raw, "big") if raw else text
