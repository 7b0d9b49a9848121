"""Redacts text that does not fit into memory: in windows, cut only where a cut cannot part what belongs together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fourgates.gates.redaction import Redactor
from fourgates.gates.redaction_matcher import Find
from fourgates.gates.text import clean

BLOCK = 1 << 19
"""Characters that are redacted at once."""
HOLD = 1 << 16
"""Characters that stay behind until what follows them is known; also the longest secret that is certain to be found."""
_AROUND = 4_096
_TRIES = 64
_LONGEST = 1 << 22


_SEPARATORS = re.compile(r"[ ,;]")
_SEQUENCE = 64
"""No terminal sequence but a title or link is longer."""


class Endless(Exception):
    """A secret, or a word, that goes on for four million characters: the text is not fit to be shown."""


class StreamRedactor:
    """Feed it the text piece by piece; what it gives back, joined, is the redacted text. `count` is of what it gave back.

    The same text gives the same result however it is cut into pieces.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._raw, self._clean = "", ""
        self.count = 0

    def feed(self, piece: str) -> str:
        """What is certain by now. Raises Endless."""
        self._raw += piece
        out = []
        while len(self._raw) > BLOCK and (end := self._whole_until()):
            self._clean += clean(self._raw[:end])
            self._raw = self._raw[end:]
            if len(self._clean) > BLOCK + HOLD:
                out.append(self._redacted())
        if len(self._raw) + len(self._clean) > _LONGEST:
            raise Endless
        return "".join(out)

    def finish(self) -> str:
        """The rest."""
        rest, self._raw, self._clean = self._clean + clean(self._raw), "", ""
        return self._out(rest)

    def _whole_until(self) -> int:
        """Where the raw text may be cut: at a line's end, which no terminal sequence crosses; in a line of half a million
        characters between two words, outside of a sequence. 0: not known yet."""
        raw = self._raw
        end = raw.rfind("\n", 0, BLOCK) + 1 or raw.find("\n", BLOCK, 2 * BLOCK) + 1
        if end or len(raw) < 2 * BLOCK:
            return end
        found = [separator.end() for separator in _SEPARATORS.finditer(raw, BLOCK // 2, BLOCK)]
        end = found[-1] if found else 0
        escape = raw.rfind("\x1b", 0, end)
        if escape >= 0 and (end - escape < _SEQUENCE or (raw[escape + 1] in "]PX^_" and "\x07" not in raw[escape:end])):
            return escape
        return end

    def _redacted(self) -> str:
        finds = self._redactor.finds(self._clean)
        at = self._quiet_break("\n", finds)
        if not at and len(self._clean) > 2 * (BLOCK + HOLD):
            at = self._quiet_break(",", finds) or self._quiet_break(" ", finds)
        if not at:
            return ""
        done, self._clean = self._clean[:at], self._clean[at:]
        return self._out(done, [find for find in finds if find[1] <= at])

    def _out(self, text: str, finds: Sequence[Find] | None = None) -> str:
        shown = self._redactor.redact(text, finds)
        self.count += shown.count
        return shown.text

    def _quiet_break(self, mark: str, finds: Sequence[Find]) -> int:
        """The place after such a mark where a cut changes nothing that is found; 0 where there is none yet."""
        text = self._clean
        at = len(text) - HOLD
        for _ in range(_TRIES):
            at = text.rfind(mark, 0, at) + 1
            if not at:
                return 0
            crossing = next((find for find in finds if find[0] < at < find[1]), None)
            if crossing is not None:
                at = crossing[0]
            elif self._changes_nothing(at):
                return at
            else:
                at -= 1
        return 0

    def _changes_nothing(self, at: int) -> bool:
        """Whether what is found round `at` is what is found before and after it."""
        text = self._clean
        start = max(text.rfind("\n", 0, max(0, at - _AROUND)) + 1, at - 2 * _AROUND, 0)
        end = min(text.find("\n", at + _AROUND) + 1 or len(text), at + 2 * _AROUND)
        before, after = self._redactor.finds(text[start:at]), self._redactor.finds(text[at:end])
        moved = [(a + at - start, b + at - start, kind) for a, b, kind in after]
        return self._redactor.finds(text[start:end]) == [*before, *moved]
