"""Gates 1 and 2: who asks, is it a call of this tool, does the business allow it. Remembers nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from fourgates.catalog import OnBreach, Tool
from fourgates.catalog.lookups import one_look
from fourgates.contract import ids
from fourgates.contract.canonical import canonical, digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.errors import Poison
from fourgates.contract.events import CallRequested, RequestKind
from fourgates.contract.parts import Breach, Call, CallRef, Fault, Principal
from fourgates.contract.ports import Clock, Emit, Envelope
from fourgates.contract.stage import BaseStage
from fourgates.contract.topology import CALLS_REQUESTED
from fourgates.gates.business import CompiledRules
from fourgates.gates.control_view import ControlView
from fourgates.gates.facts import Facts
from fourgates.gates.format import ArgumentCheck
from fourgates.gates.origins import breaches_of, marks_for
from fourgates.gates.placeholders import placeholder_refusal
from fourgates.gates.refusal import Refusal

from .emits import STAGE, Emits
from .settings import ValidatorSettings

_MILLISECOND = timedelta(milliseconds=1)
STALE = "The request arrived after its own deadline, so it was not looked at; ask again."
_TOLD_NAME = 200
"""As much of a tool's name as travels on where no tool has it: it is the model's own text."""


class Grants(Protocol):
    """Opens a request's grant; `gates.identity.GrantBook` is the real one."""

    def open(self, request: CallRequested, raw: bytes, at_ms: int) -> Principal | Refusal:
        """Who asks, or why they do not count. Raises Poison where nothing is proved."""

    def claimed(self, request: CallRequested) -> Principal | None:
        """Who asks by their own word: for the address of a refusal only."""


@dataclass(frozen=True, slots=True)
class ToolGate:
    """What the first two gates hold of one tool, compiled at start."""

    tool: Tool
    check: ArgumentCheck
    rules: CompiledRules
    facts: Facts


class ValidatorStage(BaseStage):
    """calls.requested to calls.validated, or a last word to the ledger."""

    name = STAGE
    reads = CALLS_REQUESTED

    def __init__(
        self, gates: Mapping[str, ToolGate], controls: ControlView, grants: Grants, clock: Clock, emits: Emits,
        settings: ValidatorSettings,
    ) -> None:  # fmt: skip
        self._gates, self._controls, self._grants, self._clock, self._emits = gates, controls, grants, clock, emits
        self._horizon_ms = settings.horizon // _MILLISECOND
        self._skew_ms = settings.clock_skew // _MILLISECOND

    async def start(self) -> None:
        await self._controls.start()

    async def close(self) -> None:
        await self._controls.close()

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        request: CallRequested = envelope.record
        who = self._grants.open(request, envelope.raw, envelope.time_ms)
        if isinstance(who, Refusal):
            return (self._emits.refused(envelope, self._address(request), who),)
        _own_call(request, who)
        gate = self._gates.get(request.tool)
        about = _about(request, who, gate)
        if request.kind is RequestKind.CANCEL:
            # Before the horizon: a call may wait for people longer than its run's key is remembered, and still be cancelled.
            return (self._emits.cancelled(envelope, about),)
        if refusal := self._too_late(request, envelope.time_ms):
            return (self._emits.refused(envelope, about, refusal),)
        if barred := self._controls.barred(request.tool, who, request.run_id):
            return (self._emits.refused(envelope, about, barred),)
        if gate is None:
            return (self._emits.refused(envelope, about, Refusal(Code.UNKNOWN_TOOL, "unknown_tool")),)
        arguments = gate.check.check(request.arguments)
        if isinstance(arguments, Refusal):
            return (self._emits.refused(envelope, about, arguments),)
        if refusal := placeholder_refusal(gate.tool, arguments):
            return (self._emits.refused(envelope, about, refusal),)
        call = _call(request, who, gate.tool, arguments, envelope.time_ms)
        return (await self._judge(envelope, gate, call, arguments),)

    def last_word(self, envelope: Envelope) -> Sequence[Emit]:
        """Refused(internal) for a request that our own code failed on; nobody is answered where the request proves nothing."""
        request: CallRequested = envelope.record
        try:
            who = self._grants.open(request, envelope.raw, envelope.time_ms)
            if isinstance(who, Refusal):
                return ()
            _own_call(request, who)
        except Poison:
            return ()
        about = _about(request, who, self._gates.get(request.tool))
        return (self._emits.refused(envelope, about, Refusal(Code.INTERNAL, "unforeseen")),)

    async def _judge(self, envelope: Envelope, gate: ToolGate, call: Call, arguments: dict[str, Any]) -> Emit:
        """Gate 2: facts, rules, origins. `now` of the rules is the request's broker time."""
        about = _about(envelope.record, call.principal, gate, call.args_digest)
        landed = gate.tool.land(arguments) if gate.tool.facts else None
        facts_ms = self._clock.now_ms()
        with one_look():
            facts = await gate.facts.gather(landed, call.principal)
        if isinstance(facts, Refusal):
            return self._emits.refused(envelope, about, facts)
        refusal = gate.rules.judge(arguments, call.principal, facts, call.origins, call.intent, envelope.time_ms)
        if refusal is not None:
            return self._emits.refused(envelope, about, refusal)
        breaches = breaches_of(gate.tool, call.origins, call.allowed_actions)
        if barred := [breach for breach in breaches if breach.on_breach == OnBreach.REFUSE]:
            return self._emits.refused(envelope, about, _origin_refused(barred))
        rules = [rule.name for rule in gate.tool.rules]
        return self._emits.validated(envelope, call, facts, facts_ms, breaches, rules)

    def _too_late(self, request: CallRequested, at_ms: int) -> Refusal | None:
        """The request's own deadline, and the horizon, which is judged here only; both by broker time."""
        if at_ms >= request.deadline_ms:
            # The host was cut off, or somebody appends an old request once more: that must not end a call that waits for people.
            late_ms = at_ms - request.deadline_ms
            return Refusal(Code.UNAVAILABLE, "stale_request", sentence=STALE, detail={"late_ms": late_ms})
        try:
            started = ids.run_started_ms(request.run_id)
        except ValueError:
            return Refusal(
                Code.INVALID_ARGUMENTS, "run_id", sentence="The run's id is not a UUIDv7; the host must start a new run."
            )
        if started > at_ms + self._skew_ms:
            return Refusal(
                Code.INVALID_ARGUMENTS, "run_id", sentence="The run's id lies in the future; the host's clock is wrong."
            )
        if started < at_ms - self._horizon_ms:
            return Refusal(Code.CALL_TOO_OLD, "horizon", detail={"age_ms": at_ms - started})
        return None

    def _address(self, request: CallRequested) -> CallRef:
        """Where the refusal of an unproven identity goes: to whom the token names, if the call is theirs at all."""
        claimed = self._grants.claimed(request)
        if claimed is None:  # whoever chose this call_id: the answer to it may be somebody else's
            raise Poison("no_claims", "its token does not say whose call it is")
        _own_call(request, claimed)
        return _about(request, claimed, self._gates.get(request.tool))


def _own_call(request: CallRequested, who: Principal) -> None:
    """The key is derived again: a host that could choose another one could end, or be answered for, somebody else's call."""
    own = ids.call_id(who.issuer, who.tenant, who.subject, who.agent, request.run_id, request.tool_call_id)
    if request.call_id != own:
        raise Poison("wrong_call_id", "the call id is not the one that these claims, run and tool call id give")


def _about(request: CallRequested, who: Principal, gate: ToolGate | None, args_digest: str = "") -> CallRef:
    """As much as is known of the call when the word falls."""
    return CallRef(
        tenant=who.tenant, run_id=request.run_id, tool_call_id=request.tool_call_id,
        subject=who.subject, agent=who.agent, tool=request.tool[:_TOLD_NAME],
        tool_version=gate.tool.version if gate else "", risk=gate.tool.risk.value if gate else "", args_digest=args_digest,
    )  # fmt: skip


def _call(request: CallRequested, who: Principal, tool: Tool, arguments: dict[str, Any], at_ms: int) -> Call:
    """The validated call: digest and effect key are taken once, here, over the normalised arguments."""
    text = canonical(arguments)
    args_digest = digest_bytes(text)
    return Call(
        call_id=request.call_id, run_id=request.run_id, tool_call_id=request.tool_call_id, principal=who,
        tool=tool.name, tool_version=tool.version, risk=tool.risk, arguments=text.decode(), args_digest=args_digest,
        effect_key=tool.effect_key(who.tenant, arguments, args_digest, request.call_id),
        origins=marks_for(tool, arguments, request.user_turns, request.origins),
        intent=request.intent, allowed_actions=request.allowed_actions, deadline_ms=request.deadline_ms, requested_ms=at_ms,
    )  # fmt: skip


def _origin_refused(breaches: Sequence[Breach]) -> Refusal:
    faults = tuple(
        Fault(field=breach.pointer, reason="origin_not_allowed" if breach.pointer else "action_not_announced")
        for breach in breaches[:10]
    )
    detail = {"breaches": [{"field": b.pointer, "origin": b.origin, "allowed": list(b.allowed)} for b in breaches]}
    return Refusal(Code.ORIGIN_REFUSED, faults[0].reason, faults[0].field, faults, detail=detail)
