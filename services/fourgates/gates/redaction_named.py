"""Secrets that are known by what stands beside them: names, headers, schemes, connection strings."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from fourgates.gates.redaction_kinds import Find, Pattern, Span, filler, is_a_key, only_if
from fourgates.gates.redaction_names import (
    CERTAIN,
    ENDING,
    LIKELY,
    SEP,
    VAGUE,
    VAGUE_LEAST,
    is_dense,
    is_harmless,
    is_ordinary,
    looks_secret,
)


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False


def _is_no_word(value: str) -> bool:
    """What a header may hold beside schemes: `Authorization: required` is a sentence."""
    return looks_secret(value) or value[1:] not in (value[1:].lower(), value[1:].upper())


def _certain(found: Any) -> Iterator[Span]:
    start, end = _inside_quotes(found)
    value = found.string[start:end]
    if value and not is_harmless(value) and value.lower() != found.group(1).lower():
        yield start, end


def _stated(found: Any) -> Iterator[Span]:
    """Where the place says that it is a value, whatever stands there; in running text only what is dense."""
    for start, end in _certain(found):
        if _is_a_setting(found) or is_dense(found.string[start:end].rstrip(".")):
            yield start, end


def _is_a_setting(found: Any) -> bool:
    """`name=value`, `name: "value"`, `{name: value}`, or a name that begins its line or is quoted with its value, as those of
    YAML and of headers do."""
    text, start = found.string, found.span(1)[0]
    between = text[found.span(1)[1] : found.span(2)[0]]
    if "=" in between or found.group(2).lstrip("\\").startswith(_DOUBLE_QUOTES):
        return True
    if "\n" in between and between.rstrip("\"'`").endswith("\n"):
        return False
    before = text[max(0, start - _LONGEST_NAME) : start]
    line = before.rpartition("\n")[2]
    if (start < _LONGEST_NAME or line != before) and _BEGINS_ITS_LINE.fullmatch(line):
        return True
    if any(quote in between for quote in _QUOTES):
        return False
    in_braces = line.rfind("{") > line.rfind("}") and _NEXT_IN_BRACES.search(line)
    return bool(in_braces or _QUOTED_WITH_IT.search(line))


def _whole_line(found: Any) -> Iterator[Span]:
    """A passphrase may hold spaces; a type or a template in its place is none."""
    line = found.group(2).strip()
    if not is_harmless(line) and not is_harmless(line.split()[0].rstrip(",;")):
        yield found.span(2)


def _likely(looks_like_one: Callable[[str], bool]) -> Find:
    def find(found: Any) -> Iterator[Span]:
        start, end = _inside_quotes(found)
        least = VAGUE_LEAST if _IS_VAGUE.search(found.group(1)) else 8
        value = found.string[start:end]
        if len(value) >= least and looks_like_one(value) and not is_harmless(value) and not is_ordinary(found.group(1)):
            yield start, end

    return find


def _inside_quotes(found: Any) -> Span:
    """The value without its quotes, which stay, so that what was JSON or a config file still is one."""
    start, end = found.span(2)
    value = found.group(2)
    opening = _OPENING.match(value)
    if opening:
        start += opening.end()
        if value.endswith(_QUOTES) and len(bare := value[:-1].rstrip("\\")) >= opening.end():
            end -= len(value) - len(bare)
    return start, end


_ENTITY = "&(?:quot|apos|#34|#39);"
_OPENING, _QUOTES = re.compile(rf"\\*[\"'`]|{_ENTITY}"), ('"', "'", "`")
_DOUBLE_QUOTES = ('"', "&quot;", "&#34;")
_NEXT_IN_BRACES = re.compile(r"[{,]\s*[\w.\-]*$")
_QUOTED_WITH_IT = re.compile(r"[\"'`][\w.\-]*$")
_BEGINS_A_SETTING = r"[^\s\"'`]"
_LONGEST_NAME = 200
_BEGINS_ITS_LINE = re.compile(r"[\s>*+#/\-\"'`]*[\w.\-]*")
_IS_VAGUE = re.compile(rf"(?:{VAGUE})$", re.I)
_QUOTE = rf"(?:\\*[\"'`]?|{_ENTITY})"
_IS = r"[ \t]*(?::=|=>|==?|:)[ \t]*"
_VALUE = (
    r"(\\*\"(?:[^\"\\\n]|\\[^\"\n])*\\*\"?|\\*'(?:[^'\\\n]|\\[^'\n])*\\*'?|`[^`\n]*`?"
    rf"|\$?\{{[^{{}}\n]*\}}|\{{\{{[^{{}}\n]*\}}\}}|{_ENTITY}[^&\n<>]*|[^\s\"'`,;&<>]+)"
)
_BEGINS = rf"(?:[^\s,;&<>]|{_ENTITY})"
"""How each of these begins. Hints ask for it, so that a name whose value is taken out already gives none."""
_PHRASE = r"pass(?:[_ ]?(?:word|wd|phrase|code))|pwd"
_DATABASES = (
    r"postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|oracle|clickhouse|cassandra|neo4j|bolt|"
    r"cockroachdb|snowflake"
)
_AUTHORIZATION = r"(?i)(?:proxy-)?authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?"
_SCHEMES = r"basic|bearer|digest|token|negotiate|ntlm|apikey|api-key|hawk|sharedkey|aws4-hmac-sha256"
_NAMED = r"name\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?[a-z0-9_.\-]*"
_PAIR = r"[A-Za-z][A-Za-z0-9 _]{1,40}=[^;\"'\n]*"

_NAME_AND_VALUE = rf"(?i)({CERTAIN}){ENDING}{_QUOTE}\]?{_IS}{_VALUE}"
_HINT_OF_BOTH = rf"(?i)(?:{CERTAIN}){ENDING}{_QUOTE}\]?{_IS}{_BEGINS}"
_NEXT_LINE = r"[ \t]*(?:[|>][0-9+\-]{0,2}[ \t]*)?\n{1,2}[ \t]*"
_NAME_THEN_VALUE = (
    rf"(?i)({CERTAIN}){ENDING}{_QUOTE}:{_NEXT_LINE}[\"'`]?([^\s\"'`,;:<>{{}}\[\]#-][^\s\"'`,;:]*)[\"'`]*[ \t]*(?:\n|$)"
)
_HINT_OF_LINES = rf"(?i)(?:{CERTAIN}){ENDING}{_QUOTE}:{_NEXT_LINE}[^\s]"
_LIKELY_AND_VALUE = rf"(?i)([a-z0-9_.\-]*(?:{LIKELY}|{VAGUE})){ENDING}{_QUOTE}\]?{_IS}{_VALUE}"
_HINT_OF_LIKELY = rf"(?i)(?:{LIKELY}|{VAGUE}){ENDING}{_QUOTE}\]?{_IS}{_BEGINS}"
_TOLD = rf"(?i)(?:pass(?:word|code|phrase)|(?:api|access|secret){SEP}(?:key|token)|secret|token)"
_IN_WORDS = rf"{_TOLD}(?:[ \t]+[a-z]+){{0,4}}[ \t]+(?:is|was)"
_VALUE_IN_WORDS = rf"{_IN_WORDS}[ \t]*:?[ \t]+[\"'`]?([^\s\"'`,;\\]{{6,}})"
_HINT_IN_WORDS = rf"{_IN_WORDS}[ \t]*:?[ \t]+[\"'`]?[^\s\"'`,;\\]"

NAMED: tuple[Pattern, ...] = (
    Pattern("connection", rf"(?i)(?:{_DATABASES})[a-z0-9+]*://", rf"(?i)(?:jdbc:)?(?:{_DATABASES})[a-z0-9+]*://[^\s\"'<>`]+",
            ("at ", "postgres", "://shop:4fA7bQ9c@db.example/shop", " .")),
    Pattern("connection", r"(?i)jdbc:[a-z]", r"(?i)jdbc:[a-z][a-z0-9]*:[^\s\"'<>`]+",
            ("at ", "jdbc:", "oracle:thin:shop/4fA7bQ9c@db.example", " .")),
    Pattern("connection", r"://[^\s/\"'<>@:]*:[^\s/\"'<>]+@", r"(?i)[a-z][a-z0-9+.\-]*://[^\s/\"'<>@:`]*:[^\s/\"'<>`]+@[^\s\"'<>`]+",
            ("at ", "https://", "shop:4fA7bQ9c@api.example/v1", " .")),
    Pattern("connection", r"://[^\s/\"'<>@:]{8}", r"(?i)[a-z][a-z0-9+.\-]*://([^\s/\"'<>@:`?#]{8,})@[^\s\"'<>`]",
            ("at https://", "4fA7bQ9c", "Z2dK8eM3", "@api.example/v1 ."), only_if(is_dense)),
    Pattern("connection", r"(?i)(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=",
            rf"(?i)(?:{_PAIR};\s*)+(?:password|pwd|accountkey|sharedaccesskey|sharedaccesssignature)\s*=[^;\"'\n]+(?:;\s*{_PAIR})*;?",
            ("", "Server=db.example;", "User Id=shop;Password=4fA7bQ9c", "")),
    Pattern("authorization", rf"{_AUTHORIZATION}[a-z]",
            rf"{_AUTHORIZATION}((?:{_SCHEMES})[ \t]+[^\n\"'\\]+)",
            ("Authorization: ", "Token ", "4fA7bQ9cZ2dK8eM3", "\n")),
    Pattern("authorization", rf"{_AUTHORIZATION}[^\s\"'\\]", rf"{_AUTHORIZATION}([^\s\"'\\]{{8,}})",
            ("Authorization: ", "4fA7bQ9c", "Z2dK8eM3", "\n"), only_if(_is_no_word)),
    Pattern("authorization", r"(?i)bearer[ \t]+[0-9A-Za-z._~+/=\-]{8}", r"(?i)bearer[ \t]+([0-9A-Za-z._~+/=\-]{8,})",
            ("bearer ", "4fA7bQ9c", "Z2dK8eM3", " "), only_if(is_a_key)),
    Pattern("authorization", r"(?i)basic[ \t]+[0-9A-Za-z+/=]{8}", r"(?i)basic[ \t]+([0-9A-Za-z+/=]{8,})",
            ("basic ", "c2hvcDo0", "ZkE3YlE5Yw==", " "), only_if(_is_basic)),
    Pattern("authorization", r"\bcurl\b",
            r"\bcurl\b[^\n]*(?:\n[^\n]*){0,5}?\s(?:-u|--user)(?:=|\s{0,5})"
            r"(\"[^\"\n]*:[^\"\n]*\"|'[^'\n]*:[^'\n]*'|\S+:\S+)",
            ("curl -u '", "shop:4fA7", "bQ9c", "' x")),
    Pattern("authorization", r"\b(?:mysql|mariadb|sshpass)\b",
            r"\b(?:(?:mysql|mariadb)\b[^\n]*?[ \t]-p|sshpass[ \t]+-p[ \t]?)([^\s-]\S*)",
            ("mysql -u shop -p", "4fA7", "bQ9c", " x")),
    Pattern("cookie", r"(?i)cookie", r"(?i)(?:set-)?cookies?2?\\*[\"']?[ \t]*:[ \t]*\\*[\"']?([^\s=;\"'\\]+=[^\n\"'\\]*)",
            ("Set-Cookie: ", "sid=4fA7bQ9c; ", "Path=/", "\n")),
    Pattern("cookie", r"(?i)cookie", r"(?i)--cookie(?:=|[ \t]+)[\"']?([^\s=;\"']+=[^\n\"']*)",
            ("curl --cookie '", "sid=", "4fA7bQ9c", "' x")),
    Pattern("cookie", r"_gitlab_session=", r"_gitlab_session=[0-9a-z]{32}", ("_gitlab_session=", "", filler("0-9a-f", 32), " ")),
    Pattern("secret", _HINT_OF_BOTH, _NAME_AND_VALUE, ("DB_PASSWORD=", "4fA7", "bQ9c", "\n"), _stated),
    Pattern("password", _HINT_OF_BOTH, _NAME_AND_VALUE, ("my password: ", "sword", "fish", "\n"), _certain),
    Pattern("secret", rf"(?i)(?:{CERTAIN}){ENDING}={_BEGINS_A_SETTING}",
            rf"(?im)^[ \t]*(?:export[ \t]+)?[a-z0-9_.]*({CERTAIN}){ENDING}=({_BEGINS_A_SETTING}+)",
            ("DB_PASSWORD=", "4fA7,", "bQ9c&d", "\n"), _certain),
    Pattern("secret", _HINT_OF_LINES, _NAME_THEN_VALUE, ("password:\n    ", "4fA7", "bQ9c", "\n"), _stated),
    Pattern("password", _HINT_OF_LINES, _NAME_THEN_VALUE, ("my password:\n    ", "sword", "fish", "\n"), _certain),
    Pattern("secret", rf"(?i)--[a-z0-9\-]*(?:{CERTAIN}){ENDING}[ \t]", rf"(?i)--[a-z0-9\-]*({CERTAIN}){ENDING}[ \t]+{_VALUE}",
            ("login --password ", "4fA7", "bQ9c", "\n"), _certain),
    Pattern("secret", rf"(?i)<[a-z0-9_.:\-]*(?:{CERTAIN})", rf"(?i)<[a-z0-9_.:\-]*({CERTAIN}){ENDING}(?:\s[^<>]*)?>([^<]+)",
            ("<password>", "4fA7", "bQ9c", "</password>"), _certain),
    Pattern("secret", rf"(?i){_NAMED}(?:{CERTAIN})",
            rf"(?i){_NAMED}({CERTAIN}){ENDING}\\*[\"']?[ \t]*[,\s]\s*\\*[\"']?value{_QUOTE}{_IS}{_VALUE}",
            ("- name: DB_PASSWORD\n  value: ", "4fA7", "bQ9c", "\n"), _certain),
    Pattern("secret", rf"(?i)(?:{_PHRASE})[ \t]*:[ \t]", rf"(?im)^[ \t*\-]*[a-z0-9_.\-]*({_PHRASE})[ \t]*:[ \t]+([^\n]+)$",
            ("password: ", "correct horse ", "battery staple", "\n"), _whole_line),
    Pattern("secret", r"(?i)(?:identified\s+by|password)\s+'", r"(?i)(?:identified\s+by|password)\s+'([^'\n]+)'",
            ("ALTER ROLE x PASSWORD '", "4fA7", "bQ9c", "'")),
    Pattern("secret", r"(?i)login[ \t]+\S+[ \t]+password[ \t]", r"(?i)login[ \t]+\S+[ \t]+password[ \t]+(\S+)",
            ("machine x login y password ", "4fA7", "bQ9c", "\n")),
    Pattern("secret", _HINT_IN_WORDS, _VALUE_IN_WORDS, ("your password is ", "4fA7", "bQ9c", " ."), only_if(is_dense)),
    Pattern("password", _HINT_IN_WORDS, _VALUE_IN_WORDS, ("your password is ", "fish", "2030", " ."), only_if(is_a_key)),
    Pattern("secret", _HINT_OF_LIKELY, _LIKELY_AND_VALUE, ("session_token: ", "4fA7bQ9c", "Z2dK8eM3", "\n"), _likely(is_dense)),
    Pattern("password", _HINT_OF_LIKELY, _LIKELY_AND_VALUE, ("?token=", "summer_", "2024", " "), _likely(looks_secret)),
)  # fmt: skip
