"""The same tools under stricter and laxer contracts: what each step of the shipped one buys, and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from corpora.agentdyn_trial.contracts import make_catalog
from fourgates.catalog import Catalog, Tool

USER_ONLY = frozenset({"user", "host"})
"""`host` is no more than the tool's own default where no results are trusted."""


def _every_argument(tool: Tool) -> Tool:
    names = tool.schema["properties"] if tool.writes else ()
    return dataclasses.replace(tool, origins=dict.fromkeys(names, USER_ONLY), trusted_results=frozenset())


def _user_only(tool: Tool) -> Tool:
    return dataclasses.replace(tool, origins=dict.fromkeys(tool.origins, USER_ONLY), trusted_results=frozenset())


def _without(*words: str) -> Callable[[Tool], Tool]:
    def less(tool: Tool) -> Tool:
        origins = {name: allowed - set(words) or USER_ONLY for name, allowed in tool.origins.items()}
        return dataclasses.replace(tool, origins=origins)

    return less


def _trust_nothing(tool: Tool) -> Tool:
    return dataclasses.replace(tool, trusted_results=frozenset())


def _trust_listings(tool: Tool) -> Tool:
    return dataclasses.replace(tool, trusted_results=frozenset({"*"})) if tool.name == "search_product" else tool


def _any_result(tool: Tool) -> Tool:
    return dataclasses.replace(tool, origins={name: allowed | {"result"} for name, allowed in tool.origins.items()})


def _free_title(tool: Tool) -> Tool:
    return dataclasses.replace(tool, origins={name: allowed for name, allowed in tool.origins.items() if name != "title"})


VARIANTS: dict[str, Callable[[Tool], Tool]] = {
    "every argument of a write from the user": _every_argument,
    "telling arguments from the user": _user_only,
    "and codes and credentials from any result": lambda tool: _trust_nothing(_without("within")(tool)),
    "and trusted results": _without("within"),
    "and beneath what the user named (shipped)": lambda tool: tool,
    "shipped, titles of events free": _free_title,
    "shipped, what is listed for sale trusted": _trust_listings,
    "shipped, anything that stands in a result": _any_result,
}
"""Name -> what it makes of each tool's shipped contract."""


def variant(change: Callable[[Tool], Tool]) -> Catalog:
    changed = Catalog("agentdyn")
    for tool in make_catalog():
        changed.add(change(tool))
    return changed
