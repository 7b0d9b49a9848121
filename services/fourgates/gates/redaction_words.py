"""Whether a value is made of words, as people make passwords and placeholders, or is dense, as machines make keys."""

from __future__ import annotations

import re
from itertools import pairwise

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_LETTERS_A_PART = 3
"""A key changes between letters, digits and capitals after one or two characters."""
_PAIRS_AN_ODD_ONE = 8
"""Where two words meet, letters may follow each other that do not within one."""
_FOLLOWS = {
    "a": "abcdefghijklmnprstuvwxyz", "b": "abeilorsuy", "c": "acehiklorstuy", "d": "adeghilmnorsuwy",
    "e": "abcdefghiklmnopqrstuvwxyz", "f": "aefilortu", "g": "aeghilnorstuy", "h": "aehilmnorstuy", "i": "abcdefgklmnopqrstuvxz",
    "j": "aeiou", "k": "aehilnorsuy", "l": "abcdefgiklmopstuvy", "m": "abceimopsuy", "n": "abcdefghijklmnorstuvwyz",
    "o": "abcdefghiklmnoprstuvwxyz", "p": "aehiloprstuy", "q": "u", "r": "abcdefghiklmnoprstuvwy", "s": "abcehiklmnopqstuwy",
    "t": "acehilmorstuwyz", "u": "abcdefgiklmnoprst", "v": "aeio", "w": "aehilnors", "x": "eipt", "y": "acdeilmnoprst",
    "z": "aeioz",
}  # fmt: skip
"""The letters that follow each letter in English words and in names: all pairs but the rarest, which are two in a hundred. Of
random pairs half are among them, so a random run of letters does not pass for long."""


def is_worded(value: str) -> bool:
    """Words, names and a number at most: `summer2024`, `anna.lund.pass`, `my_access_token_17`."""
    parts = _PART.findall(value)
    words = [part.lower() for part in parts if not part.isdigit()]
    size, letters = sum(map(len, parts)), sum(map(len, words))
    if not words or size < _LETTERS_A_PART * len(parts) or 2 * letters < size:
        return False
    pairs = [(first, second) for word in words for first, second in pairwise(word)]
    odd = sum(second not in _FOLLOWS[first] for first, second in pairs)
    return odd * _PAIRS_AN_ODD_ONE <= len(pairs)
