"""What a fold of the ledger remembers of each call: all of it while the call is under way, fifteen bytes once it has ended.

A process keeps every write of its partitions for as long as the log is kept, a million and more, so what has ended is packed.
Nothing that a fold asks of an ended call is lost: its outcome and code, when it ended, and which call it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from fourgates.contract.codes import Code
from fourgates.contract.partition import partition_of
from fourgates.contract.topology import CALL_PARTITIONS

from .call_state import OPEN, READ_MEMORY_MS, CallState, Outcome, OutcomeKind, Phase

_CODES: tuple[str, ...] = ("", *Code)
_KINDS = tuple(OutcomeKind)
_READ = 0x80
_CODE_AT = {code: at for at, code in enumerate(_CODES)}
_KIND_AT = {kind: at for at, kind in enumerate(_KINDS)}
_GENERATIONS = 4
_GENERATION_MS = READ_MEMORY_MS // (_GENERATIONS - 1)


class CallStates:
    """call_id -> state. A read that was forgotten is not there any more."""

    def __init__(self) -> None:
        self._live: dict[str, CallState] = {}
        self._ended: dict[int, bytes] = {}
        self._reads: dict[int, _Reads] = {}

    def get(self, call_id: str) -> CallState:
        """What is known of the call, or OPEN."""
        if (live := self._live.get(call_id)) is not None:
            return live
        number = _number(call_id)
        packed = self._ended.get(number)
        if packed is None and self._reads and (reads := self._reads.get(_partition(call_id))) is not None:
            packed = reads.get(number)
        return OPEN if packed is None else _unpacked(packed)

    def put(self, call_id: str, state: CallState) -> None:
        """Keeps the state instead of the one before."""
        if state.phase is not Phase.FINAL:
            self._live[call_id] = state
            return
        self._live.pop(call_id, None)
        if not state.read:
            self._ended[_number(call_id)] = _packed(state)
            return
        reads = self._reads.get(partition := _partition(call_id))
        if reads is None:
            reads = self._reads[partition] = _Reads(state.final_ms)
        reads.put(_number(call_id), _packed(state))

    def forget_reads(self, call_id: str, now_ms: int) -> None:
        """The reads of that call's partition leave some time after their ten minutes of its broker time."""
        if self._reads and (reads := self._reads.get(_partition(call_id))) is not None:
            reads.forget(now_ms)

    def items(self) -> Iterator[tuple[int, CallState]]:
        """Every call by number, for comparing one memory with another."""
        yield from ((_number(call_id), state) for call_id, state in self._live.items())
        yield from ((number, _unpacked(packed)) for number, packed in self._ended.items())
        for reads in self._reads.values():
            yield from ((number, _unpacked(packed)) for number, packed in reads.items())

    def __len__(self) -> int:
        return len(self._live) + len(self._ended) + sum(len(reads) for reads in self._reads.values())


class _Reads:
    """The ended reads of one partition in generations, of which the oldest is dropped whole: nothing is searched for."""

    def __init__(self, since_ms: int) -> None:
        self._generations: list[dict[int, bytes]] = [{}]
        self._until_ms = since_ms + _GENERATION_MS

    def get(self, number: int) -> bytes | None:
        for generation in self._generations:
            if (packed := generation.get(number)) is not None:
                return packed
        return None

    def put(self, number: int, packed: bytes) -> None:
        for older in self._generations[1:]:
            older.pop(number, None)  # read afresh after its ten minutes
        self._generations[0][number] = packed

    def forget(self, now_ms: int) -> None:
        if now_ms < self._until_ms:
            return
        passed = (now_ms - self._until_ms) // _GENERATION_MS + 1
        fresh: list[dict[int, bytes]] = [{} for _ in range(min(passed, _GENERATIONS))]
        self._generations = [*fresh, *self._generations][:_GENERATIONS]
        self._until_ms += passed * _GENERATION_MS

    def items(self) -> Iterator[tuple[int, bytes]]:
        for generation in self._generations:
            yield from generation.items()

    def __len__(self) -> int:
        return sum(len(generation) for generation in self._generations)


def _partition(call_id: str) -> int:
    return partition_of(call_id.encode(), CALL_PARTITIONS)


def _number(call_id: str) -> int:
    """The id as a number: half the size of its text."""
    try:
        raw = bytes.fromhex(call_id)
    except ValueError:
        raw = b""
    if len(raw) != 32 or raw.hex() != call_id:  # no id that a host derives: any other text gets a number of the same length
        raw = hashlib.sha256(call_id.encode()).digest()
    return int.from_bytes(raw, "big")


def _packed(state: CallState) -> bytes:
    outcome = state.outcome or Outcome(OutcomeKind.REFUSED, Code.INTERNAL)
    head = _KIND_AT[outcome.kind] | (_READ if state.read else 0)
    return bytes((head, _CODE_AT.get(outcome.code, 0))) + state.final_ms.to_bytes(6, "big") + state.identity


def _unpacked(packed: bytes) -> CallState:
    outcome = Outcome(_KINDS[packed[0] & ~_READ], _CODES[packed[1]])
    return CallState(
        phase=Phase.FINAL, outcome=outcome, final_ms=int.from_bytes(packed[2:8], "big"), read=bool(packed[0] & _READ),
        identity=packed[8:],
    )  # fmt: skip
