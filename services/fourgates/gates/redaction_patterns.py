"""What is looked for in text, kind by kind: a cheap hint for the prefilter, the exact form, and a sample that must be found.

All forms are RE2: linear in the text whoever wrote it. Samples are put together when they are needed; none lies here whole.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourgates.gates import redaction_personal as personal
from fourgates.gates.redaction_keys import PREFIXED
from fourgates.gates.redaction_names import (
    CERTAIN,
    ENDING,
    LIKELY,
    VAGUE,
    VAGUE_LEAST,
    entropy,
    is_harmless,
    is_ordinary,
    looks_secret,
)

SECRETS = ("private_key", "connection", "authorization", "cookie", "jwt", "api_key", "secret")
"""Redacted for every tool."""
PERSONAL = ("card", "iban", "email", "phone")
"""Redacted where a tool's contract names them."""

Span: TypeAlias = tuple[int, int]
Find: TypeAlias = Callable[[Any], Iterator[Span]]


def _last_group(found: Any) -> Iterator[Span]:
    """The last group that took part; the whole match where there are no groups."""
    yield found.span(found.lastindex or 0)


def _if(holds: Callable[[str], bool]) -> Find:
    def find(found: Any) -> Iterator[Span]:
        start, end = found.span(found.lastindex or 0)
        if holds(found.group(found.lastindex or 0)):
            yield start, end

    return find


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing that is looked for."""

    kind: str
    hint: str
    """A form that every match contains; one set of all hints is tried first."""
    exact: str
    sample: tuple[str, str, str, str]
    """A text in which it must be found: what stands before it, its two halves, what stands after it."""
    find: Find = _last_group
    """Where inside a match the secret stands; nothing where it turns out not to be one."""


def _prefixed() -> Iterator[Pattern]:
    for beginnings, characters, least in PREFIXED:
        one_of = "|".join(re.escape(word) for word in beginnings.split())
        # RE2 allows no repetition beyond 1000 and pays for long ones, so a hint stops at eight.
        yield Pattern(
            kind="api_key",
            hint=f"(?:{one_of})[{characters}]{{{min(least, 8)}}}",
            exact=f"(?:{one_of})[{characters}]{{{least},}}",
            sample=("id ", beginnings.split()[0], _filler(characters, least), ""),
        )


def _filler(characters: str, size: int) -> str:
    allowed = re.compile(f"[{characters}]")
    wheel = [c for c in "4fA7bQ9cZ2dK8eM3aR5" if allowed.match(c)]
    return "".join(wheel[i % len(wheel)] for i in range(size))


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_a_key(value: str) -> bool:
    return any(c.isdigit() for c in value) and entropy(value) >= 2.5


def _certain(found: Any) -> Iterator[Span]:
    start, end = _inside_quotes(found)
    value = found.string[start:end]
    if value and not is_harmless(value) and value.lower() != found.group(1).lower():
        yield start, end


def _whole_line(found: Any) -> Iterator[Span]:
    """A passphrase may hold spaces; a type or a template in its place is none."""
    line = found.group(2).strip()
    if not is_harmless(line) and not is_harmless(line.split()[0].rstrip(",;")):
        yield found.span(2)


def _likely(found: Any) -> Iterator[Span]:
    start, end = _inside_quotes(found)
    least = VAGUE_LEAST if _IS_VAGUE.search(found.group(1)) else 8
    value = found.string[start:end]
    if len(value) >= least and looks_secret(value) and not is_harmless(value) and not is_ordinary(found.group(1)):
        yield start, end


def _inside_quotes(found: Any) -> Span:
    """The value without its quotes, which stay, so that what was JSON or a config file still is one."""
    start, end = found.span(2)
    value = found.group(2)
    opening = re.match(r"\\*[\"'`]", value)
    if opening:
        start += opening.end()
        if (closing := re.search(r"\\*[\"'`]$", value)) and closing.start() >= opening.end():
            end -= len(closing[0])
    return start, end


_IS_VAGUE = re.compile(rf"(?:{VAGUE})$", re.I)
_QUOTE = r"\\*[\"'`]?"
_IS = r"[ \t]*(?::=|=>|==?|:)[ \t]*"
_VALUE = (
    r"(\\*\"(?:[^\"\\\n]|\\[^\"\n])*\\*\"?|\\*'(?:[^'\\\n]|\\[^'\n])*\\*'?|`[^`\n]*`?"
    r"|\$?\{[^{}\n]*\}|\{\{[^{}\n]*\}\}|[^\s\"'`,;&<>]+)"
)
_PHRASE = r"pass(?:[_ ]?(?:word|wd|phrase|code))|pwd"
_B64_LINES = r"(?:[0-9A-Za-z+/=:, \t\-]|\\[nr]|\n)*"
_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_KEY_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_DATABASES = (
    r"postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|oracle|clickhouse|cassandra|neo4j|bolt|"
    r"cockroachdb|snowflake"
)
_AUTHORIZATION = r"(?i)(?:proxy-)?authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?"
_SCHEMES = r"basic|bearer|digest|token|negotiate|ntlm|apikey|api-key|hawk|sharedkey|aws4-hmac-sha256"
_SAYS_SECRET = rf"(?i)(?:{CERTAIN})"
_SAYS_PASSWORD = r"(?i)pass(?:word|code|phrase)"  # noqa: S105 - a form, not a password
_PAIR = r"[A-Za-z][A-Za-z0-9 _]{1,40}=[^;\"'\n]*"

PATTERNS: tuple[Pattern, ...] = (
    Pattern("private_key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY", rf"{_KEY_BEGIN}(?:(?s:.)*?{_KEY_END}|{_B64_LINES})",
            ("", "-----BEGIN PRIV", "ATE KEY-----\nMIIEvQ4fA7bQ9c\n-----END PRIVATE KEY-----", "\n")),
    Pattern("private_key", r"Private-Lines:", r"Private-Lines: [0-9]+\n(?:[0-9A-Za-z+/=]+\n?)+",
            ("", "Private-Lines: 1\n", "MIIEvQ4fA7bQ9c==\n", "")),
    Pattern("connection", rf"(?i)(?:{_DATABASES})[a-z0-9+]*://", rf"(?i)(?:jdbc:)?(?:{_DATABASES})[a-z0-9+]*://[^\s\"'<>`]+",
            ("at ", "postgres", "://shop:4fA7bQ9c@db.example/shop", " .")),
    Pattern("connection", r"(?i)jdbc:[a-z]", r"(?i)jdbc:[a-z][a-z0-9]*:[^\s\"'<>`]+",
            ("at ", "jdbc:", "oracle:thin:shop/4fA7bQ9c@db.example", " .")),
    Pattern("connection", r"://[^\s/\"'<>@:]*:[^\s/\"'<>]+@", r"(?i)[a-z][a-z0-9+.\-]*://[^\s/\"'<>@:`]*:[^\s/\"'<>`]+@[^\s\"'<>`]+",
            ("at ", "https://", "shop:4fA7bQ9c@api.example/v1", " .")),
    Pattern("connection", r"(?i)(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=",
            rf"(?i)(?:{_PAIR};\s*)+(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=[^;\"'\n]+(?:;\s*{_PAIR})*;?",
            ("", "Server=db.example;", "User Id=shop;Password=4fA7bQ9c", "")),
    Pattern("authorization", r"(?i)authorization",
            rf"{_AUTHORIZATION}((?:{_SCHEMES})[ \t]+[^\n\"'\\]+)",
            ("Authorization: ", "Token ", "4fA7bQ9cZ2dK8eM3", "\n")),
    Pattern("authorization", r"(?i)authorization", rf"{_AUTHORIZATION}([^\s\"'\\]{{8,}})",
            ("Authorization: ", "4fA7bQ9c", "Z2dK8eM3", "\n"), _if(looks_secret)),
    Pattern("authorization", r"(?i)bearer[ \t]", r"(?i)bearer[ \t]+([0-9A-Za-z._~+/=\-]{8,})",
            ("bearer ", "4fA7bQ9c", "Z2dK8eM3", " "), _if(_is_a_key)),
    Pattern("authorization", r"(?i)basic[ \t]", r"(?i)basic[ \t]+([0-9A-Za-z+/=]{8,})",
            ("basic ", "c2hvcDo0", "ZkE3YlE5Yw==", " "), _if(_is_basic)),
    Pattern("cookie", r"(?i)cookie", r"(?i)(?:set-)?cookies?2?\\*[\"']?[ \t]*:[ \t]*\\*[\"']?([^\s=;\"'\\]+=[^\n\"'\\]*)",
            ("Set-Cookie: ", "sid=4fA7bQ9c; ", "Path=/", "\n")),
    Pattern("cookie", r"(?i)cookie", r"(?i)--cookie(?:=|[ \t]+)[\"']?([^\s=;\"']+=[^\n\"']*)",
            ("curl --cookie '", "sid=", "4fA7bQ9c", "' x")),
    Pattern("jwt", r"eyJ[0-9A-Za-z_\-]{8}", r"eyJ[0-9A-Za-z_\-]{8,}(?:\.[0-9A-Za-z_\-]*){1,4}",
            ("t ", "eyJhbGciOiJ4", "In0.eyJzdWIiOiJ4In0.4fA7bQ9cZ2dK8eM3", " ")),
    *_prefixed(),
    Pattern("api_key", r"sk-[0-9A-Za-z]{20}", r"\bsk-[0-9A-Za-z]{20,}", ("k ", "sk-", "4fA7bQ9cZ2dK8eM3aR5t", " ")),
    Pattern("api_key", r"sk-[0-9A-Za-z_\-]{20}", r"sk-([0-9A-Za-z_\-]{20,})",
            ("k ", "sk-", "4fA7bQ9cZ2_dK8eM3aR5t", " "), _if(lambda v: _is_a_key(v) and v != v.lower())),
    Pattern("api_key", r"SG\.[0-9A-Za-z_\-]{16}", r"SG\.[0-9A-Za-z_\-]{16,}\.[0-9A-Za-z_\-]{16,}",
            ("k ", "SG.4fA7bQ9cZ2dK8eM3a", ".4fA7bQ9cZ2dK8eM3a", " ")),
    Pattern("api_key", r"[0-9]{8}:AA", r"[0-9]{8,10}:AA[0-9A-Za-z_\-]{32,}",
            ("k ", "123456789:AA", _filler("0-9A-Za-z", 33), " ")),
    Pattern("api_key", r"\bkey-[0-9a-f]{32}", r"\bkey-[0-9a-f]{32}", ("k ", "key-", _filler("0-9a-f", 32), " ")),
    Pattern("api_key", r"[0-9a-f]{8}-us[0-9]", r"[0-9a-f]{32}-us[0-9]{1,2}", ("k ", _filler("0-9a-f", 32), "-us12", " ")),
    Pattern("api_key", r"\bSK[0-9a-fA-F]{32}", r"\bSK[0-9a-fA-F]{32}", ("k ", "SK", _filler("0-9a-f", 32), " ")),
    Pattern("api_key", r"[0-9]Q~", r"[0-9A-Za-z_~.]{3}[0-9]Q~[0-9A-Za-z_~.\-]{31,34}",
            ("k ", "4fA7Q~", _filler("0-9A-Za-z", 32), " ")),
    Pattern("api_key", r"[?&]sig=", r"[?&]sig=([0-9A-Za-z%+/=\-]{20,})", ("u?sig=", "4fA7bQ9c", "Z2dK8eM3aR5t%2B", " ")),
    Pattern("api_key", r"pat[0-9A-Za-z]{14}\.", r"pat[0-9A-Za-z]{14}\.[0-9a-f]{64}",
            ("k ", "pat4fA7bQ9cZ2dK8e.", _filler("0-9a-f", 64), " ")),
    Pattern("api_key", r"_mmk", r"[0-9A-Za-z]{6}_[0-9A-Za-z]{29}_mmk",
            ("k ", "4fA7bQ_", _filler("0-9A-Za-z", 29) + "_mmk", " ")),
    Pattern("secret", _SAYS_SECRET, rf"(?i)({CERTAIN}){ENDING}{_QUOTE}\]?{_IS}{_VALUE}",
            ("DB_PASSWORD=", "4fA7", "bQ9c", "\n"), _certain),
    Pattern("secret", _SAYS_SECRET, rf"(?im)^[ \t]*(?:export[ \t]+)?[a-z0-9_.]*({CERTAIN}){ENDING}=([^\s\"'`]+)",
            ("DB_PASSWORD=", "4fA7,", "bQ9c&d", "\n"), _certain),
    Pattern("secret", _SAYS_SECRET, rf"(?i)--[a-z0-9\-]*({CERTAIN}){ENDING}[ \t]+{_VALUE}",
            ("login --password ", "4fA7", "bQ9c", "\n"), _certain),
    Pattern("secret", _SAYS_SECRET, rf"(?i)<[a-z0-9_.:\-]*({CERTAIN}){ENDING}(?:\s[^<>]*)?>([^<]+)",
            ("<password>", "4fA7", "bQ9c", "</password>"), _certain),
    Pattern("secret", _SAYS_SECRET, rf"(?i)name\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?[a-z0-9_.\-]*"
            rf"({CERTAIN}){ENDING}\\*[\"']?[ \t]*[,\n]\s*\\*[\"']?value{_QUOTE}{_IS}{_VALUE}",
            ("- name: DB_PASSWORD\n  value: ", "4fA7", "bQ9c", "\n"), _certain),
    Pattern("secret", r"(?i)pass|pwd", rf"(?im)^[ \t*\-]*[a-z0-9_.\-]*({_PHRASE})[ \t]*:[ \t]+([^\n]+)$",
            ("password: ", "correct horse ", "battery staple", "\n"), _whole_line),
    Pattern("secret", _SAYS_PASSWORD, r"(?i)(?:identified\s+by|password)\s+'([^'\n]+)'",
            ("ALTER ROLE x PASSWORD '", "4fA7", "bQ9c", "'")),
    Pattern("secret", _SAYS_PASSWORD, r"(?i)login[ \t]+\S+[ \t]+password[ \t]+(\S+)",
            ("machine x login y password ", "4fA7", "bQ9c", "\n")),
    Pattern("secret", _SAYS_PASSWORD,
            r"(?i)pass(?:word|code|phrase)[ \t]+(?:is|was)[ \t]*:?[ \t]+[\"'`]?([^\s\"'`,;]+)",
            ("your password is ", "4fA7", "bQ9c", " ."), _if(_is_a_key)),
    Pattern("secret", rf"(?i)(?:{LIKELY}|{VAGUE})", rf"(?i)([a-z0-9_.\-]*(?:{LIKELY}|{VAGUE})){ENDING}{_QUOTE}\]?{_IS}{_VALUE}",
            ("session_token: ", "4fA7bQ9c", "Z2dK8eM3", "\n"), _likely),
    Pattern("card", r"[0-9](?:[ .\x{a0}\-]?[0-9]){12}", r"[0-9](?:[ .\x{a0}\-]?[0-9]){12,}",
            ("card ", "4111 1111 ", "1111 1111", " ."), personal.cards),
    Pattern("iban", r"(?i)[a-z]{2}[0-9]{2}[ \-]?[0-9a-z]{4}", r"(?i)[a-z]{2}[0-9]{2}(?:[ \-]?[0-9a-z]{1,4}){3,8}",
            ("iban ", "DE89 3704 0044 ", "0532 0130 00", " ."), personal.ibans),
    Pattern("email", r"@|%40",
            r"[\pL\pN._%+'\-]+(?:@|%40)[\pL\pN\-]+(?:\.[\pL\pN\-]+)+", ("mail ", "anna@", "shop.example", " .")),
    Pattern("phone", r"[0-9](?:[ .()/\x{a0}\-]*[0-9]){6}", r"\+?[(]?[0-9](?:[ .()/\x{a0}\-]{0,3}[0-9]){6,}",
            ("call ", "+49 30 ", "901820", " ."), personal.phones),
)  # fmt: skip
