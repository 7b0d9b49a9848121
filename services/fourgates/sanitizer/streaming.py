"""A result that does not fit into memory: redacted, stored and cut as it goes by."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator

from fourgates.catalog import OutputLimit
from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_stream import StreamRedactor

_SPARE = 8_192
"""Characters of head and tail that are kept beyond the limit, for the bounds of lines, graphemes and placeholders."""


class Ends:
    """Head and tail of a text that goes by."""

    def __init__(self, limit: OutputLimit) -> None:
        self._most = limit.bytes + _SPARE
        self._head, self._tail = "", ""
        self.size = 0
        """Bytes of the whole text."""

    def add(self, text: str) -> None:
        self.size += len(text.encode())
        room = self._most - len(self._head)
        if room > 0:
            self._head += text[:room]
            text = text[room:]
        self._tail = (self._tail + text)[-self._most :] if text else self._tail

    @property
    def text(self) -> str:
        """What was kept."""
        return self._head + self._tail

    @property
    def left_out(self) -> int:
        """Bytes between head and tail that were not kept."""
        return self.size - len(self.text.encode())


async def redacted(pieces: AsyncIterator[bytes], redactor: Redactor, ends: Ends, counting: list[int]) -> AsyncIterator[bytes]:
    """The redacted text of UTF-8 pieces, as it becomes certain; `counting` gets the number of places in the end.

    Raises Endless for text that is not fit to be shown.
    """
    decoder, stream = codecs.getincrementaldecoder("utf-8")("replace"), StreamRedactor(redactor)
    async for piece in pieces:
        if shown := await asyncio.to_thread(stream.feed, decoder.decode(piece)):
            ends.add(shown)
            yield shown.encode()
    shown = await asyncio.to_thread(lambda: stream.feed(decoder.decode(b"", True)) + stream.finish())
    ends.add(shown)
    yield shown.encode()
    counting.append(stream.count)
