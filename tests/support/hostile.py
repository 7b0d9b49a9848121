"""Texts of one size that make a JSON reader work hard: each a shape that some reader is slow, deep or wasteful at."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

FULL = 262_144
"""Bytes that the strict reader looks at, at most."""

_REPEATED = {
    "escaped_quotes": ('"', '\\"', ""),
    "open_brackets": ("", "[", ""),
    "open_strings": ("", '["', ""),
    "flat_numbers": ("[0", ",0", "]"),
    "flat_objects": ("[{}", ",{}", "]"),
    "flat_arrays": ("[[]", ",[]", "]"),
    "values_side_by_side": ("", "[]", ""),
    "long_integer": ("[", "1", "]"),
    "long_fraction": ("[0.", "1", "]"),
    "long_exponent": ("[1e", "1", "]"),
    "large_integers": ("[9007199254740992", ",9007199254740992", "]"),
    "floats": ("[0.1", ",0.1e5", "]"),
    "not_finite": ("[NaN", ",NaN", "]"),
    "fault_at_the_end": ("[[0]", ",[0]", ",NaN]"),
    "fault_below_objects": ("[", '{"a":[0]},', "NaN]"),
    "one_key": ('{"a":0', ',"a":0', "}"),
    "objects_with_one_key_twice": ('[{"a":0,"a":0}', ',{"a":0,"a":0}', "]"),
    "as_deep_as_allowed": ("[" * 31 + "0", ",0", "]" * 31),
    "deep_side_by_side": ("[", '{"a":{"b":{"c":[[[{}]]]}}},', "0]"),
    "brackets_in_strings": ("[", '"\\"[",', "0]"),
    "white_space": ("[", "\n ", "0]"),
    "text_after": ("{}", "x", ""),
    "escapes": ('["', "\\u0041", '"]'),
    "pairs": ('["', "\\ud83d\\ude00", '"]'),
    "half_a_pair_at_the_end": ('["', "\\ud83d\\ude00", '\\ud800"]'),
    "strings_of_pairs": ('["\\ud83d\\ude00"', ',"\\ud83d\\ude00"', "]"),
    "empty_strings": ('[""', ',""', "]"),
    "four_byte_characters": ('["', "\U0001f600", '"]'),
    "backslashes": ('"', "\\\\", '"'),
}


def hostile_texts(size: int = FULL) -> dict[str, str]:
    """Each at most `size` bytes in UTF-8, and nearly as many."""
    texts = {}
    for name, (head, unit, tail) in _REPEATED.items():
        texts[name] = head + unit * ((size - len((head + tail).encode())) // len(unit.encode())) + tail
    keys = ",".join(f'"k{number:06}":0' for number in range(size // 13))
    texts["different_keys"] = f"{{{keys}}}"
    texts["different_keys_and_one_again"] = f'{{{keys},"k000000":0}}'
    return texts


def slowest(read: Callable[[str], Any]) -> tuple[str, float]:
    """(name of the text, seconds): CPU time of this thread, the best of some tries, so that a busy machine tells the same."""
    texts = hostile_texts()
    once = sorted(texts, key=lambda name: _best(read, texts[name], 1))
    return max(((name, _best(read, texts[name], 9)) for name in once[-6:]), key=lambda pair: pair[1])


def _best(read: Callable[[str], Any], text: str, tries: int) -> float:
    def once() -> float:
        begun = time.thread_time()
        read(text)
        return time.thread_time() - begun

    return min(once() for _ in range(tries))


def mutated(corpus: list[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Texts of the corpus with bytes changed, cut, repeated or moved between them; the same for the same seed."""
    chance = random.Random(seed)
    tokens = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\\ud800", b"\xed\xa0\x80", b"e9", b"NaN", b"-", b"\xff", b"\x00"]
    for _ in range(count):
        data = bytearray(chance.choice(corpus))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(5):
                case 0:
                    data[at:at] = chance.choice(tokens)
                case 1:
                    del data[at : at + chance.randint(1, 8)]
                case 2 if at < len(data):
                    data[at] ^= 1 << chance.randrange(8)
                case 3:
                    other = chance.choice(corpus)
                    start = chance.randrange(len(other) + 1)
                    data[at:at] = other[start : start + chance.randint(1, 64)]
                case _:
                    data[at:at] = bytes(data[at : at + 16]) * chance.randint(1, 8)
        yield bytes(data)
