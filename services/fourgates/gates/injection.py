"""Phrases in a result that speak to a model rather than to a reader: counted for the audit, and never trusted as a control.

What stops an injected instruction is where a value came from (`gates/origins.py`), not how the text sounds: whoever writes a
text can always find words that no list has. So nothing is held, cut or hidden because of a phrase.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import re2

from fourgates.gates.redaction_encoded import plain_base64, unquoted
from fourgates.gates.text import clean

_IGNORE = r"(?:ignor\w*|disregard\w*|forget|override|vergiss|vergessen|olvida|oubli\w*|dimentica)"
_RULES = (
    r"(?:instruc\w*|instruct\w*|istruzion\w*|anweisung\w*|rules|guideline\w*|richtlinie\w*|regeln|directive\w*|prompts?|"
    r"polic(?:y|ies)|consignes|reglas)"
)
_OWN_PROMPT = (
    r"(?:system[ -]?prompt|prompt (?:de|del|di|du) sist\w*|prompt syst\w*|systemanweisung\w*|hidden prompt|initial instructions)"
)
_SIGNALS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("override", (
        rf"{_IGNORE}\b[^.\n]{{0,60}}\b{_RULES}",
        rf"{_IGNORE} (?:all |everything )?(?:of )?(?:the )?(?:above|prior|previous)\b",
        rf"\b(?:new|neue|nuove|nuevas|nouvelles|your new) {_RULES}\b",
        r"\b(?:safety|content|security) (?:protocols?|checks?|filters?|rules?|policy)\b[^.\n]{0,40}"
        r"\b(?:disabled|off|skip\w*|ignore\w*)",
        r"\bskip all (?:safety|security)\b",
        r"\bvergiss alles\b|\bforget everything\b",
    )),
    ("persona", (
        r"\byou are (?:now|no longer)\b[^.\n]{0,60}\b(?:mode|dan|unrestricted|no (?:rules|content|restrictions)|assistant|bot)",
        r"\b(?:developer|debug|god|jailbreak|unrestricted) mode\b|\bmodo desarrollador\b",
        r"\b(?:no|without|ohne|sin|sans|senza) (?:any )?(?:content )?"
        r"(?:restrictions?|filters?|limits?|einschr\w+|restricciones|restrizioni|filtro)\b",
        r"\b(?:uncensored|unrestricted|uneingeschr\w+)\b",
        r"\bno (?:content policy|rules|filters)\b",
    )),
    ("addressed", (
        r"\b(?:ai|llm)[ -](?:assistants?|agents?|systems?|models?|coding agents?)\b",
        r"\bnotes? (?:to|for) (?:the |any |all )?(?:bots?|ai|assistants?|agents?|models?|llms?)\b",
        r"\b(?:important|attention|message)[^.\n]{0,20}\b(?:for|to) (?:the |you,? the )?(?:assistant|ai|model|agent)\b",
        r"\bas (?:the|an) assistant,? i(?:'ve| have)\b|\breasoning(?: trace)? \(assistant\)",
        r"\bimportant message from\b",
    )),
    ("delimiter", (
        r"<\|?(?:im_start|im_end|system|endoftext)\|?>|\[/?inst\]|<</?sys>>|</?(?:information|thinking)>",
        r"(?:^|\n)[ \t#*=\-\[]*(?:system|assistant)(?: (?:note|update|message|notice))?\]?[ \t]*:",
        r"\bend of (?:user input|document|context|instructions)\b",
        r"\b(?:system note|systemhinweis|note syst\w+|nota del? sistema|nota di sistema)\b",
    )),
    ("exfiltration", (
        rf"\b(?:reveal|show|print|output|repeat|tell|leak|dump|muestra|mostra|zeig\w*|verrat\w*|rivela|revela|r\w*v\w+le)\b"
        rf"[^.\n]{{0,60}}{_OWN_PROMPT}",
        r"\b(?:email|send|forward|post|upload|leak)\b[^.\n]{0,60}\b(?:api keys?|credentials|passwords?|customer list|"
        r"customer (?:data|emails))\b",
        r"\b(?:word for word|verbatim|wortw\w+|palabra por palabra|parola per parola|mot pour mot)\b",
        r"\binstructions you were given\b|\bcontext window\b",
    )),
    ("tool_order", (
        r"\b(?:call|use|invoke|run|execute)\b [a-z]+_[a-z_]+\b(?: (?:on|to|with|tool)\b)?",
        r"\b(?:when|whenever|before|after) you (?:read|process|summari\w+|answer|reply|see)\b",
        r"\bin (?:your|every) (?:future )?(?:summary|reply|report|response|answer)\b|\bend of your (?:reply|review|response)\b",
        r"\blong-term memory\b|\b(?:future|every) (?:tasks?|reply|report)\b",
        r"\bdecode (?:this|the|it)\b[^.\n]{0,60}\b(?:follow|do|execute)\b|\bexecute it as a command\b",
    )),
)  # fmt: skip
SIGNALS = (*(name for name, _ in _SIGNALS), "hidden", "encoded")
"""All that may be said of a result: what kinds of phrase it holds, `hidden` for invisible writing, `encoded` for a phrase that
shows only once base64, hexadecimal or percent encoding is undone."""

_TAGS = re.compile("[\U000e0020-\U000e007e]{4,}")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}){12,}(?![0-9A-Fa-f])")
_ENCODED = re2.compile(r"[0-9A-Za-z+/_-]{16}|%[0-9A-Fa-f]{2}")
_TOO_LONG = 1 << 20
"""Characters that are looked at; what stands beyond is not counted."""


def signals(text: str) -> tuple[str, ...]:
    """Which signals a text gives, in the order of SIGNALS. As it came, before it is cleaned: hidden writing is one of them."""
    text = text[:_TOO_LONG]
    found = _phrases(clean(text))
    hidden = [] if text.isascii() else ["".join(chr(ord(c) - 0xE0000) for c in run[0]) for run in _TAGS.finditer(text)]
    if hidden:
        found |= {"hidden"}
    for plain in (*hidden, *_decoded(text)):
        if inner := _phrases(clean(plain)):
            found |= inner | {"encoded"}
    return tuple(name for name in SIGNALS if name in found)


def _phrases(text: str) -> set[str]:
    forms, names = _forms()
    return {names[index] for index in forms.Match(text) or ()}


def _decoded(text: str) -> Iterator[str]:
    if not _ENCODED.search(text):
        return
    yield from (plain for _, _, plain in plain_base64(text))
    yield from (view.text for view in unquoted(text))
    for run in _HEX.finditer(text):
        try:
            yield binascii.unhexlify(run[0]).decode()
        except ValueError:
            continue


@lru_cache(maxsize=1)
def _forms() -> tuple[Any, list[str]]:
    """One set of all phrases, and the signal of each."""
    options = re2.Options()
    options.max_mem = 64 << 20
    options.log_errors = False
    forms, names = re2.Set.SearchSet(options), []
    for name, phrases in _SIGNALS:
        for phrase in phrases:
            forms.Add(f"(?i){phrase}")
            names.append(name)
    forms.Compile()
    return forms, names
