"""What a run has heard, in the host: what the user said, what came back from where, and what it has already passed on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fourgates.contract.parts import Origin
from fourgates.gates.composing import HOST, MODEL, RESULT, USER, composed, items_of
from fourgates.gates.words import Needle, Words, leaves

MAX_SEEN_CHARS = 8_000_000
"""How much a run remembers of what came back; beyond it the oldest is forgotten, and its values count as the model's."""
MAX_PASSED_ON = 20_000
EVERYTHING = "*"

Source = tuple[str, str, Words]
"""Its name for a reader, the origin of what stands in it, and its texts."""


@lru_cache(maxsize=64)
def turns(user_turns: tuple[str, ...]) -> Words:
    """The user's turns as a text to look in."""
    return Words(user_turns)


class OriginBook:
    """Marks the arguments of a run's calls. `mark` may run beside the others in another thread."""

    def __init__(self) -> None:
        self.user_turns: tuple[str, ...] = ()
        self._vouched: list[Source] = []
        self._seen: list[Source] = []
        self._passed_on: dict[str, Origin] = {}

    def user_said(self, text: str) -> None:
        """One turn of the user. It travels with each call, so that the validator can look for itself."""
        self.user_turns = (*self.user_turns, text)

    def saw(self, source: str, content: Any, trusted_fields: Iterable[str] = (), *, call_id: str = "") -> None:
        """Something came back: a tool's result (its name as source, its call_id) or what the host read elsewhere.

        `content` is text or a JSON value; text that is JSON is read as such. What stands in the trusted fields counts as
        `host`: an address book is not a web page. A field is a path such as `email`, `contacts/*/email` (`*`: any key or item)
        or `*` for everything.
        """
        value = _parsed(content)
        paths = [field.split("/") for field in trusted_fields]
        trusted: list[str] = []
        rest = _keys(value)
        for pointer, text in _texts(value):
            place = pointer.split("/")[1:]
            (trusted if any(_below(place, path) for path in paths) else rest).append(text)
        for origin, texts in ((HOST, trusted), (f"{RESULT}:{call_id or source}", rest)):
            if texts:
                self._seen.append((source, origin, Words(texts)))
        while len(self._seen) > 1 and sum(len(words.raw) for _, _, words in self._seen) > MAX_SEEN_CHARS:
            del self._seen[0]

    def vouches(self, source: str, content: Any) -> None:
        """The host itself gives these values, such as the number of the account that is signed in."""
        self._vouched.append((source, HOST, Words([text for _, text in _texts(_parsed(content))])))

    def mark(self, arguments: Any) -> tuple[Origin, ...]:
        """One Origin a leaf. Of several places the first that was seen counts, what the host vouches for before all others."""
        search = _Search(turns(self.user_turns), tuple(self._vouched), tuple(self._seen), self._passed_on)
        return tuple(search.mark(pointer, leaf) for pointer, leaf in leaves(arguments))

    def passes_on(self, arguments: Any, marks: Sequence[Origin]) -> None:
        """These arguments, with these marks, go to a tool, which may keep them and give them back as if they were its own.

        So such a value keeps its mark from now on; only the user and the host itself can better it.
        """
        for (_, leaf), mark in zip(leaves(arguments), marks, strict=True):
            if mark.origin in (USER, HOST):
                continue
            for value in (leaf, *(items_of(leaf) if isinstance(leaf, str) else ())):
                self._passed_on.setdefault(Needle(value).key, mark)
        while len(self._passed_on) > MAX_PASSED_ON:
            del self._passed_on[next(iter(self._passed_on))]


class _Search:
    """Looks for the values of one call; of very many only the first ones, or others would wait for it."""

    def __init__(
        self, said: Words, vouched: Sequence[Source], seen: Sequence[Source], passed_on: Mapping[str, Origin]
    ) -> None:  # fmt: skip
        self._said, self._vouched, self._seen, self._passed_on = said, vouched, seen, passed_on
        self._looks = 0

    def mark(self, pointer: str, leaf: Any) -> Origin:
        found = self._whole(leaf) or composed(leaf, self._whole) or Origin(pointer="", origin=MODEL)
        return Origin(pointer=pointer, origin=found.origin, source=found.source, quote=found.quote)

    def _whole(self, value: Any) -> Origin | None:
        """Where the value stands whole."""
        self._looks += 1
        needle = Needle(value)
        if self._looks <= self._said.patience and self._said.hold(needle):
            return Origin(pointer="", origin=USER)
        return self._first(self._vouched, needle) or self._passed_on.get(needle.key) or self._first(self._seen, needle)

    def _first(self, sources: Sequence[Source], needle: Needle) -> Origin | None:
        best: Origin | None = None
        for source, origin, words in sources:
            if (best is not None and origin != HOST) or self._looks > words.patience:
                continue
            quote = words.quote_of(needle)
            if quote is not None:
                best = Origin(pointer="", origin=origin, source=source, quote=quote)
                if origin == HOST:
                    break
        return best


def _parsed(content: Any) -> Any:
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return content
    return content


def _texts(value: Any) -> list[tuple[str, str]]:
    """(pointer, text) of every value."""
    return [
        (pointer, leaf if isinstance(leaf, str) else json.dumps(leaf))
        for pointer, leaf in leaves(value)
        if leaf not in (None, {}, [])
    ]


def _below(place: list[str], path: list[str]) -> bool:
    """Whether a leaf lies at or below a path; `*` alone means the whole result, also one that is a bare value."""
    if path == [EVERYTHING]:
        return True
    return len(place) >= len(path) and all(step in (EVERYTHING, name) for step, name in zip(path, place, strict=False))


def _keys(value: Any) -> list[str]:
    """The keys of all objects: whoever may choose one may put a value there."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            found += [str(name) for name in each]
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
    return found
