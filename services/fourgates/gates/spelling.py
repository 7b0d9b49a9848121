"""How a value may be spelt in running text: whole tokens after normalisation, numbers and dates in their common forms.

Nothing here converts units: $25 never says 2500.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal

import regex

BREAK = "\x00"
"""Stands between texts that are searched together, so that no value is found across them."""

# Inside a token these join what stands on both sides: the domain of an address, a file in a path, a part of an identifier.
_JOINERS = frozenset(".@-/\\+&#~%")
_DIGIT_JOINERS = frozenset(",:'")
_PLAINER = str.maketrans({"‐": "-", "‑": "-", "−": "-", "’": "'", "⁄": "/"})
_INVISIBLE = regex.compile(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]")
# Written without spaces, so the neighbours of a word say nothing about where it ends.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Bopomofo}]")
_QUOTES = "\"'`<>“”„«» "


def folded(text: str) -> str:
    """NFKC, casefold, invisible characters out, every run of whitespace one space."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
        text = unicodedata.normalize("NFKC", text.casefold()).translate(_PLAINER)
    return _spaced(text.casefold())


def exact(text: str) -> str:
    """The same letters in the same case; only whitespace is made one, and accents are composed."""
    return _spaced(text if text.isascii() else unicodedata.normalize("NFC", text))


def _spaced(text: str) -> str:
    return BREAK.join(" ".join(part.split()) for part in text.split(BREAK))


def bare(value: str) -> str:
    """A normalised value without the marks that a text puts round it: `#W12` is found as `W12`, `"Ann"` as `Ann`."""
    return value.strip(_QUOTES).lstrip("#").rstrip(".,;!?") or value


def disguised(value: str) -> bool:
    """Whether normalisation alone would make this value look like another: invisible characters, compatibility forms."""
    if value.isascii():
        return False
    return unicodedata.normalize("NFKC", value) != unicodedata.normalize("NFC", value) or bool(_INVISIBLE.search(value))


_LOOKS = 10_000
_RUN_CHARS = 16
"""Bounds against text that was made to be slow; beyond them a value counts as not standing there."""


def find_whole(text: str, value: str) -> int:
    """Where `value` stands in `text` as a whole token, or -1. Both are already normalised the same way."""
    at = text.find(value) if value else -1
    for _ in range(_LOOKS):
        if at < 0 or stands_whole(text, at, len(value)):
            return at
        at = text.find(value, at + 1)
    return -1


def stands_whole(text: str, at: int, length: int) -> bool:
    """Whether what stands there is no part of a longer token."""
    return _begins_here(text, at) and _ends_here(text, at + length - 1, 1)


def _begins_here(text: str, at: int) -> bool:
    """Whether a token begins at `at`. `~/a`, `./a` do not name `/a`, nor does `/a` name `a`."""
    before = text[at - 1] if at else ""
    if before == "/" or (text[at] == "/" and before in _JOINERS):
        return False
    return _ends_here(text, at, -1)


def _ends_here(text: str, edge: int, step: int) -> bool:
    """Whether the token that has its edge at `edge` goes no further in direction `step`."""
    at = edge + step
    if not 0 <= at < len(text):
        return True
    first = text[at]
    if _in_word(first):
        return bool(_UNSPACED.match(first) or _UNSPACED.match(text[edge]))
    if first in _DIGIT_JOINERS:
        beyond = edge + 2 * step
        return not (text[edge].isdigit() and 0 <= beyond < len(text) and text[beyond].isdigit())
    for _ in range(_RUN_CHARS):
        if not 0 <= at < len(text) or text[at] not in _JOINERS:
            return not (at != edge + step and 0 <= at < len(text) and _in_word(text[at]))
        at += step
    return False


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


_RUN = re.compile(r"\d(?:[\d.,']| (?=\d{3}(?!\d)))*(?<=\d)")
_PLAIN = re.compile(r"(?:0|[1-9]\d*)(?:\.\d+)?")
_GROUPED = re.compile(r"[1-9]\d{0,2}(?P<sep>[, '])\d{3}(?:(?P=sep)\d{3})*(?:\.\d+)?")
_GROUPED_COMMA = re.compile(r"[1-9]\d{0,2}(?P<sep>[. '])\d{3}(?:(?P=sep)\d{3})*(?:,\d+)?")
_COMMA = re.compile(r"(?:0|[1-9]\d*),\d+")
_LIST = re.compile(r"\d+(?:,\d+){2,}")


def numbers_in(text: str) -> Iterator[tuple[Decimal, int]]:
    """The numbers that a folded text names, each with its place. `1,000.50`, `1.000,50`, `1 000`, `1000.5`; not `W12`, `1/2`."""
    for run in _RUN.finditer(text):
        start, end = run.span()
        if not (_ends_here(text, start, -1) and _ends_here(text, end - 1, 1)):
            continue
        before = text[start - 1 : start]
        written = f"0.{run[0]}" if before == "." else run[0]
        for reading in _readings(written):
            yield (-reading if before == "-" else reading), start


def _readings(run: str) -> set[Decimal]:
    found = set()
    if _PLAIN.fullmatch(run):
        found.add(Decimal(run))
    if _GROUPED.fullmatch(run):
        found.add(Decimal(re.sub("[, ']", "", run)))
    elif _COMMA.fullmatch(run):
        found.add(Decimal(run.replace(",", ".")))
    if _GROUPED_COMMA.fullmatch(run):
        found.add(Decimal(re.sub("[. ']", "", run).replace(",", ".")))
    if not found and _LIST.fullmatch(run):
        found.update(Decimal(part) for part in run.split(",") if _PLAIN.fullmatch(part))
    if not found and " " in run:
        found.update(reading for part in run.split() for reading in _readings(part))
    return found


def number_of(value: object) -> Decimal | None:
    """A JSON number, or a text that is nothing but a plain one. Never a boolean."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return Decimal(str(value))
    text = value.removeprefix("-") if isinstance(value, str) else ""
    return Decimal(str(value)) if len(text) <= 40 and text.isascii() and _PLAIN.fullmatch(text) else None


_MONTHS = {
    name: number
    for number, names in enumerate(
        ("january jan", "february feb", "march mar", "april apr", "may", "june jun", "july jul", "august aug",
         "september sep sept", "october oct", "november nov", "december dec"), 1)
    for name in names.split()
}  # fmt: skip
_NAME = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATES = (
    re.compile(r"(?<!\w)(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?!\d)"),
    re.compile(r"(?<!\w)(?P<d>\d{1,2})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<y>\d{4})(?!\w)"),
    re.compile(r"(?<!\w)(?P<m>\d{1,2})(?P<s>[-/])(?P<d>\d{1,2})(?P=s)(?P<y>\d{4})(?!\w)"),
    re.compile(rf"(?<!\w)(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -](?P<m>{_NAME})\.?,?[ -](?P<y>\d{{4}})(?!\w)"),
    re.compile(rf"(?<!\w)(?P<m>{_NAME})\.? (?P<d>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<y>\d{{4}})(?!\w)"),
)
_TIMES = (
    re.compile(r"(?<![\w:])(?P<h>\d{1,2})(?::(?P<m>\d{2})(?::00)?)? ?(?P<half>[ap])\.?m\b"),
    re.compile(r"(?<![\d:])(?P<h>\d{1,2}):(?P<m>\d{2})(?::00)?(?![\w:])(?! ?[ap]\.?m\b)"),
)
_DIGIT = re.compile(r"\d")
_STAMP = re.compile(r"(?P<date>\d{4}-\d{2}-\d{2})(?:[t ](?P<time>\d{2}:\d{2}(?::00)?))?")


def dates_in(text: str) -> Iterator[tuple[date, int]]:
    """The days that a folded text names with their year, in every reading: 05/12/2024 may be in May or in December."""
    for pattern in _DATES:
        for found in pattern.finditer(text):
            month = _MONTHS.get(found["m"]) or int(found["m"])
            try:
                yield date(int(found["y"]), month, int(found["d"])), found.start()
            except ValueError:
                continue


def times_in(text: str) -> Iterator[time]:
    """The times of day that a folded text names: `14:30`, `2:30 pm`, `2pm`."""
    for pattern in _TIMES:
        for found in pattern.finditer(text):
            hour, half = int(found["h"]), found.groupdict().get("half")
            if half and not 1 <= hour <= 12:
                continue
            hour = hour % 12 + (12 if half == "p" else 0) if half else hour
            minute = int(found["m"] or 0)
            if hour < 24 and minute < 60:
                yield time(hour, minute)


@dataclass(frozen=True, slots=True)
class Moment:
    """A value that is a day, a time of day, or both; every reading of it."""

    days: frozenset[date]
    times: frozenset[time]


def moment_of(value: str) -> Moment | None:
    """What a text means that is nothing but a date, a time, or an ISO date with a time in whole minutes."""
    flat = folded(value) if len(value) <= 60 else ""
    if not 0 < len(flat) <= 30 or not _DIGIT.search(flat):
        return None
    if stamp := _STAMP.fullmatch(flat):
        days, times = frozenset(day for day, _ in dates_in(stamp["date"])), frozenset(times_in(stamp["time"] or ""))
        return Moment(days, times) if days and bool(times) == bool(stamp["time"]) else None
    if any(pattern.fullmatch(flat) for pattern in _DATES):
        days = frozenset(day for day, _ in dates_in(flat))
        return Moment(days, frozenset()) if days else None
    clock = frozenset(times_in(flat)) if any(pattern.fullmatch(flat) for pattern in _TIMES) else frozenset()
    return Moment(frozenset(), clock) if clock else None


def stamp_of(value: str) -> tuple[str, str] | None:
    """The day and the time of day of a timestamp such as `2024-05-12 14:30`."""
    found = _STAMP.fullmatch(folded(value)) if len(value) <= 30 and value[:1].isdigit() else None
    return (found["date"], found["time"]) if found and found["time"] else None
