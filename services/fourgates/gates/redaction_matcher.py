"""Where in a text the secrets stand: one pass over all hints, then only the exact forms that can occur."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import re2

from fourgates.gates.redaction_encoded import ENCODED_HINTS, joined_lines, plain_base64, unprinted, unquoted, without_breaks
from fourgates.gates.redaction_marks import PLACEHOLDER, pieces
from fourgates.gates.redaction_matches import matches, subject_of
from fourgates.gates.redaction_names import NAME_HINTS, PERSONAL_NAME_HINTS
from fourgates.gates.redaction_patterns import CHOSEN, PATTERNS, SECRETS, Pattern

Find: TypeAlias = tuple[int, int, str]
"""Start, end, kind."""

_HINT_MEMORY = 64 << 20
_SHORTEST = 5
"""No form is shorter than `pwd=x`."""
_CANARY = "\x01"
"""Ends every text that the hints are tried on: a set that ran out of memory says "nothing", and would miss this as well."""
_KEYS = frozenset({"api_key", "jwt"})
"""What gives itself away by its own form, and is therefore also found where a line break cuts it in two."""
_ENCODINGS = 2
"""So many encodings one inside the other are undone."""


class Hints:
    """Which of some forms occur in a text, in one pass over it."""

    def __init__(self, forms: Sequence[str]) -> None:
        options = re2.Options()
        options.max_mem = _HINT_MEMORY
        options.log_errors = False
        self._set = re2.Set.SearchSet(options)
        for form in (*forms, _CANARY):
            self._set.Add(form)
        self._set.Compile()
        self._canary = len(forms)
        self._nothing = [self._canary]

    def occur(self, text: str) -> bool:
        """Whether any of them does, or the set gave up."""
        return bool(self._set.Match(text + _CANARY) != self._nothing)

    def hit(self, text: str) -> list[int]:
        """The numbers of those that occur, in order; all of them where the set gave up."""
        hit = sorted(self._set.Match(text + _CANARY) or ())
        return hit[:-1] if hit and hit[-1] == self._canary else list(range(self._canary))


class Matcher:
    """The patterns of some kinds. A text in which no hint occurs holds nothing."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.patterns: list[tuple[Pattern, Any, bool]] = []
        """Each with its form, and whether that tells letters beyond ASCII apart."""
        self._kinds = kinds
        for pattern in PATTERNS:
            if pattern.kind in kinds:
                self.patterns.append((pattern, re2.compile(pattern.exact), pattern.tells_letters_apart))
        # Two sets: in one, each state of a form would be there again for each state of a name or of what may be base64.
        self._forms = Hints([pattern.hint for pattern, _, _ in self.patterns])
        names = (*NAME_HINTS, *(hint for kind, hint in PERSONAL_NAME_HINTS.items() if kind in kinds))
        self._others = Hints((*ENCODED_HINTS, *names))

    def may_hold(self, text: str) -> bool:
        """False where there is certainly nothing: no form, no telling name, no encoding. The quick way for most results."""
        if len(text) < _SHORTEST:
            return False
        if self._others.occur(text) or self._forms.occur(text):
            return True
        return "\n" in text and matcher_of(_KEYS & self._kinds).has_form(without_breaks(text))

    def spans(self, text: str, encodings: int = _ENCODINGS) -> list[Find]:
        """What has to go, in order, without overlaps; of overlapping finds the first kind in the list names the whole."""
        if len(text) < _SHORTEST:
            return []
        bare = PLACEHOLDER.sub("\n", text) if "[redacted:" in text else text
        hit = self._forms.hit(bare)
        found = self._exact(text, hit)
        if encodings:
            found += self._encoded(text, self._others.hit(bare), bool(hit), encodings - 1)
            if "\n" in text:
                found += self._broken(text)
        return _merged(found)

    def _exact(self, text: str, indices: Sequence[int]) -> list[Find]:
        found = []
        tried = [self.patterns[index] for index in indices]
        for start, piece in pieces(text) if tried else ():
            subject = subject_of(piece)
            for pattern, exact, as_it_is in tried:
                for match in matches(exact, piece, piece if as_it_is else subject):
                    found += [(start + a, start + b, pattern.kind) for a, b in pattern.find(match) if b > a]
        return found

    def _encoded(self, text: str, hit: Sequence[int], has_form: bool, encodings: int) -> list[Find]:
        """What is seen only once an encoding is undone, as places in the text as it stands."""
        found: list[Find] = []
        percent, base64, printed = (number in hit for number in range(3))
        # A printed line break hides no hint; it only keeps what follows it from standing at a line's beginning.
        printed = printed and has_form
        for start, piece in pieces(text) if percent or base64 or printed else ():
            views = [(view, encodings) for view in unquoted(piece)] if percent else []
            if printed:
                views += [(view, 0) for view in unprinted(piece)]
            for view, inside in views:
                found += [(start + view.raw(a), start + view.raw_end(b), kind) for a, b, kind in self.spans(view.text, inside)]
            for a, b, plain in plain_base64(piece) if base64 else ():
                if inner := self.spans(plain, encodings):
                    found.append((start + a, start + b, inner[0][2]))
        return found

    def _broken(self, text: str) -> list[Find]:
        """Keys that a line break cuts in two."""
        keys = matcher_of(_KEYS & self._kinds)
        found: list[Find] = []
        if not keys.has_form(without_breaks(text)):
            return found
        for start, piece in pieces(text):
            if keys.has_form(without_breaks(piece)) and (whole := joined_lines(piece)) is not None:
                inner = keys.spans(whole.text, 0)
                found += [(start + whole.raw(a), start + whole.raw_end(b), kind) for a, b, kind in inner if whole.crosses(a, b)]
        return found

    def has_form(self, text: str) -> bool:
        """Whether the hint of any form occurs."""
        return self._forms.occur(text)


def _merged(found: list[Find]) -> list[Find]:
    merged: list[Find] = []
    for a, b, kind in sorted(found, key=lambda find: (find[0], -find[1], _RANK[find[2]])):
        if merged and a < merged[-1][1]:
            start, end, named = merged[-1]
            merged[-1] = start, max(b, end), min(kind, named, key=_RANK.__getitem__)
        else:
            merged.append((a, b, kind))
    return merged


_RANK = {kind: rank for rank, kind in enumerate((*SECRETS, *CHOSEN))}


@lru_cache(maxsize=32)
def matcher_of(kinds: frozenset[str]) -> Matcher:
    """The matcher of these kinds; made once."""
    return Matcher(kinds)
