"""Takes what a tool streams, piece by piece, into a sealed file without a name: memory holds one frame."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import AsyncIterator, Iterator
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
    file, sealer, held, size = tempfile.SpooledTemporaryFile(max_size=_SPOOLED), FrameSealer(), bytearray(), 0  # noqa: SIM115  # the stream owns it
    async for piece in _pieces(stream):
        data = piece if isinstance(piece, bytes) else piece.encode("utf-8", "replace")
        size += len(data)
        if size > MOST_BYTES:
            raise ToolError("result_too_large", "The result is larger than anything that can be shown.")
        held += data
        while len(held) > FRAME_BYTES:
            await asyncio.to_thread(file.write, sealer.seal(bytes(held[:FRAME_BYTES])))
            del held[:FRAME_BYTES]
    file.write(sealer.seal(bytes(held), last=True))
    return SealedStream(file, sealer.key, size)


async def _pieces(stream: Streamed) -> AsyncIterator[str | bytes]:
    if isinstance(stream.pieces, AsyncIterator) or hasattr(stream.pieces, "__aiter__"):
        async for piece in stream.pieces:
            yield piece
        return
    pieces: Iterator[str | bytes] = iter(stream.pieces)
    end = object()
    while (piece := await asyncio.to_thread(next, pieces, end)) is not end:
        yield piece
