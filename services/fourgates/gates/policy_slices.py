"""Of a large set of policies, those that could apply to a request by their scope: the others cost time and decide nothing.

Cedar looks at a policy's conditions, where errors come from, only after its scope has matched. So a policy whose scope names
another action, another principal or a group that the principal is not in neither permits, forbids nor errs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import cedarpy

_KEPT = 1024
"""Slices and answers that are remembered; principals of equal groups share a slice."""

Uid = Mapping[str, str]
"""{"type", "id"}."""


Lineage = tuple[tuple[str, str], ...]
"""An entity and what it is in, each as (type, id)."""


class Slices:
    """The slices of one set of policies, in Cedar's JSON form; policies keep their names."""

    def __init__(self, policies: Mapping[str, Any]) -> None:
        self._policies = policies
        self._chosen = lru_cache(maxsize=_KEPT)(self._choose)
        self._set = lru_cache(maxsize=_KEPT)(self._build)

    def of(self, principals: tuple[Lineage, ...], action: Lineage) -> cedarpy.PolicySet:
        """For requests of these principals, each for this action."""
        return self._set(self._chosen(principals, action))

    def _choose(self, principals: tuple[Lineage, ...], action: Lineage) -> tuple[str, ...]:
        return tuple(
            name for name, policy in self._policies.items()
            if _may_match(policy["action"], action) and any(_may_match(policy["principal"], each) for each in principals)
        )  # fmt: skip

    def _build(self, names: tuple[str, ...]) -> cedarpy.PolicySet:
        chosen = {name: self._policies[name] for name in names}
        return cedarpy.PolicySet.from_json_str(json.dumps({"staticPolicies": chosen, "templates": {}, "templateLinks": []}))


def _may_match(scope: Mapping[str, Any], entity: Lineage) -> bool:
    """False only where this part of a policy's scope cannot match the entity."""
    match scope["op"]:
        case "==" if "entity" in scope:
            return uid_pair(scope["entity"]) == entity[0]
        case "in" if "entity" in scope:
            return uid_pair(scope["entity"]) in entity
        case "in" if "entities" in scope:
            return any(uid_pair(each) in entity for each in scope["entities"])
        case "is":
            inside = scope.get("in")
            return scope["entity_type"] == entity[0][0] and (inside is None or uid_pair(inside["entity"]) in entity)
    return True  # everything, and whatever is not known here


def uid_pair(entity: Uid) -> tuple[str, str]:
    """An entity as something that can be compared and remembered."""
    return entity["type"], entity["id"]
