"""Puts the authorizer together from what it needs of the world."""

from __future__ import annotations

from fourgates.catalog import Catalog
from fourgates.contract.errors import ConfigurationError
from fourgates.contract.ports import Signer, Verifier
from fourgates.gates.permission import Policies, PolicySource

from .emits import Emits
from .settings import AuthorizerSettings
from .stage import AuthorizerStage


def build(
    *,
    catalog: Catalog,
    policies: PolicySource,
    signer: Signer,
    verifier: Verifier,
    producer: str,
    settings: AuthorizerSettings | None = None,
) -> AuthorizerStage:
    """The authorizer. `signer` seals its verdicts, `verifier` checks the validator's. `policies` are loaded by the caller.

    Raises ConfigurationError where a policy names an approving group that nobody can decide for; a later set that does is
    refused the same way.
    """
    chosen = settings or AuthorizerSettings()
    groups = chosen.approver_groups

    def somebody_decides(found: Policies) -> None:
        if groups and (missing := sorted(found.groups - groups)):
            there = ", ".join(sorted(groups))
            raise ConfigurationError(
                f"approver_groups: policies ask {', '.join(missing)}, where nobody can decide; there are {there}"
            )

    policies.require(somebody_decides)
    return AuthorizerStage(catalog, policies, verifier, Emits(producer, signer), chosen)
