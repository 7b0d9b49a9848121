"""Who works in the demo's shop. All of it is invented."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fourgates.gates.identity import APPROVALS_AUDIENCE, AUDIENCE
from fourgates.runtime.dev_issuer import DevIssuer

TENANT = "harbour"
AGENT = "support-bot"
CLERKS = ("anna", "carl")


@dataclass(frozen=True, slots=True)
class Person:
    """An account of the shop's staff."""

    name: str
    groups: tuple[str, ...]
    does: str


PEOPLE: Mapping[str, Person] = {
    "anna": Person("Anna Lind", ("support",), "support clerk; her agent is the support-bot"),
    "carl": Person("Carl Rehn", ("support",), "support clerk with customers of his own"),
    "ben": Person("Ben Okoro", ("refunds", "approvers"), "decides about refunds, messages and near duplicates"),
    "olga": Person("Olga Berg", ("refunds", "approvers", "support"), "team lead: decides, and serves customers too"),
}


def agent_token(issuer: DevIssuer, who: str) -> str:
    """What the support-bot calls with when it works for this clerk."""
    person = PEOPLE[who]
    return issuer.token(who, TENANT, person.groups, agent=AGENT, person=person.name)


def own_token(issuer: DevIssuer, who: str, audience: str = AUDIENCE) -> str:
    """A person's own token, without an agent in it."""
    person = PEOPLE[who]
    return issuer.token(who, TENANT, person.groups, person=person.name, audience=audience)


def approver_token(issuer: DevIssuer, who: str) -> str:
    """What a person decides with."""
    return own_token(issuer, who, APPROVALS_AUDIENCE)
