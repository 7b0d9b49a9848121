"""Puts the validator together from what it needs of the world."""

from __future__ import annotations

from fourgates.catalog import Catalog
from fourgates.contract.ports import Clock, Log, Signer
from fourgates.gates.business import CompiledRules
from fourgates.gates.control_view import ControlView
from fourgates.gates.facts import Facts
from fourgates.gates.format import ArgumentCheck

from .emits import Emits
from .settings import ValidatorSettings
from .stage import Grants, ToolGate, ValidatorStage


def build(
    *,
    catalog: Catalog,
    log: Log,
    grants: Grants,
    signer: Signer,
    clock: Clock,
    producer: str,
    settings: ValidatorSettings | None = None,
) -> ValidatorStage:
    """The validator. On `log` it follows the controls.

    Raises ConfigurationError where a schema or a rule of the catalog does not compile.
    """
    settings = settings or ValidatorSettings()
    gates = {
        tool.name: ToolGate(tool, ArgumentCheck(tool, settings.limits), CompiledRules(tool), Facts(tool)) for tool in catalog
    }
    return ValidatorStage(gates, ControlView(log), grants, clock, Emits(producer, signer), settings)
