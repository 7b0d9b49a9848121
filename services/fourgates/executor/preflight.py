"""Right before dispatch: version, deadline, controls, approval, audit, landing, rules; for what waited, policy and preview."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from fourgates.catalog import Catalog, Tool
from fourgates.catalog.lookups import one_look
from fourgates.contract.canonical import canonical, digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.events import CallCleared
from fourgates.contract.parts import Call, Gate, Risk
from fourgates.contract.ports import Clock
from fourgates.executor.audit_gate import AuditGate
from fourgates.gates.business import CompiledRules
from fourgates.gates.clearance import other_approval
from fourgates.gates.control_view import ControlView
from fourgates.gates.facts import Facts
from fourgates.gates.permission import PolicySource
from fourgates.gates.preview import take_preview
from fourgates.gates.refusal import Refusal

PREVIEW_CHANGED = "preview_changed"


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything said yes: the arguments as the tool takes them, and the facts it was judged on."""

    landed: Any
    facts: Mapping[str, Any]


class Preflight:
    """The last look before the world is touched. Each step answers with a Refusal or lets the next one look."""

    def __init__(
        self, catalog: Catalog, policies: PolicySource, audit: AuditGate, controls: ControlView, clock: Clock
    ) -> None:  # fmt: skip
        self._catalog, self._policies, self._audit, self._clock = catalog, policies, audit, clock
        self._controls = controls
        self._rules = {(tool.name, tool.version): CompiledRules(tool) for tool in catalog.served()}
        self._facts = {(tool.name, tool.version): Facts(tool) for tool in catalog.served()}

    def version(self, call: Call) -> Tool | Refusal:
        """The tool as this executor serves it. The risk that counts from here on is its own."""
        tool = self._catalog.get(call.tool, call.tool_version)
        if tool is None or tool.version != call.tool_version or tool.risk is not call.risk:
            return Refusal(Code.TOOL_CHANGED, "tool_version", detail={"asked": call.tool_version})
        return tool

    def controls(self, call: Call) -> Refusal | None:
        """Neither the tool, the agent, the tenant nor the run was switched off meanwhile."""
        return self._controls.barred(call.tool, call.principal, call.run_id)

    def time(self, cleared: CallCleared, cleared_ms: int) -> float | Refusal:
        """Seconds of budget left. Waiting for people has stopped the call's clock: it runs on from the approval."""
        call = cleared.call
        end = cleared_ms + (call.deadline_ms - call.requested_ms) if cleared.hold_id else call.deadline_ms
        left = (end - self._clock.now_ms()) / 1000
        return left if left > 0 else _too_late(call)

    def deadline(self, call: Call, ends: float) -> Refusal | None:
        """There is still time, by our own monotonic clock."""
        return _too_late(call) if self._clock.monotonic() >= ends else None

    def approval(self, cleared: CallCleared) -> Refusal | None:
        """An approval is used before it expires."""
        until = cleared.approved_until_ms
        if cleared.hold_id and until is not None and self._clock.now_ms() >= until:
            return Refusal(Code.APPROVAL_EXPIRED, "approval_too_old")
        return None

    async def audit(self, tool: Tool, partition: int, fence: int) -> Refusal | None:
        """The audit store keeps up."""
        return await self._audit.check(tool.risk, partition, fence)

    def landing(self, tool: Tool, call: Call) -> tuple[Any, dict[str, Any]] | Refusal:
        """The second, independent check: the strict typed model; and what is passed is what was digested and claimed."""
        arguments = json.loads(call.arguments)
        if digest_bytes(canonical(arguments)) != call.args_digest:
            return Refusal(Code.INTERNAL, "args_digest")
        if tool.effect_key(call.principal.tenant, arguments, call.args_digest, call.call_id) != call.effect_key:
            return Refusal(Code.INTERNAL, "effect_key")
        try:
            return tool.land(arguments), arguments
        except ValidationError as fault:
            where = "/" + "/".join(str(part) for part in fault.errors()[0]["loc"])
            return Refusal(Code.INVALID_ARGUMENTS, "typed_model", field=where)

    async def rules(self, tool: Tool, call: Call, landed: Any, arguments: dict[str, Any]) -> Ready | Refusal:
        """The business rules once more, on fresh facts, through the validator's own function."""
        facts = await self._facts[tool.name, tool.version].gather(landed, call.principal)
        if isinstance(facts, Refusal):
            return facts
        refusal = self._rules[tool.name, tool.version].judge(
            arguments, call.principal, facts, call.origins, call.intent, self._clock.now_ms()
        )
        return refusal or Ready(landed, facts)

    def policy(self, cleared: CallCleared, ready: Ready) -> Refusal | None:
        """For what waited: the policies still permit it, and ask for nobody else's yes."""
        if not cleared.hold_id:
            return None
        permit = self._policies.current.authorize(cleared.call, json.loads(cleared.call.arguments), ready.facts)
        return permit if isinstance(permit, Refusal) else other_approval(permit, cleared.verdicts)

    async def preview(self, tool: Tool, cleared: CallCleared) -> Refusal | None:
        """For what waited: the preview's binding fields are what people saw."""
        shown = next((v.preview_digest for v in cleared.verdicts if v.gate is Gate.WAITER), "")
        if not cleared.hold_id or not shown:  # people said yes without a preview, and saw that there was none
            return None
        now = await take_preview(tool, cleared.call, tool.facts_timeout.total_seconds())
        if now.fault:
            return Refusal(Code.UNAVAILABLE, "preview_unavailable", detail={"fault": now.fault})
        return Refusal(Code.APPROVAL_EFFECT_CHANGED, PREVIEW_CHANGED) if now.digest != shown else None

    async def check(self, tool: Tool, cleared: CallCleared, ends: float, partition: int, fence: int) -> Ready | Refusal:
        """Everything that is looked at between the claims and the first attempt, in this order, within the call's budget.

        The seals were judged when the record came in, and they and the version say which tool this is. Claim, lease, wish to
        stop, controls and deadline are looked at once more right before each send: `Runner`.
        """
        try:
            async with asyncio.timeout(max(0.0, ends - self._clock.monotonic())) as budget:
                return await self._sequence(tool, cleared, ends, partition, fence)
        except TimeoutError:
            if not budget.expired():
                raise
            return _too_late(cleared.call)

    async def _sequence(self, tool: Tool, cleared: CallCleared, ends: float, partition: int, fence: int) -> Ready | Refusal:
        call = cleared.call
        refusal = self.deadline(call, ends) or self.controls(call) or self.approval(cleared)
        refusal = refusal or await self.audit(tool, partition, fence)
        if refusal is not None:
            return refusal
        landed = self.landing(tool, call)
        if isinstance(landed, Refusal):
            return landed
        with one_look():
            ready = await self.rules(tool, call, *landed)
            if isinstance(ready, Refusal):
                return ready
            return self.policy(cleared, ready) or await self.preview(tool, cleared) or ready


def _too_late(call: Call) -> Refusal:
    """A read changes nothing: its time is over, and the same key may be asked again with more of it."""
    return Refusal(Code.TIMEOUT if call.risk is Risk.READ else Code.BUDGET_EXHAUSTED, "deadline")
