"""What a contract may not say: contradictions are refused when a tool is registered, with what would go wrong (C1)."""

from __future__ import annotations

import inspect
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import rfc8785
from pydantic import BaseModel

from fourgates.contract.canonical import canonical
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Risk
from fourgates.contract.topology import HORIZON, LONGEST_WAIT

from .document import Document
from .keywords import resolve, subschemas
from .limit_checks import limit_complaints
from .limits import Quota, QuotaOf, Rate
from .schema import compile_schema
from .tool import Effect, OnBreach, OnChange, OnDuplicate, OutputLimit, Rule, Tool
from .words import impossible_values, unchecked_words

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NOBODY_SETS = frozenset({
    "callid", "toolcallid", "idempotencykey", "token", "accesstoken", "bearertoken", "apikey", "authorization", "password",
})  # fmt: skip
"""What the runtime derives or holds; a model that may send one would choose its identity or its key (C9)."""
_RESERVED = ("call_id", "tool_call_id", "idempotency_key", "token", "access_token", "api_key", "authorization", "password")
"""Some of them as they are usually spelled."""
REDACTED_WHERE_NAMED = frozenset({"card", "iban", "email", "phone", "password"})
"""Kinds that a contract may name beside secrets, which are always redacted."""
_ORIGIN = re.compile(r"user|within|host|model|result(:[a-zA-Z0-9_-]{1,64})?")
_SCALARS = frozenset({"string", "integer", "number", "boolean"})
_NOTHING = timedelta(0)

Complaint = str


def refuse_contradictions(tool: Tool) -> None:
    """Raises ConfigurationError with everything that is wrong with the contract, each with what would go wrong."""
    complaints = list(_kinds(tool)) or [said for check in _CHECKS for said in check(tool)]
    if complaints:
        raise ConfigurationError(f"tool {tool.name!r}: " + "; ".join(complaints))


def _kinds(tool: Tool) -> Iterator[Complaint]:
    """Values of the wrong kind: without a type checker they would be found out by the first call, in the middle of a gate."""
    expected: list[tuple[str, Any, type]] = [
        ("risk", tool.risk, Risk), ("on_breach", tool.on_breach, OnBreach), ("on_change", tool.on_change, OnChange),
        ("output", tool.output, OutputLimit),
        ("timeout", tool.timeout, timedelta), ("facts_timeout", tool.facts_timeout, timedelta),
        ("facts_at_once", tool.facts_at_once, int),
        ("settle", tool.settle, timedelta), *(("rules", rule, Rule) for rule in tool.rules),
        ("at_once", tool.at_once, int), *(("quotas", quota, Quota) for quota in tool.quotas),
        *(("a quota's whose", getattr(quota, "whose", None), QuotaOf) for quota in tool.quotas),
        *(("a quota's per", getattr(quota, "per", None), timedelta) for quota in tool.quotas),
    ]  # fmt: skip
    if tool.rate is not None:
        expected.append(("rate", tool.rate, Rate))
    if tool.effect is not None:
        expected.append(("effect", tool.effect, Effect))
        expected.append(("effect.on_duplicate", getattr(tool.effect, "on_duplicate", None), OnDuplicate))
        expected.append(("effect.parts", getattr(tool.effect, "parts", None), tuple))
    for what, value, kind in expected:
        if not isinstance(value, kind):
            yield f"{what} must be a {kind.__name__}, not {value!r}: the first call of it would fail inside a gate"


def _names(tool: Tool) -> Iterator[Complaint]:
    if not _NAME.fullmatch(tool.name):
        yield "its name must be 1 to 64 letters, digits, _ or -: OpenAI and Anthropic refuse others"
    if not tool.description.strip():
        yield "it has no description, so a model would guess what it is for; write one"


def _limits(tool: Tool) -> Iterator[Complaint]:
    if tool.timeout <= _NOTHING:
        yield f"timeout must be positive, not {tool.timeout.total_seconds():g} s: every call would time out before it starts"
    if tool.facts_timeout <= _NOTHING:
        yield "facts_timeout must be positive: no fact would ever arrive in time and every call would be unavailable"
    if tool.facts_at_once < 1:
        yield "facts_at_once must be 1 at least: no fact would ever be asked for and every call would be unavailable"
    if tool.settle < _NOTHING:
        yield "settle must not be negative: a probe's 'not found' would be believed before the attempt could land"
    if any(bound is not None and bound <= 0 for bound in (tool.output.bytes, tool.output.lines, tool.output.items)):
        yield "the output limit must be positive: a model would never see a result"


def _reads(tool: Tool) -> Iterator[Complaint]:
    if tool.writes:
        return
    if tool.effect is not None:
        yield "it is a read with an effect; reads claim nothing, so it would never be checked; call it a write or leave it out"
    if tool.probe is not None:
        yield "it is a read with a probe; nobody asks whether a read happened; call it a write or leave it out"


def _effects(tool: Tool) -> Iterator[Complaint]:
    effect = tool.effect
    if tool.on_change is OnChange.HOLD and tool.preview is None:
        yield "on_change=hold without a preview: nobody could see that its effect has changed; give it a preview"
    if effect is None:
        return
    if not effect.name or "/" in effect.name:
        yield "its effect needs a name without '/': the name stands in the effect key between tenant and digest"
    if not _NOTHING < effect.window <= HORIZON + LONGEST_WAIT:
        yield (
            f"the effect's window must be positive and at most {(HORIZON + LONGEST_WAIT).days} days: "
            "the effects log is not kept longer, an older effect would be forgotten and happen again"
        )
    if effect.per_call and effect.parts:
        yield "a per-call effect with parts: the parts would be ignored; choose one"
    if effect.per_call and effect.on_duplicate is not OnDuplicate.HOLD:
        yield f"a per-call effect has no duplicates, so on_duplicate={effect.on_duplicate.value} would never apply; give it parts"
    if effect.on_duplicate is OnDuplicate.REPLAY and effect.parts and not any("{" in part for part in effect.parts):
        yield "on_duplicate=replay with parts that name no argument: every call would get the first call's result; name arguments"
    yield from _template(tool, effect)


def _template(tool: Tool, effect: Effect) -> Iterator[Complaint]:
    properties = tool.schema.get("properties", {})
    for part in effect.parts:
        try:
            fields = list(string.Formatter().parse(part))
        except ValueError as fault:
            yield f"the effect's part {part!r} is no template ({fault}); write {{field}}"
            continue
        for _, name, spec, conversion in fields:
            if name is None:
                continue
            if not name or spec or conversion or re.search(r"[.\[]", name):
                yield f"the effect's part {part!r} may hold plain {{field}} only: a format could make two values one"
            elif name not in properties:
                yield f"the effect's part {part!r} names {{{name}}}, which is no argument: every call would fail"
            elif name not in tool.schema.get("required", ()):
                yield f"the effect's part {part!r} names {{{name}}}, which is optional: without it a second effect would pass"
            elif not _scalar(tool.schema, properties[name]):
                yield f"the effect's part {part!r} names {{{name}}}, which is no plain value: its text is not unique"


def _scalar(root: Mapping[str, Any], schema: Any) -> bool:
    schema = resolve(root, schema)
    if not isinstance(schema, Mapping):
        return False
    if "anyOf" in schema:
        return all(_scalar(root, part) for part in schema["anyOf"])
    if "type" in schema:
        said = schema["type"]
        return _SCALARS.issuperset([said] if isinstance(said, str) else said)
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    return bool(values) and all(isinstance(value, str | int | float) for value in values)


def _rules(tool: Tool) -> Iterator[Complaint]:
    for name, count in Counter(rule.name for rule in tool.rules).items():
        if count > 1:
            yield f"{count} rules are named {name!r}: a refusal could not say which; give each its own name"
    for rule in tool.rules:
        if not rule.name or not rule.expression.strip() or not rule.sentence.strip():
            yield f"rule {rule.name!r} needs a name, an expression and a sentence: the model would not learn why"
        top = rule.field.split("/")[1:2]
        if rule.field and (not rule.field.startswith("/") or top[0] not in tool.schema.get("properties", {})):
            yield f"rule {rule.name!r} is about {rule.field!r}, which is no argument; write a JSON Pointer such as /order_id"
    if tool.facts_types and tool.facts is None:
        yield "it declares facts_types without a facts provider: rules over facts would refuse every call"


def _origins(tool: Tool) -> Iterator[Complaint]:
    for name, allowed in tool.origins.items():
        if name not in tool.schema.get("properties", {}):
            yield f"origins name {name!r}, which is no argument: the argument that was meant would be unguarded"
        if not allowed:
            yield f"origins of {name!r} are empty: no call could ever pass"
        elif "host" not in allowed and _has_default(tool.schema, name):
            yield f"origins of {name!r} leave out host, and it has a default: a call without it would be held; allow host"
        for odd in sorted(word for word in allowed if not _ORIGIN.fullmatch(word)):
            yield f"origins of {name!r} hold {odd!r}; there are user, within, host, model, result and result:TOOL"


def _has_default(root: Mapping[str, Any], name: str) -> bool:
    schema = root.get("properties", {}).get(name)
    return isinstance(schema, Mapping) and "default" in schema


def _results(tool: Tool) -> Iterator[Complaint]:
    if odd := sorted(set(tool.redact) - REDACTED_WHERE_NAMED):
        yield f"redact names {', '.join(odd)}, which nobody would redact; there are {', '.join(sorted(REDACTED_WHERE_NAMED))}"
    if not all(tool.lift) or len(set(tool.lift)) != len(tool.lift):
        yield "lift holds an empty name or one twice; name each top-level field of the result once"
    if not all(name for field in tool.trusted_results for name in field.split("/")):
        yield "trusted_results hold an empty name: no value would ever lie there; write a path such as email or contacts/*/email"


def _functions(tool: Tool) -> Iterator[Complaint]:
    for what, function in (("run", tool.run), ("facts", tool.facts), ("preview", tool.preview), ("probe", tool.probe)):
        if function is not None and not _takes_two(function):
            second = "ctx" if what in ("run", "probe") else "principal"
            yield f"{what} must be callable as {what}(args, {second}): it would fail at its first call"
        own = getattr(function, "complaints", None)
        if callable(own):  # what is called knows best what of the contract it cannot keep
            yield from own(tool)


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        return True  # a builtin without a signature: nothing is known, so nothing is wrong yet
    return True


def _arguments(tool: Tool) -> Iterator[Complaint]:
    for pointer, schema in subschemas(tool.schema):
        for name in schema.get("properties", {}) if isinstance(schema, Mapping) else ():
            if re.sub(r"[^a-z0-9]", "", name.lower()) in _NOBODY_SETS:
                yield f"argument {name!r} at {pointer or '/'}: keys, tokens, call ids are the runtime's, no model sends them"
    yield from _free_names(tool)
    yield from unchecked_words(tool.schema)
    yield from impossible_values(tool.schema)
    try:
        canonical(tool.schema)
    except rfc8785.CanonicalizationError as fault:
        yield f"its schema has no canonical form ({fault}), so the tool would have no version"
        return
    for name, schema in tool.schema.get("properties", {}).items():
        if isinstance(schema, Mapping) and "default" in schema:
            within = {**schema, **{key: tool.schema[key] for key in ("$defs",) if key in tool.schema}}
            if not compile_schema(within).is_valid(schema["default"]):
                yield f"the default of {name!r} does not fit its own schema: calls that leave it out would be refused"


def _free_names(tool: Tool) -> Iterator[Complaint]:
    """Arguments whose names the model chooses: among them could be one that only the runtime may set."""
    document = Document(tool.schema)
    for part in document.parts(tool.schema):
        for word in ("additionalProperties", "unevaluatedProperties"):
            if part.get(word, False) is not False:
                yield f"its {word} give arguments free names, so a model could send call_id; put them into one argument"
        for pattern in part.get("patternProperties", {}):
            if taken := next((name for name in _RESERVED if document.fits(pattern, name)), ""):
                yield f"its patternProperties {pattern!r} take {taken}, which no model sends; put them into one argument"


def _model(tool: Tool) -> Iterator[Complaint]:
    model: type[BaseModel] | None = tool.model
    if model is None:
        return
    for name in model.model_computed_fields:
        yield f"its model computes {name!r}: it would become an unknown field of the arguments; use a plain property"
    for name, field in model.model_fields.items():
        if field.exclude:
            yield f"its model excludes {name!r} from output: the tool would never get it"
        if (field.validation_alias or name) != (field.serialization_alias or name):
            yield f"its model reads {name!r} under one name and writes it under another; use one alias for both"


_CHECKS = (_names, _limits, limit_complaints, _reads, _effects, _rules, _origins, _results, _functions, _arguments, _model)
