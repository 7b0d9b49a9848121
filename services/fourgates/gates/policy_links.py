"""Templates of policies, filled in: one sentence about `?principal` and `?resource`, said of many.

Links are JSON in the form of the Cedar command line (`--template-linked`): a list of
`{"template_id": "...", "link_id": "...", "args": {"?principal": "Fourgates::User::\"acme/anna\"", "?resource": "..."}}`.
Each becomes a policy of its own in its template's place, with the template's annotations and the link's id, so that it is
checked, explained and waived like every other.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import cedarpy

from fourgates.contract.errors import ConfigurationError

_KEYS = {"template_id", "link_id", "args"}
_SLOTS = {"?principal": "principal", "?resource": "resource"}


def filled_in(parsed: Mapping[str, Any], links: str) -> str:
    """The policies as Cedar text without templates. `parsed`: Cedar's JSON of them. Raises ConfigurationError naming the link."""
    templates = {str(template.get("annotations", {}).get("id") or name): name for name, template in parsed["templates"].items()}
    uses: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, link in enumerate(_read(links), 1):
        if not isinstance(link, dict) or set(link) != _KEYS or not isinstance(link["args"], dict):
            raise ConfigurationError(f"policy links: link {number} must have template_id, link_id and args, and nothing else")
        name = templates.get(str(link["template_id"]))
        if name is None:
            known = ", ".join(sorted(templates)) or "none"
            raise ConfigurationError(
                f"policy links: {link['link_id']!r} fills in {link['template_id']!r}; templates are: {known}"
            )
        uses[name].append(_instance(parsed["templates"][name], link))
    every = {**parsed["staticPolicies"], **parsed["templates"]}
    out: list[str] = []
    for name in sorted(every, key=lambda name: int(name.removeprefix("policy"))):
        out += [_text(policy) for policy in (uses[name] if name in parsed["templates"] else [every[name]])]
    return "".join(out)


def _read(links: str) -> list[Any]:
    try:
        found = json.loads(links)
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(f"policy links: not JSON ({type(fault).__name__})") from None
    if not isinstance(found, list):
        raise ConfigurationError("policy links: not a list of links")
    return found


def _instance(template: Mapping[str, Any], link: Mapping[str, Any]) -> dict[str, Any]:
    own, args = str(link["link_id"]), dict(link["args"])
    policy = {**template, "annotations": {**template.get("annotations", {}), "id": own}}
    for slot, part in _SLOTS.items():
        scope = policy[part]
        if scope.get("slot") != slot:
            continue
        if slot not in args:
            raise ConfigurationError(f"policy links: {own!r} leaves {slot} open")
        given = {name: value for name, value in scope.items() if name != "slot"}
        policy[part] = {**given, "entity": _entity(own, args.pop(slot))}
    if args:
        raise ConfigurationError(f"policy links: {own!r} gives {', '.join(sorted(args))}, which its template does not ask for")
    return policy


def _entity(link: str, uid: Any) -> Any:
    """`Type::"id"` as Cedar's JSON has it."""
    try:
        parsed = json.loads(cedarpy.policies_to_json_str(f"permit (principal == {uid}, action, resource);"))
        (policy,) = parsed["staticPolicies"].values()
        return policy["principal"]["entity"]
    except (ValueError, KeyError) as fault:
        raise ConfigurationError(f'policy links: {link!r}: {uid!r} is no entity such as Fourgates::User::"acme/anna"') from fault


def _text(policy: Mapping[str, Any]) -> str:
    return cedarpy.policies_from_json_str(
        json.dumps({"staticPolicies": {"policy0": policy}, "templates": {}, "templateLinks": []})
    )
