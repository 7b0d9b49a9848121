"""What Cedar policies may speak about: the schema that follows from the catalog, and how a call is carried into it.

Namespace `Fourgates`. Principals are `User::"tenant/subject"` in its `Group`s, and `Agent::"tenant/agent"`. Each tool is an
action in the group of its risk (`read`, `write`, `destructive`). The resource is `Tool::"name"`; where the tool declares a fact
`resource` (string), it is `Resource::"tenant/value"` in that tool. Context: `args`, `facts`, and who and what for.
Cedar has no floats: a number is a `decimal` of four digits after the point; what does not fit is refused, never rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from fourgates.catalog import Catalog, Tool
from fourgates.catalog.keywords import step
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Call, Principal, Risk
from fourgates.gates.origins import breaches_of
from fourgates.gates.shape import Kind, Shape, arguments_shape, facts_shape

NAMESPACE = "Fourgates"
RESOURCE_FACT = "resource"
_LONGEST = 2**63 - 1
_SMALLEST = Decimal("0.0001")
_TEXT, _BOOL, _LONG = {"type": "String"}, {"type": "Boolean"}, {"type": "Long"}
_DECIMAL = {"type": "Extension", "name": "decimal"}


class NotCarried(Exception):
    """A value that a policy may look at does not fit what Cedar can hold, or is not there."""

    def __init__(self, pointer: str, why: str) -> None:
        super().__init__(f"{pointer}: {why}")
        self.pointer, self.why = pointer, why


@dataclass(frozen=True, slots=True)
class Looked:
    """What a set of policies looks at: attribute names, and those whose record it takes whole (compares, puts into a set)."""

    names: frozenset[str]
    whole: frozenset[str]

    def inside(self, name: str) -> Looked | None:
        return None if name in self.whole else self


Carry = Callable[[Any], Any]
"""A value as Cedar's JSON. Raises NotCarried, whose pointer each record on the way out completes: only a fault pays for it."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """How one tool's calls are carried."""

    tool: Tool
    args: Carry
    facts: Carry
    only: frozenset[str]
    has_resource: bool

    def context(self, call: Call, arguments: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
        """The request's context. Raises NotCarried."""
        return {name: part(self, call, arguments, facts) for name, part in _PARTS.items() if name in self.only}

    def resource(self, tenant: str, facts: Mapping[str, Any]) -> str:
        """The id of the resource that the call is about; empty where it is the tool itself. Raises NotCarried."""
        if not self.has_resource:
            return ""
        value = facts.get(RESOURCE_FACT)
        if not isinstance(value, str) or not value:
            raise NotCarried(f"/{RESOURCE_FACT}", "the facts do not say which resource")
        return named(tenant, value)


_PARTS: Mapping[str, Callable[[ToolContext, Call, Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "args": lambda self, call, arguments, facts: self.args(arguments),
    "facts": lambda self, call, arguments, facts: self.facts(facts),
    "subject": lambda self, call, arguments, facts: call.principal.subject,
    "groups": lambda self, call, arguments, facts: list(call.principal.groups),
    "agent": lambda self, call, arguments, facts: call.principal.agent,
    "intent": lambda self, call, arguments, facts: call.intent,
    "breach": lambda self, call, arguments, facts: bool(breaches_of(self.tool, call.origins, call.allowed_actions)),
}
_CONTEXT: dict[str, Any] = {
    "subject": _TEXT, "groups": {"type": "Set", "element": _TEXT}, "agent": _TEXT, "intent": _TEXT, "breach": _BOOL,
}  # fmt: skip
EVERYTHING = frozenset({"args", "facts", *_CONTEXT})


def derive(catalog: Catalog, looked: Looked | None = None) -> tuple[dict[str, Any], dict[str, ToolContext]]:
    """(Cedar schema in JSON form, how each tool's calls are carried).

    With `looked` nothing else is carried, so that a value that Cedar cannot hold refuses only where it would have been judged.
    """
    actions: dict[str, Any] = {risk.value: {} for risk in Risk}
    contexts = {}
    only = EVERYTHING if looked is None else EVERYTHING & looked.names
    for tool in catalog:
        if tool.name in actions:
            raise ConfigurationError(f"tool {tool.name!r} is named like the action group of a risk; rename it")
        facts = facts_shape(tool)
        args_type, carry_args = _record(arguments_shape(tool), looked and looked.inside("args"))
        facts_type, carry_facts = _record(facts, looked and looked.inside("facts"))
        resource = facts.fields.get(RESOURCE_FACT)
        has_resource = resource is not None and resource.shape == Shape(Kind.STRING)
        attributes = {name: kind for name, kind in {"args": args_type, "facts": facts_type, **_CONTEXT}.items() if name in only}
        actions[tool.name] = {
            "memberOf": [{"id": tool.risk.value}],
            "appliesTo": {
                "principalTypes": ["User", "Agent"],
                "resourceTypes": ["Resource" if has_resource else "Tool"],
                "context": {"type": "Record", "attributes": attributes},
            },
        }
        contexts[tool.name] = ToolContext(tool, carry_args, carry_facts, only, has_resource)
    return {NAMESPACE: {"entityTypes": _ENTITY_TYPES, "actions": actions}}, contexts


_ENTITY_TYPES = {
    "Group": {},
    "User": {"memberOfTypes": ["Group"], "shape": {"type": "Record", "attributes": {
        "issuer": _TEXT, "tenant": _TEXT, "subject": _TEXT, "person": _TEXT, "service": _BOOL,
    }}},
    "Agent": {"shape": {"type": "Record", "attributes": {"issuer": _TEXT, "tenant": _TEXT, "name": _TEXT}}},
    "Tool": {"shape": {"type": "Record", "attributes": {"risk": _TEXT}}},
    "Resource": {"memberOfTypes": ["Tool"], "shape": {"type": "Record", "attributes": {"risk": _TEXT, "tenant": _TEXT}}},
}  # fmt: skip


def uid(kind: str, name: str) -> dict[str, str]:
    return {"type": f"{NAMESPACE}::{kind}", "id": name}


def named(tenant: str, name: str) -> str:
    """`tenant/name`; a slash inside the tenant is written %2F, so that no two pairs give one id."""
    return f"{tenant.replace('%', '%25').replace('/', '%2F')}/{name}"


def user_uid(who: Principal) -> dict[str, str]:
    """One account of one tenant: a namesake elsewhere is somebody else."""
    return uid("User", named(who.tenant, who.subject))


def agent_uid(who: Principal) -> dict[str, str]:
    return uid("Agent", named(who.tenant, who.agent))


def entities_of(who: Principal, tool: Tool, resource: str) -> list[dict[str, Any]]:
    """The entities of one request: who asks, for whom, and what it is about."""
    found: list[dict[str, Any]] = [
        {
            "uid": user_uid(who),
            "attrs": {"issuer": who.issuer, "tenant": who.tenant, "subject": who.subject, "person": who.person,
                      "service": who.service},
            "parents": [uid("Group", group) for group in who.groups],
        },
        {"uid": uid("Tool", tool.name), "attrs": {"risk": tool.risk.value}, "parents": []},
    ]  # fmt: skip
    if who.agent:
        attrs = {"issuer": who.issuer, "tenant": who.tenant, "name": who.agent}
        found.append({"uid": agent_uid(who), "attrs": attrs, "parents": []})
    if resource:
        attrs = {"risk": tool.risk.value, "tenant": who.tenant}
        found.append({"uid": uid("Resource", resource), "attrs": attrs, "parents": [uid("Tool", tool.name)]})
    return found


def _record(shape: Shape, looked: Looked | None) -> tuple[dict[str, Any], Carry]:
    """(type, carry) of a record: the fields that Cedar can hold; an absent or null optional one is left out."""
    attributes: dict[str, Any] = {}
    carriers: list[tuple[str, bool, Carry]] = []
    for name, field in shape.fields.items():
        # `__extn` and `__entity` are Cedar's own words in JSON: a field of that name must not speak for it.
        if name.startswith("__") or (looked is not None and name not in looked.names):
            continue
        found = _typed(field.shape, looked and looked.inside(name))
        if found is None:
            continue
        required = field.always and not field.shape.nullable
        attributes[name] = {**found[0], "required": required}
        carriers.append((name, required, found[1]))

    def carry(value: Any) -> dict[str, Any]:
        out = {}
        for name, required, each in carriers:
            inner = value.get(name)
            if inner is not None:
                try:
                    out[name] = each(inner)
                except NotCarried as fault:
                    raise NotCarried(step("", name) + fault.pointer, fault.why) from None
            elif required:
                raise NotCarried(step("", name), "it is not there")
        return out

    return {"type": "Record", "attributes": attributes}, carry


def _typed(shape: Shape, looked: Looked | None) -> tuple[dict[str, Any], Carry] | None:
    match shape.kind:
        case Kind.STRING:
            return _TEXT, _plain(str)
        case Kind.BOOLEAN:
            return _BOOL, _plain(bool)
        case Kind.INTEGER:
            return _LONG, _long
        case Kind.NUMBER:
            return _DECIMAL, _decimal
        case Kind.RECORD if not shape.variants:
            return _record(shape, looked)
        case Kind.LIST if shape.item is not None and shape.item.kind not in (Kind.RECORD, Kind.LIST) and not shape.item.nullable:
            inner = _typed(shape.item, looked)
            if inner is not None:
                item = inner[1]
                return {"type": "Set", "element": inner[0]}, lambda value: [item(each) for each in value]
    return None


def _plain(kind: type) -> Carry:
    def carry(value: Any) -> Any:
        if not isinstance(value, kind):
            raise NotCarried("", f"it is no {kind.__name__}")
        return value

    return carry


def _long(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LONGEST:
        raise NotCarried("", "it is no whole number of 64 bits")
    return value


def _decimal(value: Any) -> dict[str, Any]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotCarried("", "it is no number")
    exact = Decimal(str(value))
    try:
        scaled = exact.quantize(_SMALLEST)
    except InvalidOperation:
        scaled = None
    if scaled is None or scaled != exact or abs(scaled / _SMALLEST) > _LONGEST:
        raise NotCarried("", "it has more digits than a decimal of four after the point holds")
    return {"__extn": {"fn": "decimal", "arg": format(scaled, "f")}}
