"""Takes what a tool streams, piece by piece, into a sealed file without a name: memory holds one frame."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import IO, Any

from fourgates.catalog import Committed, Streamed, ToolError
from fourgates.gates.result_stream import FRAME_BYTES, SEALED_FRAME_BYTES, FrameSealer

BROKE_OFF = "The call took effect; what it returned broke off and cannot be shown."
MOST_BYTES = 1 << 30
"""A stream beyond this is broken off: nobody pages through more, and a disk is not endless."""
_SPOOLED = 1 << 20


@dataclass(frozen=True, slots=True)
class SealedStream:
    """The sealed frames, their key, and the plain size in bytes. The file is gone once nobody holds it."""

    frames: IO[bytes]
    key: bytes
    size: int

    async def read(self) -> AsyncIterator[bytes]:
        """The sealed frames, from the first."""
        self.frames.seek(0)
        while frame := await asyncio.to_thread(self.frames.read, SEALED_FRAME_BYTES):
            yield frame


def is_streamed(answer: Any) -> bool:
    """Whether there is something to be taken before the attempt is over."""
    return isinstance(answer.content if isinstance(answer, Committed) else answer, Streamed)


async def received(answer: Any, _context: Any = None) -> Any:
    """The answer with its stream taken. A read fails with its stream; what has committed stays so, without its content."""
    if isinstance(answer, Committed):
        try:
            return dataclasses.replace(answer, content=await _taken(answer.content))
        except Exception:
            return dataclasses.replace(answer, content=BROKE_OFF)
    return await _taken(answer)


async def _taken(stream: Streamed) -> SealedStream:
    taking = _Taking()
    if isinstance(stream.pieces, AsyncIterable):
        async for piece in stream.pieces:
            taking.add(piece)
    else:
        pieces = iter(stream.pieces)
        while await asyncio.to_thread(taking.add_some, pieces):
            continue
    return await asyncio.to_thread(taking.sealed)


class _Taking:
    """Frames on their way into the file."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_SPOOLED)  # noqa: SIM115  # whoever gets the stream holds it
        self._sealer, self._held, self._size = FrameSealer(), bytearray(), 0

    def add(self, piece: str | bytes) -> int:
        """Takes a piece; its bytes. Raises ToolError beyond MOST_BYTES."""
        data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")
        self._size += len(data)
        if self._size > MOST_BYTES:
            raise ToolError("result_too_large", "The result is larger than anything that can be shown.")
        self._held += data
        while len(self._held) > FRAME_BYTES:
            self._file.write(self._sealer.seal(bytes(self._held[:FRAME_BYTES])))
            del self._held[:FRAME_BYTES]
        return len(data)

    def add_some(self, pieces: Iterator[str | bytes]) -> bool:
        """Takes about a megabyte; False once there is no more. In a thread: the tool's own code makes the pieces."""
        taken = 0
        for piece in pieces:
            taken += self.add(piece)
            if taken >= _SPOOLED:
                return True
        return False

    def sealed(self) -> SealedStream:
        self._file.write(self._sealer.seal(bytes(self._held), last=True))
        return SealedStream(self._file, self._sealer.key, self._size)
