"""Leaving policies out of a request must not change its answer."""

from __future__ import annotations

import json
from typing import Any

import cedarpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fourgates.gates.policy_slices import Slices, uid_pair

GROUPS = ("support", "finance")
PRINCIPALS = ({"type": "N::User", "id": "t/anna"}, {"type": "N::User", "id": "t/bert"}, {"type": "N::Agent", "id": "t/anna"})
ACTIONS = {"look": "read", "pay": "write", "read": "read"}
"""Action -> the group that it is in; the third is named like a group."""

OTHER = (("N::Agent", "t/bot"),)
"""Somebody whose request shares the slice."""

principal_scopes = st.sampled_from([
    "principal", 'principal == N::User::"t/anna"', 'principal == N::Agent::"t/anna"', "principal is N::User",
    "principal is N::Agent", 'principal in N::Group::"support"',
    'principal is N::User in N::Group::"finance"', 'principal in N::User::"t/bert"',
])  # fmt: skip
action_scopes = st.sampled_from([
    "action", 'action == N::Action::"look"', 'action == N::Action::"pay"', 'action in N::Action::"write"',
    'action in [N::Action::"read", N::Action::"pay"]',
])  # fmt: skip
conditions = st.sampled_from(
    [
        "",
        "when { context.n > 5 }",
        "unless { context.n > 5 }",
        "when { context.n + 9223372036854775807 > 0 }",
        "when { context.gone }",
    ]
)
policies = st.tuples(st.sampled_from(["permit", "forbid"]), principal_scopes, action_scopes, conditions).map(
    lambda parts: f"{parts[0]} ({parts[1]}, {parts[2]}, resource) {parts[3]};"
)


def entities(groups: list[str]) -> str:
    def entity(kind: str, name: str, *parents: tuple[str, str]) -> dict[str, Any]:
        above = [{"type": f"N::{above}", "id": each} for above, each in parents]
        return {"uid": {"type": f"N::{kind}", "id": name}, "attrs": {}, "parents": above}

    users = [entity("User", name, *(("Group", group) for group in groups)) for name in ("t/anna", "t/bert")]
    actions = [entity("Action", "look", ("Action", "read")), entity("Action", "pay", ("Action", "write"))]
    return json.dumps([*users, entity("Agent", "t/anna"), *actions, entity("Action", "read"), entity("Action", "write")])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(policies, max_size=12), st.sampled_from(PRINCIPALS), st.sampled_from(sorted(ACTIONS)),
    st.lists(st.sampled_from(GROUPS), unique=True), st.integers(0, 9),
)  # fmt: skip
def test_a_slice_answers_like_the_whole_set(
    texts: list[str], who: dict[str, str], action: str, groups: list[str], n: int
) -> None:
    """P2: the same decision, for the same reasons, with the same errors."""
    text = "\n".join(texts)
    slices = Slices(json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"])
    parents = tuple(("N::Group", group) for group in groups) if who["type"] == "N::User" else ()
    chosen = slices.of((OTHER, (uid_pair(who), *parents)), (("N::Action", action), ("N::Action", ACTIONS[action])))
    request = {"principal": who, "action": {"type": "N::Action", "id": action}, "resource": 'N::Tool::"x"', "context": {"n": n}}
    whole, part = (cedarpy.is_authorized(request, each, entities(groups)) for each in (text, chosen))
    assert part.decision == whole.decision
    assert sorted(part.diagnostics.reasons) == sorted(whole.diagnostics.reasons)
    assert sorted(part.diagnostics.errors) == sorted(whole.diagnostics.errors)


def test_what_cannot_match_is_left_out() -> None:
    """P2: else nothing would be saved."""
    text = "\n".join(f'permit (principal in N::Group::"g{number}", action, resource);' for number in range(100))
    slices = Slices(json.loads(cedarpy.policies_to_json_str(text))["staticPolicies"])
    who = {"type": "N::User", "id": "t/anna"}
    chosen = slices.of(((uid_pair(who), ("N::Group", "g7")),), (("N::Action", "look"),))
    assert list(chosen.to_pst().static_policies) == ["policy7"]
