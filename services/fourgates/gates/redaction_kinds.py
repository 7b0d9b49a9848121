"""What is looked for, how one thing to look for is described, and which of the matches count."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourgates.gates.redaction_names import entropy

SECRETS = ("private_key", "connection", "authorization", "cookie", "jwt", "api_key", "secret")
"""Redacted for every tool."""
CHOSEN = ("card", "iban", "email", "phone", "password")
"""Redacted where a tool's contract names them: personal data, and with `password` also passwords made of words, wherever they
stand. Without it these go where a value has its place (a member, a setting, a header), and what stands in running text stays."""

Span: TypeAlias = tuple[int, int]
Find: TypeAlias = Callable[[Any], Iterator[Span]]


def last_group(found: Any) -> Iterator[Span]:
    """The last group that took part; the whole match where there are no groups."""
    yield found.span(found.last)


def only_if(holds: Callable[[str], bool]) -> Find:
    """As `last_group`, where it is what `holds` says."""

    def find(found: Any) -> Iterator[Span]:
        if holds(found.group(found.last)):
            yield found.span(found.last)

    return find


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing that is looked for. Hint and form are RE2: linear in the text whoever wrote it."""

    kind: str
    hint: str
    """A form that every match contains; one set of all hints is tried first."""
    exact: str
    sample: tuple[str, str, str, str]
    """A text in which it must be found: what stands before it, its two halves, what stands after it."""
    find: Find = last_group
    """Where inside a match the secret stands; nothing where it turns out not to be one."""

    @property
    def tells_letters_apart(self) -> bool:
        """Whether the form speaks of characters beyond ASCII."""
        return r"\p" in self.exact or r"\x{" in self.exact


def filler(characters: str, size: int) -> str:
    """So many of these characters, as a key could have them; put together when needed, so that no sample lies here whole."""
    allowed = re.compile(f"[{characters}]")
    wheel = [c for c in "4fA7bQ9cZ2dK8eM3aR5" if allowed.match(c)]
    return "".join(wheel[i % len(wheel)] for i in range(size))


def is_a_key(value: str) -> bool:
    """Digits in it, and dense."""
    return any(c.isdigit() for c in value) and entropy(value) >= 2.5


def is_mixed(value: str) -> bool:
    """Digits, small letters and capitals, and denser still."""
    return any(c.isdigit() for c in value) and value not in (value.lower(), value.upper()) and entropy(value) >= 3.5
