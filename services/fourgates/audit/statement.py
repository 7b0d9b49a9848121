"""What the query door lets through: one reading statement that stays inside the database.

The engine's read-only mode refuses inserts and DDL. Embedded, it still lets `file('/etc/passwd')`, `FROM '/etc/passwd'` (the
default database maps the disk), `INTO OUTFILE`, `KILL QUERY`, `USE`, `DESCRIBE url(...)` and a second statement through. So each
statement is parsed and written out again by the engine's own formatter, what is written out is checked word by word, and that
text, not the one that was sent, is what runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

READING = frozenset({"SELECT", "WITH", "(", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "FROM"})
"""First words of statements that read."""
HARMLESS_TABLES = frozenset({
    "numbers", "numbers_mt", "zeros", "zeros_mt", "values", "null", "generateseries", "generate_series", "generaterandom",
    "format", "view",
})  # fmt: skip
"""Table functions that touch nothing outside the query."""
REACHING_OUT = frozenset({
    "file", "catboostevaluate", "reversednsquery", "hascolumnintable", "joinget", "joingetornull", "logtrace", "showcertificate",
    "addresstoline", "addresstolinewithinlines", "addresstosymbol", "evalmlmethod", "sleepeachrow", "getclienthttpheader",
    "naivebayesclassifier", "naivebayesclassifierwithprob", "naivebayesclassifierwithallprobs",
})  # fmt: skip
"""Scalar functions that reach files, the network, other tables by name, or the process."""
_REACHING_OUT_PREFIXES = ("dictget", "ai")
_REFUSED_WORDS = frozenset({"OUTFILE", "INFILE", "APPLY", "SETTINGS", "USE", "SYSTEM"})
"""Keywords that have no place: files, functions without brackets, settings (the engine refuses these too)."""
_REFUSED_IDENTIFIERS = frozenset({"default", "_table_function"})
"""Databases that map the disk."""

_TOKEN = re.compile(
    r"""
    (?P<string>'(?:[^'\\]|\\.|'')*')
  | (?P<quoted>`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")
  | (?P<word>[A-Za-z_$][A-Za-z0-9_$]*)
  | (?P<number>[0-9][A-Za-z0-9_.]*)
  | (?P<sign>[^\sA-Za-z0-9_$'"`])
  | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)


class StatementRefused(Exception):
    """The statement does more than read, or reaches outside the database."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it will run. `formatted` where it names its own output format."""

    sql: str
    formatted: bool


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class Gatekeeper:
    """Checks statements. `normalise` is the engine's formatter; `table_functions` are all that this engine knows."""

    def __init__(self, normalise: Callable[[str], str], table_functions: frozenset[str]) -> None:
        self._normalise = normalise
        self._refused = ({name.lower() for name in table_functions} - HARMLESS_TABLES) | REACHING_OUT

    def check(self, sql: str) -> Statement:
        """The statement to run. Raises StatementRefused, or what the engine raises for one that does not parse."""
        text = self._normalise(sql)
        tokens = _tokens(text)
        if not tokens or tokens[0].text.upper() not in READING:
            raise StatementRefused("only statements that read are taken here: SELECT, WITH, SHOW, DESCRIBE, EXISTS, EXPLAIN")
        for number, token in enumerate(tokens):
            self._judge(token, tokens[number + 1] if number + 1 < len(tokens) else _Token("end", ""))
        return Statement(text, _formatted(tokens))

    def _judge(self, token: _Token, following: _Token) -> None:
        if token.kind == "sign" and token.text == ";":
            raise StatementRefused("one statement at a time")
        if token.kind == "word" and token.text in _REFUSED_WORDS:
            raise StatementRefused(f"{token.text} is not taken here")
        if token.kind == "sign" or token.kind == "string":
            return
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        if name in _REFUSED_IDENTIFIERS:
            raise StatementRefused(f"{name!r} is not readable here")
        if name == "Identifier" and following.text == "}":
            raise StatementRefused("substitutions of identifiers are not taken here")
        low = name.lower()
        if following.text == "(" and (low in self._refused or low.startswith(_REACHING_OUT_PREFIXES)):
            raise StatementRefused(f"{name} is not taken here: it reaches outside the database")


def _tokens(text: str) -> list[_Token]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise StatementRefused("the statement cannot be read")
        at = match.end()
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match[0]))
    return tokens


def _formatted(tokens: list[_Token]) -> bool:
    """FORMAT and one word at the very end, as the formatter writes an output format."""
    return len(tokens) > 2 and tokens[-2] == _Token("word", "FORMAT") and tokens[-1].kind == "word"
