"""`fourgates catalog check`: what a contract may say but should not (C3). Advice; contradictions are refused at registration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .catalog import Catalog
from .keywords import resolve, subschemas
from .tool import Tool
from .words import unknown_words


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend: `rule` is a stable word, `sentence` says what to do."""

    tool: str
    rule: str
    sentence: str


def check_catalog(catalog: Catalog) -> list[Finding]:
    """Every finding, each tool and rule once, in the order of registration; then what nobody has accepted yet."""
    found = [Finding(tool.name, rule, said) for tool in catalog for rule, find in _RULES.items() if (said := find(tool))]
    waiting = [name for name, offer in catalog.offers.items() if offer.accepted() is None]
    return found + [
        Finding(name, "not_accepted", f"is not accepted and unknown to every gate; see `fourgates catalog accept {name}`")
        for name in waiting
    ]


_SQL = re.compile(r"sql", re.I)
_SHELL = re.compile(r"(^|[_\W])(shell|bash|sh|command|cmd|exec|execute|script|code|eval)([_\W]|$)", re.I)
_URL = re.compile(r"(^|[_\W])(url|uri|href|endpoint|webhook)([_\W]|$)", re.I)
_SQL_TOLD = re.compile(r"\bSQL\b|\b(select|database) (statement|query)\b", re.I)
_SHELL_TOLD = re.compile(
    r"\b(shell|bash|command[- ]line|(python|source|script) code|(code|command|script) to (run|execute))\b", re.I
)
_URL_TOLD = re.compile(r"\b(urls?|web address|endpoint)\b", re.I)
_SHORT_FORMATS = frozenset({
    "date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "email", "hostname", "workspace-path",
})  # fmt: skip
"""Formats whose values are short by what they are."""


def _strings(tool: Tool) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(pointer, name, schema) of each argument at any depth that is free text: no enum, no const."""
    for pointer, schema in subschemas(tool.schema):
        if not isinstance(schema, Mapping) or schema.keys() & {"enum", "const"}:
            continue
        said = schema.get("type", ())
        if "string" in ([said] if isinstance(said, str) else said):
            yield pointer or "/", _name_of(pointer), schema


def _name_of(pointer: str) -> str:
    """The name of the argument that a pointer into the schema is about: the token after the last `properties`."""
    tokens = pointer.split("/")
    named = [token for before, token in pairwise(tokens) if before == "properties"]
    return named[-1] if named else ""


def _named(tool: Tool, words: re.Pattern[str], told: re.Pattern[str]) -> list[str]:
    """Free texts whose name, or what is said of them, has one of the words; a pattern may hold them in."""
    return sorted({
        name or pointer for pointer, name, schema in _strings(tool)
        if "pattern" not in schema and (words.search(name) or told.search(str(schema.get("description", ""))))
    })  # fmt: skip


def _wide_sql(tool: Tool) -> str:
    fields = _named(tool, _SQL, _SQL_TOLD)
    if not fields and _SQL.search(tool.name):
        fields = sorted({name for _, name, _ in _strings(tool)})
    if not fields:
        return ""
    return f"takes SQL in {', '.join(fields)}: no rule can judge it; offer one tool for each question, with typed arguments"


def _wide_shell(tool: Tool) -> str:
    fields = _named(tool, _SHELL, _SHELL_TOLD)
    if not fields and _SHELL.search(tool.name):
        fields = sorted({name for _, name, _ in _strings(tool)})
    if not fields:
        return ""
    return (
        f"takes a command or code in {', '.join(fields)}: no rule can judge it; offer one tool for each thing to do, or an enum"
    )


def _wide_url(tool: Tool) -> str:
    by_format = {name for _, name, schema in _strings(tool) if schema.get("format") in ("uri", "iri") and "pattern" not in schema}
    fields = sorted(by_format | set(_named(tool, _URL, _URL_TOLD)))
    return (
        f"takes a free URL in {', '.join(fields)}: it reaches any host; take an id, an enum, or a pattern with the host in it"
        if fields
        else ""
    )


def _no_effect_key(tool: Tool) -> str:
    if not tool.writes or tool.effect is not None:
        return ""
    return "writes without an effect: only a repeat with equal arguments is noticed; add Effect(name, ('{id}',))"


def _no_probe(tool: Tool) -> str:
    if not tool.writes or tool.probe is not None:
        return ""
    return "writes without a probe: after a lost answer only a person can find out what happened; give it probe(args, ctx)"


def _no_preview(tool: Tool) -> str:
    if not tool.writes or tool.preview is not None:
        return ""
    return "writes without a preview: the person who decides sees no before and after; give it preview(args, principal)"


def _unbounded_string(tool: Tool) -> str:
    open_ended = sorted({
        name or pointer for pointer, name, schema in _strings(tool)
        if "maxLength" not in schema and schema.get("format") not in _SHORT_FORMATS and not _bounds(schema.get("pattern"))
    })  # fmt: skip
    return f"has strings without an end: {', '.join(open_ended)}; give each a maxLength" if open_ended else ""


def _bounds(pattern: str | None) -> bool:
    """True where an anchored pattern repeats nothing without end."""
    return bool(pattern and re.fullmatch(r"\^.*\$", pattern, re.S) and not re.search(r"[*+]|,\}", pattern))


_WHEN = re.compile(
    r"\b(use (this|it|only|when|to|for|before|after)|when(ever)?|if (the|a|an|you)|only (for|after|before))\b", re.I
)
_RETURNS = re.compile(r"\b(returns?|return value|answers? with|gives? back|responds? with|yields?|result is)\b", re.I)
_SIDE_EFFECTS = re.compile(
    r"\b(side[- ]effects?|read[- ]only|only reads|reads only|(changes?|alters?) (nothing|no)|does not (change|alter)|"
    r"(changes|creates|deletes|removes|sends|writes|updates|cancels|charges|refunds|moves|adds|sets|books|pays|"
    r"publishes|overwrites|replaces|modifies|cannot be undone|can be undone|irreversible|reversible))\b",
    re.I,
)


def _description_when(tool: Tool) -> str:
    return (
        "" if _WHEN.search(tool.description) else "its description does not say when to use it; add a sentence 'Use it when ...'"
    )


def _description_parameters(tool: Tool) -> str:
    bare = [
        name for name, schema in tool.schema.get("properties", {}).items()
        if not re.search(rf"\b{re.escape(name)}\b", tool.description) and not _described(tool, schema)
    ]  # fmt: skip
    return (
        f"nothing says what {', '.join(bare)} mean; describe each parameter, in its field or in the description" if bare else ""
    )


def _described(tool: Tool, schema: Any) -> bool:
    return any(isinstance(part, Mapping) and part.get("description") for part in (schema, resolve(tool.schema, schema)))


def _description_side_effects(tool: Tool) -> str:
    said = _SIDE_EFFECTS.search(tool.description)
    return "" if said else "its description does not say what it changes; name its side effects, or say that it changes nothing"


def _description_returns(tool: Tool) -> str:
    return (
        "" if _RETURNS.search(tool.description) else "its description does not say what comes back; add a sentence 'Returns ...'"
    )


def _empty_object(tool: Tool) -> str:
    empty = sorted({
        _name_of(pointer) or pointer for pointer, schema in subschemas(tool.schema)
        if pointer and isinstance(schema, Mapping) and schema.get("type") == "object"
        and schema.get("additionalProperties") is False and not schema.keys() & _NAMING
    })  # fmt: skip
    return f"takes objects that name no field, so only {{}} would pass: {', '.join(empty)}; name their fields" if empty else ""


_NAMING = frozenset({"properties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"})


def _unknown_words(tool: Tool) -> str:
    words = sorted({word for _, word in unknown_words(tool.schema)})
    return (
        f"uses {', '.join(words)}, which JSON Schema does not have: nobody checks them and no model sees them; leave them out"
        if words
        else ""
    )


_RULES: dict[str, Callable[[Tool], str]] = {
    "wide_sql": _wide_sql,
    "wide_shell": _wide_shell,
    "wide_url": _wide_url,
    "no_effect_key": _no_effect_key,
    "no_probe": _no_probe,
    "no_preview": _no_preview,
    "unbounded_string": _unbounded_string,
    "empty_object": _empty_object,
    "unknown_words": _unknown_words,
    "description_when": _description_when,
    "description_parameters": _description_parameters,
    "description_side_effects": _description_side_effects,
    "description_returns": _description_returns,
}
