"""The authorizer: believes only a call that the validator sealed, and says whether it may run, and whom to ask before."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from fourgates.catalog import Catalog
from fourgates.contract.errors import Poison
from fourgates.contract.events import CallValidated
from fourgates.contract.parts import Gate
from fourgates.contract.ports import Emit, Envelope, Verifier
from fourgates.contract.seals import verdicts_fit
from fourgates.contract.stage import BaseStage
from fourgates.contract.topology import CALLS_VALIDATED
from fourgates.gates.clearance import Clear, clearance, same_tool
from fourgates.gates.permission import PolicySource
from fourgates.gates.refusal import Refusal

from .denials import Denials
from .emits import STAGE, Emits
from .settings import AuthorizerSettings


class AuthorizerStage(BaseStage):
    """Keeps no state that decides: the same validated call gives the same records, whichever worker reads it."""

    name = STAGE
    reads = CALLS_VALIDATED

    def __init__(
        self, catalog: Catalog, policies: PolicySource, verifier: Verifier, emits: Emits, settings: AuthorizerSettings
    ) -> None:
        self._catalog, self._policies, self._verifier = catalog, policies, verifier
        self._emits, self._settings = emits, settings
        self._denials = Denials()

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        validated: CallValidated = envelope.record
        call = validated.call
        if not verdicts_fit(self._verifier, call, validated.verdicts, (Gate.VALIDATOR,), envelope.time_ms):
            raise Poison("bad_verdict", "the validator's verdict does not fit the call")
        tool = same_tool(self._catalog.get(call.tool, call.tool_version), call)
        if isinstance(tool, Refusal):
            return (self._emits.refused(envelope, tool),)
        policies, deciding = self._policies.current, self._settings.approver_groups
        if (denied := self._denials.again(validated, policies.digest)) is not None:
            return (self._emits.refused(envelope, denied),)
        outcome = clearance(tool, call, validated.facts, validated.breaches, policies, deciding)
        if isinstance(outcome, Refusal):
            self._denials.remember(validated, policies.digest, outcome)
            return (self._emits.refused(envelope, outcome),)
        if isinstance(outcome, Clear):
            return (self._emits.cleared(envelope, outcome),)
        wait_ms = self._settings.wait // timedelta(milliseconds=1)
        return (self._emits.held(envelope, outcome, envelope.time_ms + wait_ms),)
