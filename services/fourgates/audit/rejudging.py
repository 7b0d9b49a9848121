"""A run judged again from its records in the log, by today's catalog and policies. Pure: nothing is asked, nothing runs.

Judged again are format, business rules, origins and permission, each on what the log recorded: the raw arguments, the facts, the
request's time, what the user had said. Not judged again is what depended on its moment: identity, time of arrival, switches,
facts that could not be had.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fourgates.catalog import Catalog, OnBreach, Tool
from fourgates.contract.canonical import canonical, digest_bytes
from fourgates.contract.codes import Code
from fourgates.contract.events import (
    ApprovalEvent,
    ApprovalKind,
    CallCleared,
    CallRequested,
    CallValidated,
    ClearedKind,
    LedgerEntry,
    LedgerKind,
    RequestKind,
)
from fourgates.contract.parts import Breach, Call, Gate
from fourgates.contract.ports import Envelope
from fourgates.gates.business import CompiledRules
from fourgates.gates.clearance import Clear, clearance
from fourgates.gates.format import ArgumentCheck, Limits
from fourgates.gates.origins import breaches_of, marks_for
from fourgates.gates.permission import Policies
from fourgates.gates.refusal import Refusal

_OF_THE_MOMENT = frozenset({
    Code.IDENTITY_INVALID, Code.CALL_TOO_OLD, Code.UNAVAILABLE, Code.TOOL_DISABLED, Code.RUN_STOPPED, Code.TOOL_CHANGED,
    Code.INTERNAL, Code.RATE_LIMITED, Code.TIMEOUT,
})  # fmt: skip
_SWITCHES = frozenset({"agent_disabled", "tenant_disabled"})


@dataclass(slots=True)
class Recorded:
    """What the log has of one call, as far as it can be judged again. A record that came twice counts once."""

    call_id: str
    requested: Envelope | None = None
    validated: Envelope | None = None
    refused: Envelope | None = None
    """By validator or authorizer."""
    held: Envelope | None = None
    """By the authorizer."""
    cleared: Envelope | None = None
    """By the authorizer itself."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One gate's decision on one call, then and now; the same text where it would be the same."""

    call_id: str
    tool: str
    gate: str
    """format, rules, origins or permission."""
    then: str
    now: str
    note: str = ""
    """Why it was not judged again; then `now` is empty."""

    @property
    def differs(self) -> bool:
        return not self.note and self.then != self.now


def gathered(envelopes: Iterable[Envelope], run_id: str) -> list[Recorded]:
    """The calls of that run, in the order of their first records. Other records are left out."""
    calls: dict[str, Recorded] = {}
    for envelope in sorted(envelopes, key=lambda e: (e.time_ms, e.position.offset)):
        record = envelope.record
        match record:
            case CallRequested(kind=RequestKind.CALL) if record.run_id == run_id:
                call_id, place = record.call_id, "requested"
            case CallValidated() if record.call.run_id == run_id:
                call_id, place = record.call.call_id, "validated"
            case CallCleared(kind=ClearedKind.CLEARED) if envelope.writer == "authorizer" and record.call.run_id == run_id:
                call_id, place = record.call.call_id, "cleared"
            case ApprovalEvent(kind=ApprovalKind.HELD) if envelope.writer == "authorizer" and _run_of(record) == run_id:
                call_id, place = record.call_id, "held"
            case LedgerEntry(kind=LedgerKind.REFUSED) if envelope.writer in ("validator", "authorizer") and (
                record.about is not None and record.about.run_id == run_id
            ):
                call_id, place = record.call_id, "refused"
            case _:
                continue
        found = calls.setdefault(call_id, Recorded(call_id))
        if getattr(found, place) is None:
            setattr(found, place, envelope)
    return [found for found in calls.values() if any((found.validated, found.refused))]


def _run_of(record: ApprovalEvent) -> str:
    return record.held.call.run_id if record.held else ""


class Rejudge:
    """Judges by today's rules. Raises ConfigurationError where the catalog or a rule of it does not compile."""

    def __init__(
        self, catalog: Catalog, policies: Policies, limits: Limits | None = None, deciding: frozenset[str] | None = None
    ) -> None:
        self._catalog, self._policies, self._deciding = catalog, policies, deciding
        self._checks = {tool.name: ArgumentCheck(tool, limits or Limits()) for tool in catalog}
        self._rules = {tool.name: CompiledRules(tool) for tool in catalog}

    def call(self, recorded: Recorded) -> list[Judgement]:
        """Gate by gate, as far as both then and now came."""
        refused: LedgerEntry | None = recorded.refused.record if recorded.refused else None
        by_validator = refused is not None and recorded.refused is not None and recorded.refused.writer == "validator"
        if recorded.validated is not None:
            return self._validated(recorded, recorded.validated)
        if refused is None or not by_validator:
            return []
        return [self._refused_by_validator(recorded, refused)]

    def _refused_by_validator(self, recorded: Recorded, refused: LedgerEntry) -> Judgement:
        """Of a call that never passed the first gates only the format can be judged: its facts are not kept."""
        name = refused.about.tool if refused.about else ""
        then = _said(refused.code, refused.reason, refused.field)
        gate = {Code.RULE_VIOLATED: "rules", Code.ORIGIN_REFUSED: "origins"}.get(Code(refused.code), "format")
        if Code(refused.code) in _OF_THE_MOMENT or refused.reason in _SWITCHES:
            return Judgement(recorded.call_id, name, gate, then, "", "it depended on its moment")
        if gate == "rules":
            return Judgement(recorded.call_id, name, gate, then, "", "the facts of a refused call are not kept")
        if recorded.requested is None:
            return Judgement(recorded.call_id, name, gate, then, "", "its request has left the log")
        request: CallRequested = recorded.requested.record
        arguments = self._format(request.tool, request.arguments)
        if isinstance(arguments, Refusal):
            return Judgement(recorded.call_id, name, gate, then, _refusal(arguments))
        tool = self._catalog.get(request.tool)
        if tool is None or gate != "origins":
            return Judgement(recorded.call_id, name, gate, then, "passes")
        marks = marks_for(tool, arguments, request.user_turns, request.origins)
        return Judgement(recorded.call_id, name, gate, then, _origins(breaches_of(tool, marks, request.allowed_actions)))

    def _validated(self, recorded: Recorded, envelope: Envelope) -> list[Judgement]:
        validated: CallValidated = envelope.record
        then, found = validated.call, []
        tool = self._catalog.get(then.tool)

        def judged(gate: str, was: str, now: str, note: str = "") -> None:
            found.append(Judgement(then.call_id, then.tool, gate, was, now, note))

        if tool is None:
            judged("format", "passes", _refusal(Refusal(Code.UNKNOWN_TOOL, "unknown_tool")))
            return found
        raw = recorded.requested.record.arguments if recorded.requested else then.arguments
        arguments = self._format(then.tool, raw)
        if isinstance(arguments, Refusal):
            judged("format", "passes", _refusal(arguments))
            return found
        now = self._call(tool, recorded, then, arguments)
        judged("format", _version(then), _version(now))
        facts = json.loads(validated.facts)
        broken = self._rules[tool.name].judge(arguments, now.principal, facts, now.origins, now.intent, _judged_at(validated))
        judged("rules", "hold", _refusal(broken) if broken else "hold")
        breaches = breaches_of(tool, now.origins, now.allowed_actions)
        judged("origins", _origins(validated.breaches), _origins(breaches))
        if broken is None and not any(breach.on_breach == OnBreach.REFUSE for breach in breaches):
            self._permission(recorded, now, tool, validated.facts, breaches, judged)
        return found

    def _permission(self, recorded: Recorded, now: Call, tool: Tool, facts: str, breaches: Sequence[Breach], judged: Any) -> None:
        was = _cleared_then(recorded)
        if was is None:
            judged("permission", "", "", "the authorizer's word is not in the log")
            return
        if recorded.refused is not None and Code(recorded.refused.record.code) in _OF_THE_MOMENT:
            judged("permission", was, "", "it depended on its moment")
            return
        outcome = clearance(tool, now, facts, breaches, self._policies, self._deciding)
        if isinstance(outcome, Refusal):
            said = _refusal(outcome)
        elif isinstance(outcome, Clear):
            said = _permitted(outcome.permit.policies)
        else:
            said = _asking(outcome.need.group, outcome.need.quorum, outcome.reason.value, outcome.permit.policies)
        judged("permission", was, said)

    def _format(self, name: str, raw: str) -> dict[str, Any] | Refusal:
        check = self._checks.get(name)
        return Refusal(Code.UNKNOWN_TOOL, "unknown_tool") if check is None else check.check(raw)

    @staticmethod
    def _call(tool: Tool, recorded: Recorded, then: Call, arguments: dict[str, Any]) -> Call:
        """The call as the validator would write it today."""
        text = canonical(arguments)
        args_digest, origins = digest_bytes(text), then.origins
        if recorded.requested is not None:
            request: CallRequested = recorded.requested.record
            origins = marks_for(tool, arguments, request.user_turns, request.origins)
        return dataclasses.replace(
            then, tool_version=tool.version, risk=tool.risk, arguments=text.decode(), args_digest=args_digest, origins=origins,
            effect_key=tool.effect_key(then.principal.tenant, arguments, args_digest, then.call_id),
        )  # fmt: skip


def _judged_at(validated: CallValidated) -> int:
    """The request's broker time, which was `now` for the rules."""
    return next(verdict.at_ms for verdict in validated.verdicts if verdict.gate is Gate.VALIDATOR)


def _cleared_then(recorded: Recorded) -> str | None:
    if recorded.held is not None:
        held = recorded.held.record.held
        policies = json.loads(held.detail).get("policies", ())
        return _asking(held.group, held.quorum, held.reason.value, policies)
    if recorded.cleared is not None:
        said = next(v for v in recorded.cleared.record.verdicts if v.gate is Gate.AUTHORIZER)
        return _permitted(json.loads(said.reasons).get("policies", ()))
    if recorded.refused is not None and recorded.refused.writer == "authorizer":
        entry: LedgerEntry = recorded.refused.record
        return _said(entry.code, entry.reason, entry.field)
    return None


def _version(call: Call) -> str:
    return f"passes as {call.tool}@{call.tool_version[:12]}, {call.risk}, effect {call.effect_key.rpartition('/')[0] or 'none'}"


def _permitted(policies: Sequence[str]) -> str:
    return f"cleared by {', '.join(policies)}"


def _asking(group: str, quorum: int, reason: str, policies: Sequence[str]) -> str:
    return f"held ({reason}) for {quorum} of {group}, permitted by {', '.join(policies)}"


def _origins(breaches: Sequence[Breach]) -> str:
    if not breaches:
        return "as allowed"
    said = (f"{b.pointer or 'the action'} from {b.origin.partition(':')[0]} ({b.on_breach})" for b in breaches)
    return "breached: " + ", ".join(said)


def _refusal(refusal: Refusal) -> str:
    return _said(refusal.code.value, refusal.reason, refusal.field)


def _said(code: str, reason: str, field: str) -> str:
    return f"refused: {code} ({reason})" + (f" at {field}" if field else "")
