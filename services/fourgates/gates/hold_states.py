"""What a fold remembers of a hundred thousand holds: some two hundred bytes each, made into a state when it is asked for."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Hashable, Iterator
from typing import Generic, TypeAlias, TypeVar

from fourgates.contract.events import HoldReason
from fourgates.contract.parts import CallRef
from fourgates.contract.ports import Position
from fourgates.contract.topology import APPROVALS
from fourgates.gates.hold import HoldState, HoldStatus

Key: TypeAlias = int | str
"""A hold's id as a number, or as it stands where it is none that we derive."""
Kept: TypeAlias = bytes | HoldState
T = TypeVar("T", bound=Hashable)

_STATUS, _REASONS = tuple(HoldStatus), tuple(HoldReason)
_APPROVABLE, _EXPIRES, _SHOWN, _PREVIEWED, _JOINED, _BOUND, _LATER = 1, 2, 4, 8, 16, 32, 64
_FIXED = struct.Struct("<BBBBHHQqqqII32s32s")
"""status, reason, flags, partition, quorum, length of the run id, offset, three times, who, what, call, arguments."""
_LATE = struct.Struct("<qqHII")
"""two times, how many said yes, the verdict and who ended it; then those who said yes."""
_DIGEST, _ID = 32, 16
_PARTS = ((_SHOWN, _DIGEST), (_PREVIEWED, _DIGEST), (_JOINED, _ID), (_BOUND, _ID))
_YOUNG = 2_000
_SHORT = (1 << 60) - 1
_STATUS_NUMBER, _REASON_NUMBER = ({word: n for n, word in enumerate(words)} for words in (_STATUS, _REASONS))


class HoldStates:
    """hold_id -> state, apart for those that are open; and the holds of each call, oldest first."""

    def __init__(self) -> None:
        self._open: dict[Key, Kept] = {}
        self._ended: dict[Key, Kept] = {}
        self._by_call: dict[int, Key | tuple[Key, ...]] = {}
        """By a number that two calls might share."""
        self._young: deque[Key] = deque()
        """Those that are not packed yet."""
        self._who: _Numbered[tuple[str, str, str, str]] = _Numbered()
        self._what: _Numbered[tuple[str, str, str, str]] = _Numbered()
        self._words: _Numbered[str] = _Numbered()

    def get(self, hold_id: str) -> HoldState | None:
        key = _key(hold_id)
        kept = self._open.get(key) or self._ended.get(key)
        return None if kept is None else self._state(key, kept)

    def put(self, hold: HoldState) -> None:
        """Keeps the state instead of the one before."""
        key = _key(hold.hold_id)
        young = hold.status is HoldStatus.HELD  # asked in a moment, and read once more for that
        kept = hold if young else self._packed(key, hold)
        if key not in self._open and key not in self._ended:
            call = _short(hold.call_id)
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
        found = self._by_call.get(_short(call_id), ())
        if found == ():
            return ()
        keys = found if isinstance(found, tuple) else (found,)
        states = (self._state(key, self._open.get(key) or self._ended[key]) for key in keys)
        return tuple(state for state in states if state.call_id == call_id)

    def knows(self, call_id: str) -> bool:
        """Whether there is any hold of that call."""
        return bool(self.of_call(call_id))

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
        about, where = hold.about, hold.position
        call, arguments, run = _raw(hold.call_id, _DIGEST), _raw(about.args_digest, _DIGEST), about.run_id.encode()
        bound = "" if hold.binding == about.args_digest[: 2 * _ID] else hold.binding
        texts = (hold.shown_digest, hold.preview_digest, hold.joined_to, bound)
        parts = [_raw(text, size) if text else b"" for text, (_, size) in zip(texts, _PARTS, strict=True)]
        wild = where.topic != APPROVALS or not where.partition < 256 or hold.quorum > 0xFFFF or len(run) > 0xFFFF
        if wild or isinstance(key, str) or not (call and arguments and hold.binding) or None in parts:
            return hold
        flags = (_APPROVABLE if hold.approvable else 0) | (_EXPIRES if hold.expires_ms is not None else 0)
        for part, (flag, _) in zip(parts, _PARTS, strict=True):
            flags |= flag if part else 0
        late = self._later(hold)
        fixed = _FIXED.pack(
            _STATUS_NUMBER[hold.status], _REASON_NUMBER[hold.reason], flags | (_LATER if late else 0),
            where.partition, hold.quorum, len(run), where.offset, hold.held_ms, hold.expires_ms or 0, hold.requested_ms,
            self._who.number((about.tenant, about.subject, about.agent, hold.asker)),
            self._what.number((about.tool, about.tool_version, about.risk, hold.group)), call, arguments,
        )  # fmt: skip
        return b"".join([fixed, *(part for part in parts if part), late, run, about.tool_call_id.encode()])

    def _later(self, hold: HoldState) -> bytes:
        """What most holds that wait do not have."""
        if not (hold.not_before_ms or hold.ended_ms or hold.approvers or hold.verdict or hold.ended_by):
            return b""
        word, yes = self._words.number, hold.approvers
        fixed = _LATE.pack(hold.not_before_ms, hold.ended_ms, len(yes), word(hold.verdict), word(hold.ended_by))
        return fixed + struct.pack(f"<{len(yes)}I", *map(word, yes))

    def _state(self, key: Key, kept: Kept) -> HoldState:
        if isinstance(kept, HoldState):
            return kept
        (
            status, reason, flags, partition, quorum, run_bytes, offset, held, expires, requested, who, what, call, arguments
        ) = _FIXED.unpack_from(kept)  # fmt: skip
        at, texts = _FIXED.size, []
        for flag, size in _PARTS:
            texts.append(kept[at : at + size].hex() if flags & flag else "")
            at += size if flags & flag else 0
        not_before, ended, verdict, ended_by = 0, 0, "", ""
        approvers: tuple[str, ...] = ()
        if flags & _LATER:
            not_before, ended, count, *said = _LATE.unpack_from(kept, at)
            verdict, ended_by = map(self._words.value, said)
            at += _LATE.size
            approvers = tuple(map(self._words.value, struct.unpack_from(f"<{count}I", kept, at)))
            at += 4 * count
        tenant, subject, agent, asker = self._who.value(who)
        tool, version, risk, group = self._what.value(what)
        args_digest = arguments.hex()
        about = CallRef(
            tenant=tenant, run_id=kept[at : at + run_bytes].decode(), tool_call_id=kept[at + run_bytes :].decode(),
            subject=subject, agent=agent, tool=tool, tool_version=version, risk=risk, args_digest=args_digest,
        )  # fmt: skip
        return HoldState(
            hold_id=f"{key:032x}", call_id=call.hex(), position=Position(APPROVALS, partition, offset), held_ms=held,
            status=_STATUS[status], reason=_REASONS[reason], binding=texts[3] or args_digest[: 2 * _ID], about=about, asker=asker,
            group=group, quorum=quorum, expires_ms=expires if flags & _EXPIRES else None, not_before_ms=not_before,
            joined_to=texts[2], requested_ms=requested, shown_digest=texts[0], preview_digest=texts[1],
            approvable=bool(flags & _APPROVABLE), approvers=approvers, verdict=verdict, ended_by=ended_by, ended_ms=ended,
        )  # fmt: skip


class _Numbered(Generic[T]):
    """What many holds share (who asks, which tool and group, names of people), each kept once."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def value(self, number: int) -> T:
        return self._values[number]


def _raw(text: str, size: int) -> bytes | None:
    """The bytes that a lower-case hex text of so many bytes stands for; None for any other text."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return None
    return raw if len(raw) == size and raw.hex() == text else None


def _key(hold_id: str) -> Key:
    raw = _raw(hold_id, _ID)
    return hold_id if raw is None else int.from_bytes(raw, "big")


def _short(call_id: str) -> int:
    return hash(call_id) & _SHORT
