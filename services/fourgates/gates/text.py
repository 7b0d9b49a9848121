"""Text as a reader sees it: what is invisible, steers a terminal or turns the reading direction is taken out.

It comes before every redaction: a secret that was split by such characters must become whole again first. Line breaks and tabs
stay, everything visible stays. All of it is linear in the text.
"""

from __future__ import annotations

import re

import regex

_ASCII = bytes(range(0x80))
_STEERING = bytes((*range(0x09), *range(0x0B, 0x20), 0x7F))
_BEYOND_ASCII = re.compile("[\x80-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Zero-width characters and joiners, bidi marks and overrides, tag characters, variation selectors, soft hyphens, fillers,
# noncharacters. The visible Arabic and Syriac signs that Unicode counts among the format characters stay.
_INVISIBLE = regex.compile(
    r"[[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}]--\p{Prepended_Concatenation_Mark}]", regex.V1
)

# Control characters that neither break a line nor belong to an escape sequence go first, so that they cannot split a sequence.
_CONTROL = re.compile(r"[\x00-\x06\x08\x0e-\x1a\x1f\x7f\x80-\x84\x86-\x9f]")
_ANSI = re.compile(
    r"""
    \x1b\[ [0-?]* [\x20-/]* [@-~]                     # CSI: colours, cursor
    | \x1b[\]PX^_] [^\x07\x1b\n]* (?:\x07|\x1b\\)     # OSC, DCS, SOS, PM, APC: titles, links
    | \x1b [\x20-/]+ [0-~]                            # character sets
    """,
    re.VERBOSE,
)
# Of a two-character sequence only the escape goes: it would be one more way to take a character out of a secret.
_REST = re.compile(r"[\x07\x1b]")

# Return, vertical tab, form feed, separators, NEL, LS and PS break a line, but not inside a word: there they only split a secret.
_BREAKS = re.compile("[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]+(\n?)")
_OF_A_WORD = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_+/=.~:@-")


def clean(text: str) -> str:
    """`text` without invisible and control characters; `\\n` is its only line break. Applying it twice changes nothing more.

    Emoji that are joined from several fall apart into those, and a lone surrogate, which no encoding can carry, is dropped.
    """
    if text.isascii() and text.isprintable():
        return text
    data = text.encode("utf-8", "surrogatepass")
    steered = len(data.translate(None, _STEERING)) != len(data)  # several times quicker than any search for one of them
    if not steered and text.isascii():
        return text
    beyond = data.translate(None, _ASCII).decode("utf-8", "surrogatepass")  # the few characters that have to be looked at
    if _SURROGATE.search(beyond):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        beyond = text
    if _INVISIBLE.search(beyond):
        text = _INVISIBLE.sub("", text)
    if not steered and not _BEYOND_ASCII.search(beyond):
        return text
    text = _CONTROL.sub("", text)
    text = _REST.sub("", _ANSI.sub("", text))
    return _BREAKS.sub(_line_break, text)


def _line_break(found: re.Match[str]) -> str:
    text, start, end = found.string, found.start(), found.end()
    if found[1]:
        return "\n"
    inside = start > 0 and end < len(text) and text[start - 1] in _OF_A_WORD and text[end] in _OF_A_WORD
    return "" if inside else "\n"
