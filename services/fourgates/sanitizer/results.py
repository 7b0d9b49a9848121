"""From an entry's box to what is shown of it, whichever way it travelled."""

from __future__ import annotations

from fourgates.contract.parts import CallRef, ResultBox
from fourgates.gates.result_stream import is_stream
from fourgates.sanitizer.contents import Contents, Shown
from fourgates.sanitizer.raw_results import RawResults


class Gone(Exception):
    """A raw blob is removed after the answer: somebody has answered."""


class Results:
    """Opens results and makes them fit to be read."""

    def __init__(self, raw: RawResults, contents: Contents) -> None:
        self._raw, self._contents = raw, contents
        self.words = contents.words
        """Declared words, fit to be read."""
        self.discard = raw.discard
        """Removes a raw blob; only after its answer is acknowledged."""

    async def shown(self, box: ResultBox, call_id: str, about: CallRef) -> Shown:
        """What is shown of a result. Raises Gone, UnreadableResult, and Endless for what is not fit to be shown."""
        try:
            if is_stream(box):
                pieces = await self._raw.stream(box, about.tenant, call_id)
            else:
                value = await self._raw.open(box, about.tenant, call_id)
        except KeyError as gone:
            raise Gone from gone
        if is_stream(box):
            return await self._contents.of_stream(pieces, box.size, call_id, about)
        return await self._contents.of(value, box.size, call_id, about)
