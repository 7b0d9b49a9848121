"""Gate 3: Cedar, default deny; user and agent both need the right; an error in a policy refuses; the strictest approval wins."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import cedarpy

from fourgates.catalog import Catalog
from fourgates.contract.canonical import digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.parts import Call, Principal
from fourgates.gates.cedar_schema import Looked, NotCarried, ToolContext, agent_uid, derive, entities_of, uid, user_uid
from fourgates.gates.policy_links import filled_in
from fourgates.gates.policy_slices import Slices, uid_pair
from fourgates.gates.refusal import Refusal


class PolicySource(Protocol):
    """Where a stage gets its policies from: one set for good, or one that another may take the place of."""

    @property
    def current(self) -> Policies:
        """The set that counts now."""

    def require(self, check: Callable[[Policies], None]) -> None:
        """Each set must pass `check`, which raises ConfigurationError."""


@dataclass(frozen=True, slots=True)
class ApprovalNeed:
    """Who has to say yes, and how many of them."""

    group: str
    quorum: int


DEFAULT_APPROVAL = ApprovalNeed("approvers", 1)
"""For a write or destructive call that no determining policy waives or sends elsewhere."""
_WAIVED = "waived"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_APPROVAL = re.compile(r"(?P<group>[A-Za-z0-9][A-Za-z0-9_.-]{0,63})(?::(?P<quorum>[1-9]))?")


@dataclass(frozen=True, slots=True)
class Permit:
    """A yes, by which policies, and who still has to agree. No approvals: waived, or never needed."""

    policies: tuple[str, ...]
    digest: str
    approvals: tuple[ApprovalNeed, ...] = ()
    asked_by: str = ""
    """The policy that names the group; empty where the risk alone asks."""
    waived_by: tuple[str, ...] = ()
    """The policies by which a write or destructive call needs nobody's yes."""


@dataclass(frozen=True, slots=True)
class _Policy:
    """One policy of the text, as its annotations say."""

    id: str
    order: int
    permits: bool
    waives: bool = False
    need: ApprovalNeed | None = None


class Policies:
    """One set of policies, checked against the catalog. Build it by `load`."""

    def __init__(
        self, text: str, schema: dict[str, Any], contexts: Mapping[str, ToolContext], policies: Mapping[str, _Policy]
    ) -> None:
        self.digest = digest_bytes(text.encode())
        self._slices = Slices(_parse(text)["staticPolicies"])
        self._schema = cedarpy.Schema.from_json_str(json.dumps(schema))
        self._contexts, self._policies = contexts, policies
        self._entities = lru_cache(maxsize=1024)(self._parse_entities)

    @classmethod
    def load(cls, text: str, catalog: Catalog, links: str = "") -> Policies:
        """`links` fill in the templates of the text (`gates.policy_links`); what counts is the text that results.

        Raises ConfigurationError with the validator's sentences, for an empty set, a policy without @id, a bad @approval.
        """
        parsed = _parse(text)
        if parsed["templates"] and not links:
            raise ConfigurationError(
                "policies: a template (?principal, ?resource) allows nothing by itself; give links that fill it in"
            )
        if links:
            text = filled_in(parsed, links)
            parsed = _parse(text)
        if not parsed["staticPolicies"]:
            raise ConfigurationError("policies: the set is empty, so every call would be refused; write at least one permit")
        policies = _annotated(parsed["staticPolicies"])
        if complaints := _complaints(text, derive(catalog)[0], policies):
            raise ConfigurationError("policies: " + "; ".join(complaints))
        schema, contexts = derive(catalog, _looked_at(parsed["staticPolicies"]))
        return cls(text, schema, contexts, policies)

    @property
    def current(self) -> Policies:
        """Itself: a set that nothing takes the place of."""
        return self

    def require(self, check: Callable[[Policies], None]) -> None:
        """Raises what `check` raises for this set."""
        check(self)

    @property
    def groups(self) -> frozenset[str]:
        """The groups that policies name as approvers."""
        return frozenset(policy.need.group for policy in self._policies.values() if policy.need)

    def authorize(self, call: Call, arguments: Mapping[str, Any], facts: Mapping[str, Any]) -> Permit | Refusal:
        """Whether this principal, and the agent that acts for it, may make this call."""
        carried = self._contexts.get(call.tool)
        if carried is None:
            return self._denied("unknown_tool")
        who = call.principal
        try:
            resource = carried.resource(who.tenant, facts)
            context = json.dumps(carried.context(call, arguments, facts))
        except NotCarried as fault:
            return self._denied("not_judgeable", pointer=fault.pointer, why=fault.why)
        about = uid("Resource", resource) if resource else uid("Tool", call.tool)
        askers = [user_uid(who), agent_uid(who)] if who.agent else [user_uid(who)]
        action, entities = uid("Action", call.tool), self._entities(who, call.tool, resource)
        groups = tuple(uid_pair(uid("Group", group)) for group in who.groups)
        lineages = tuple((uid_pair(asker), *parents) for asker, parents in zip(askers, (groups, ()), strict=False))
        policies = self._slices.of(lineages, (uid_pair(action), uid_pair(uid("Action", carried.tool.risk.value))))
        requests = [{"principal": asker, "action": action, "resource": about, "context": context} for asker in askers]
        answers = cedarpy.is_authorized_batch(requests, policies, entities, self._schema)
        for asker, answer in zip(askers, answers, strict=True):
            if refusal := self._refusal(asker["type"], answer):
                return refusal
        return self._permit(call, {name for answer in answers for name in answer.diagnostics.reasons})

    def _refusal(self, asker: str, answer: cedarpy.AuthzResult) -> Refusal | None:
        errors = answer.diagnostics.errors
        if errors:  # Cedar skips a policy that errs, also a forbid, and may still answer Allow
            named = {name for error in errors for name in re.findall(r"`(policy\d+)`", error)}
            return self._denied("policy_error", asker=asker, policies=self._names(named))
        if answer.decision is cedarpy.Decision.Allow:
            return None
        forbids = self._names(answer.diagnostics.reasons)
        return self._denied(forbids[0] if forbids else "no_policy", asker=asker, policies=forbids)

    def _permit(self, call: Call, determining: set[str]) -> Permit:
        policies = sorted((self._policies[name] for name in determining), key=lambda policy: policy.order)
        names = tuple(policy.id for policy in policies)
        asking = [(policy.need, policy.id) for policy in policies if policy.need]
        if asking:  # the largest quorum; of equal ones the first in the text
            need, asked_by = max(asking, key=lambda pair: pair[0].quorum)
            return Permit(names, self.digest, (need,), asked_by)
        waived_by = tuple(policy.id for policy in policies if policy.waives)
        if not self._contexts[call.tool].tool.writes or waived_by:
            return Permit(names, self.digest, waived_by=waived_by)
        return Permit(names, self.digest, (DEFAULT_APPROVAL,))

    def _denied(self, reason: str, **detail: Any) -> Refusal:
        return Refusal(Code.PERMISSION_DENIED, reason, detail={"policies_digest": self.digest, **detail})

    def _names(self, determining: Iterable[str]) -> list[str]:
        policies = [self._policies[name] for name in determining if name in self._policies]
        return [policy.id for policy in sorted(policies, key=lambda policy: policy.order)]

    def _parse_entities(self, who: Principal, tool: str, resource: str) -> cedarpy.Entities:
        entities = entities_of(who, self._contexts[tool].tool, resource)
        return cedarpy.Entities.from_json_str(json.dumps(entities), self._schema)


def _parse(text: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = json.loads(cedarpy.policies_to_json_str(text))
    except ValueError as fault:
        raise ConfigurationError(f"policies: they do not parse: {fault}") from fault
    return parsed


def _annotated(parsed: Mapping[str, Any]) -> dict[str, _Policy]:
    found: dict[str, _Policy] = {}
    for name in sorted(parsed, key=lambda name: int(name.removeprefix("policy"))):
        policy = _policy(len(found), parsed[name])
        if policy.id in {other.id for other in found.values()}:
            raise ConfigurationError(f"policies: two policies have @id({policy.id!r}); nobody could tell which one decided")
        found[name] = policy
    return found


def _policy(order: int, parsed: Mapping[str, Any]) -> _Policy:
    annotations, permits = parsed.get("annotations", {}), parsed["effect"] == "permit"
    own = annotations.get("id") or ""
    if not _ID.fullmatch(own):
        raise ConfigurationError(
            f'policies: policy {order + 1} needs an @id("…") of letters, digits, _, - and . that explains decisions, not {own!r}'
        )
    approval = annotations.get("approval", "")
    if "approval" not in annotations:
        return _Policy(own, order, permits)
    found = _APPROVAL.fullmatch(approval or "")
    if not permits or not found or (approval != _WAIVED and found["group"] == _WAIVED):
        raise ConfigurationError(
            f'policies: @approval({approval!r}) of {own!r}; allowed, on a permit, are "waived", "GROUP", "GROUP:1" to "GROUP:9"'
        )
    if approval == _WAIVED:
        return _Policy(own, order, permits, waives=True)
    return _Policy(own, order, permits, need=ApprovalNeed(found["group"], int(found["quorum"] or 1)))


def _complaints(text: str, schema: Mapping[str, Any], policies: Mapping[str, _Policy]) -> list[str]:
    """The validator's sentences, each with the policy's own id instead of its position."""
    result = cedarpy.validate_policies(text, json.dumps(schema))
    if result.validation_passed:
        return []
    said = []
    for error in result.errors:
        own = policies[error.policy_id].id if error.policy_id in policies else ""
        said.append(f"{own!r}: {error.error.removeprefix(f'for policy `{error.policy_id}`, ')}" if own else error.error)
    return said or ["the validator refuses them without saying why"]


def _looked_at(parsed: Any) -> Looked | None:
    """What the policies look at; None where one takes the whole context."""
    names: set[str] = set()
    whole: set[str] = set()
    waiting = [(parsed, False)]
    while waiting:
        each, looked_into = waiting.pop()
        if isinstance(each, list):
            waiting += [(inner, False) for inner in each]
        if not isinstance(each, Mapping):
            continue
        if each.get("Var") == "context" and not looked_into:
            return None
        access = each.get(".")
        if isinstance(access, Mapping) and "attr" in access and not looked_into:
            whole.add(access["attr"])
        for word, inner in each.items():
            if word in (".", "has") and isinstance(inner, Mapping) and "attr" in inner:
                names.add(inner["attr"])
                waiting.append((inner["left"], True))
            else:
                waiting.append((inner, False))
    return Looked(frozenset(names), frozenset(whole))
