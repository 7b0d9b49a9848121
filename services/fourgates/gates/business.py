"""Gate 2: business rules in CEL over `args, principal, facts, origins, intent, now`; only a literal true passes.

A provider of facts answers "not yours" and "not there" alike (say `{"owned": false}` for both), so that one rule with one reason
and one sentence refuses both, and nobody can find out what exists by asking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import rfc8785
from cel_expr_python import cel

from fourgates.catalog import Rule, Tool, invoke
from fourgates.contract.canonical import canonical
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Origin, Principal
from fourgates.gates.looked_at import looked_at, names_in
from fourgates.gates.origins import check_contract
from fourgates.gates.refusal import Refusal
from fourgates.gates.shape import ANY, Kind, Shape, arguments_shape, facts_shape, fits

_TYPE = cel.Type
_BOOL = _TYPE.BOOL
_SCALARS = {
    Kind.STRING: _TYPE.STRING, Kind.INTEGER: _TYPE.INT, Kind.NUMBER: _TYPE.DOUBLE, Kind.BOOLEAN: _TYPE.BOOL,
}  # fmt: skip
_PRINCIPAL = {
    "principal.issuer": _TYPE.STRING, "principal.subject": _TYPE.STRING, "principal.tenant": _TYPE.STRING,
    "principal.person": _TYPE.STRING, "principal.agent": _TYPE.STRING, "principal.groups": _TYPE.List(_TYPE.STRING),
    "principal.service": _TYPE.BOOL,
}  # fmt: skip
_ROUND = {"origins": _TYPE.Map(_TYPE.STRING, _TYPE.STRING), "intent": _TYPE.STRING, "now": _TYPE.TIMESTAMP}
# Each field is a variable of its own, so that an unknown one does not compile; `has` of one gives its value, not its presence.
_PRESENCE = re.compile(r"\bhas\s*\(\s*(args|facts|principal)\s*[.\[]")
_PLACE = re.compile(r"<input>:(\d+):(\d+): ([^\n]*)")

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Slot:
    """One variable of the rules and where its value stands in the record."""

    variable: str
    path: tuple[str, ...]
    type: Any
    convert: Convert
    always: bool


class CompiledRules:
    """A tool's rules, compiled and type-checked. Raises ConfigurationError naming tool, rule, line and column."""

    def __init__(self, tool: Tool) -> None:
        check_contract(tool)
        self._slots = {"args": _slots("args", arguments_shape(tool)), "facts": _slots("facts", facts_shape(tool))}
        declared = {slot.variable: slot.type for slots in self._slots.values() for slot in slots}
        self._known = sorted(declared | _PRINCIPAL | _ROUND)
        self._env = cel.NewEnv(variables=declared | _PRINCIPAL | _ROUND)
        self._rules = tuple((rule, self._compile(tool, rule)) for rule in tool.rules)
        self._all = self._env.compile("\n&& ".join(f"({rule.expression}\n)" for rule in tool.rules)) if self._rules else None
        # What no rule spells out, none can look at: it need not be handed over at each call.
        spelled = "\n".join(rule.expression for rule in tool.rules)
        self._slots = {root: [slot for slot in slots if slot.path[-1] in spelled] for root, slots in self._slots.items()}
        self._about_principal = [name for name in _PRINCIPAL if name.partition(".")[2] in spelled]
        self._round = frozenset(name for name in _ROUND if name in spelled)
        self._named = {rule.name: names_in(rule.expression, self._known) for rule in tool.rules}
        self._redact = tool.redact

    def judge(
        self,
        arguments: Mapping[str, Any],
        principal: Principal,
        facts: Mapping[str, Any],
        origins: Iterable[Origin],
        intent: str,
        now_ms: int,
    ) -> Refusal | None:
        """The first rule that does not yield a literal true refuses, by its own name and sentence; an error is no true."""
        if self._all is None:
            return None
        data: dict[str, Any] = {name: getattr(principal, name.partition(".")[2]) for name in self._about_principal}
        if "principal.groups" in data:
            data["principal.groups"] = list(principal.groups)
        if "origins" in self._round:
            data["origins"] = {mark.pointer: mark.origin for mark in origins}
        if "intent" in self._round:
            data["intent"] = intent
        if "now" in self._round:
            data["now"] = datetime.fromtimestamp(now_ms / 1000, UTC)
        self._fill(data, "args", arguments)
        self._fill(data, "facts", facts)
        activation = self._env.Activation(data)
        if _is_true(self._all.eval(activation)):  # a conjunction is true only where each rule is: one way into CEL, not ten
            return None
        for rule, expression in self._rules:
            verdict = expression.eval(activation)
            if _is_true(verdict):
                continue
            return Refusal(
                Code.RULE_VIOLATED, rule.name, field=rule.field, sentence=rule.sentence,
                detail={
                    "rule": rule.name, "yielded": _yielded(verdict),
                    "values": looked_at(self._named[rule.name], data, self._redact),
                },
            )  # fmt: skip
        return None

    def _fill(self, data: dict[str, Any], root: str, record: Mapping[str, Any]) -> None:
        for slot in self._slots[root]:
            found, value = _at(record, slot.path)
            if found or not slot.always:
                data[slot.variable] = slot.convert(value)

    def _compile(self, tool: Tool, rule: Rule) -> Any:
        where = f"tool {tool.name!r}, rule {rule.name!r}"
        if presence := _PRESENCE.search(rule.expression):
            line = rule.expression.count("\n", 0, presence.start()) + 1
            column = presence.start() - rule.expression.rfind("\n", 0, presence.start())
            raise ConfigurationError(
                f"{where}, line {line}, column {column}: has() does not tell whether {presence[1]} has a field; "
                "compare it with null, which an absent optional field is"
            )
        try:
            expression = self._env.compile(rule.expression)
        except RuntimeError as fault:
            raise ConfigurationError(f"{where}, {self._said(str(fault))}") from fault
        result = expression.return_type()
        if result != _TYPE.BOOL:
            raise ConfigurationError(
                f"{where}, line 1, column 1: it yields {result.name().lower()}, a rule must yield bool; compare it"
            )
        return expression

    def _said(self, fault: str) -> str:
        """The compiler's complaints as one sentence, each with its place, and what there is where a name is unknown."""
        places = [(line, column, what.removesuffix(" (in container '')")) for line, column, what in _PLACE.findall(fault)]
        if not places:
            return fault.splitlines()[0]
        known = f"; there are {', '.join(self._known)}" if "undeclared reference" in fault else ""
        return "; ".join(f"line {line}, column {column}: {what}" for line, column, what in places) + known


def _is_true(verdict: Any) -> bool:
    return verdict.type() == _BOOL and verdict.value() is True


def _yielded(verdict: Any) -> str:
    """For the audit: what came instead of true. Of an error only its kind, because its text may hold a value."""
    kind = str(verdict.type().name())
    return f"error:{str(verdict.value()).partition(':')[0]}" if verdict.type() == _TYPE.ERROR else kind.lower()


def _slots(name: str, shape: Shape, path: tuple[str, ...] = ()) -> list[_Slot]:
    out: list[_Slot] = []
    for field, each in shape.fields.items():
        variable, here, inner = f"{name}.{field}", (*path, field), each.shape
        certain = each.always and not inner.nullable
        if certain and inner.kind is Kind.RECORD and inner.fields and not inner.variants:
            out += _slots(variable, inner, here)
        else:
            out.append(_Slot(variable, here, _type_of(inner) if certain else _TYPE.DYN, _converter(inner), each.always))
    return out


def _type_of(shape: Shape) -> Any:
    if shape.kind in _SCALARS:
        return _SCALARS[shape.kind]
    inner = shape.item or ANY
    inner_type = _TYPE.DYN if inner.nullable else _type_of(inner)
    match shape.kind:
        case Kind.LIST:
            return _TYPE.List(inner_type)
        case Kind.MAP:
            return _TYPE.Map(_TYPE.STRING, inner_type)
        case Kind.RECORD:
            return _TYPE.Map(_TYPE.STRING, _TYPE.DYN)
    return _TYPE.DYN


def _converter(shape: Shape) -> Convert:
    """JSON writes 5 for 5.0; a number must reach CEL as a double wherever it stands."""
    match shape.kind:
        case Kind.NUMBER:
            return lambda value: float(value) if isinstance(value, int) and not isinstance(value, bool) else value
        case Kind.LIST if shape.item:
            item = _converter(shape.item)
            return _same if item is _same else lambda value: [item(each) for each in value] if isinstance(value, list) else value
        case Kind.MAP if shape.item:
            inner = _converter(shape.item)
            return (
                _same if inner is _same else lambda value: {key: inner(each) for key, each in value.items()} if value else value
            )
        case Kind.RECORD:
            fields = {name: _converter(field.shape) for name, field in shape.fields.items()}
            if all(convert is _same for convert in fields.values()):
                return _same
            return lambda value: {key: fields.get(key, _same)(each) for key, each in value.items()} if value else value
    return _same


def _same(value: Any) -> Any:
    return value


def _at(record: Mapping[str, Any], path: tuple[str, ...]) -> tuple[bool, Any]:
    """(whether it is there, the value)."""
    here: Any = record
    for name in path:
        if not isinstance(here, dict) or name not in here:
            return False, None
        here = here[name]
    return True, here


async def gather_facts(
    tool: Tool, landed_args: Any, principal: Principal, waited_s: float = 0.0
) -> dict[str, Any] | Refusal:  # fmt: skip
    """What the tool's own read-only provider says, within its time. One that fails, is slow or says nonsense is never a pass.

    A declared fact may be missing, as where there is nothing to tell; a rule or a policy that names it then refuses.
    """
    if tool.facts is None:
        return {}
    try:
        facts = await invoke(tool.facts, landed_args, principal, timeout=tool.facts_timeout.total_seconds() - waited_s)
    except Exception as fault:  # whatever a provider raises, its text may hold anything: only the kind is kept
        return Refusal(Code.UNAVAILABLE, "facts_unavailable", detail={"error": type(fault).__name__})
    if not isinstance(facts, dict):
        return Refusal(Code.UNAVAILABLE, "facts_invalid", detail={"error": "no dict", "got": type(facts).__name__})
    wrong = [name for name, field in facts_shape(tool).fields.items() if name in facts and not fits(field.shape, facts[name])]
    if wrong:
        return Refusal(Code.UNAVAILABLE, "facts_invalid", detail={"error": "other type than declared", "facts": sorted(wrong)})
    try:
        canonical(facts)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as fault:
        return Refusal(Code.UNAVAILABLE, "facts_invalid", detail={"error": type(fault).__name__})
    return facts
