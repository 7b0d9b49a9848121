"""A command line of the contract: each argument of a call is one word of it, and never becomes an option unawares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, TypeAlias

from fourgates.catalog import ToolContext
from fourgates.contract.errors import ConfigurationError
from fourgates.tools.answers import refused_arguments
from fourgates.tools.sources import MISSING, Constant, Source, Template, check_source, look, text_of


@dataclass(frozen=True, slots=True)
class Option:
    """A word with holes that may become an option: the contract's schema says which values there are."""

    text: str


@dataclass(frozen=True, slots=True)
class NoOption:
    """A word with holes for commands that know no `--`: a value that begins with `-` is refused."""

    text: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A fixed word that stands there where the argument is true."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Each:
    """One word for each item of a list, after a `--`."""

    source: str


Word: TypeAlias = str | Constant | Option | NoOption | Flag | Each
"""Text, with or without holes; a Constant is text in which braces are braces."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "env", "xargs", "sudo", "su"})
_PROGRAM_TEXT: Final = frozenset({"-c", "-e", "-E", "-r", "--eval", "--command", "--exec", "-exec", "-execdir"})
_VALUE_OF_OPTION: Final = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_-]*=")


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Raises ConfigurationError for a line by which a model could say more than values."""

    words: tuple[Word, ...]

    def __post_init__(self) -> None:
        first = self.words[0] if self.words else None
        if not isinstance(first, str) or not first or Template.parse(first).holes:
            raise ConfigurationError("a command line begins with the program, as fixed text")
        fixed = [word.value if isinstance(word, Constant) else word for word in self.words]
        if PurePosixPath(first).name in _SHELLS and (PurePosixPath(first).name != "busybox" or "sh" in fixed):
            raise ConfigurationError(f"{first} runs what it is given as a command; name the program itself")
        before: Word = ""
        ended = False
        for word in self.words:
            self._fits(word, before, ended)
            ended, before = ended or word == "--", word
        for source in self.sources():
            check_source(source)

    def _fits(self, word: Word, before: Word, ended: bool) -> None:
        if isinstance(word, Flag | Constant):
            return
        if isinstance(word, Each):
            if not ended:
                raise ConfigurationError(f"{word.source}: a list of words needs a -- before it, one of them could be an option")
            return
        text = word if isinstance(word, str) else word.text
        template = Template.parse(text)
        if not template.holes:
            return
        if before in _PROGRAM_TEXT:
            raise ConfigurationError(f"{text!r} after {before} would let a model write a program; give it fixed text")
        if not isinstance(word, str) or ended:
            return
        begin = template.texts[0]
        if not (_VALUE_OF_OPTION.fullmatch(begin) or (begin and not begin.startswith("-"))):
            raise ConfigurationError(
                f"{text!r} could become an option: put -- before it, write --name={{/value}}, or say NoOption or Option"
            )

    def sources(self) -> Iterator[Source]:
        """Everything that a line of it looks at."""
        for word in self.words:
            if isinstance(word, Flag | Each):
                yield word.source
            elif not isinstance(word, Constant):
                yield from Template.parse(word if isinstance(word, str) else word.text).holes

    def version_words(self) -> list[Any]:
        """As part of the tool's version."""
        return [word if isinstance(word, str) else [type(word).__name__, *_fields(word)] for word in self.words]

    def made(self, args: Mapping[str, Any], ctx: ToolContext | None) -> list[str]:
        """The line of one call; a word whose value is missing or null is left out. Raises ToolError for what no word can hold."""
        out: list[str] = []
        for word in self.words:
            if isinstance(word, Constant):
                out.append(str(word.value))
            elif isinstance(word, Flag):
                out += [word.text] if look(word.source, args, ctx) is True else []
            elif isinstance(word, Each):
                items = look(word.source, args, ctx)
                out += [_text(word.source, item) for item in items] if isinstance(items, list) else []
            else:
                made = _filled(Template.parse(word if isinstance(word, str) else word.text), args, ctx)
                if made is not None and isinstance(word, NoOption) and made.startswith("-"):
                    raise refused_arguments("unsafe_argument", "A value may not begin with -.")
                out += [] if made is None else [made]
        return out


def _fields(word: Constant | Option | NoOption | Flag | Each) -> list[str]:
    match word:
        case Constant(value):
            return [str(value)]
        case Flag(source, text):
            return [source, text]
        case Each(source):
            return [source]
        case Option(text) | NoOption(text):
            return [text]


def _filled(template: Template, args: Mapping[str, Any], ctx: ToolContext | None) -> str | None:
    out = [template.texts[0]]
    for hole, text in zip(template.holes, template.texts[1:], strict=True):
        value = look(hole, args, ctx)
        if value is MISSING or value is None:
            return None
        out += [_text(hole, value), text]
    return "".join(out)


def _text(source: str, value: Any) -> str:
    try:
        text = text_of(value)
        text.encode()
    except (TypeError, UnicodeEncodeError):
        raise refused_arguments("unsafe_argument", f"{source} must be plain text.") from None
    if "\0" in text:
        raise refused_arguments("unsafe_argument", f"{source} holds a NUL.")
    return text
