"""The life of one call, told as a person would: who asked for what, why it was allowed, what really happened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fourgates.audit.around import controls, related
from fourgates.audit.people import people
from fourgates.audit.store import Query
from fourgates.audit.telling import tell

Row: TypeAlias = dict[str, Any]

_CALL = "SELECT *, toString(asked_at) AS asked_text FROM fourgates.calls WHERE call_id = {call_id:String}"
_RECORDS = """
SELECT *, toString(at) AS at_text
FROM fourgates.records
WHERE call_id = {call_id:String} AND kind != 'invalid'
ORDER BY at, indexOf(['calls.requested', 'calls.validated', 'approvals', 'calls.cleared', 'calls.ledger', 'effects',
                      'calls.completed'], topic), offset
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happened."""

    at: str
    """Broker time, UTC."""
    who: str
    what: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answers to the three questions, and every step behind them."""

    call_id: str
    run_id: str
    title: str
    """The tool, its risk, and what became of the call."""
    asked: str
    """Who asked for what, in which words."""
    allowed: str
    """Why it was allowed, or why not."""
    people: tuple[str, ...]
    """Who was asked, what they saw, what they said; a line each."""
    happened: str
    """What really happened."""
    told: str
    """What the model was told."""
    related: tuple[str, ...]
    """Other calls with the same effect, each with its id."""
    steps: tuple[Step, ...]

    def text(self) -> str:
        """All of it, for a terminal."""
        blocks = [
            ("Who asked for what?", self.asked.splitlines()), ("Why was it allowed?", self.allowed.splitlines()),
            ("What did people see and say?", self.people), ("What really happened?", self.happened.splitlines()),
            ("What was the model told?", self.told.splitlines()), ("Which other calls are about the same?", self.related),
            ("Step by step (UTC)", tuple(_timeline(self.steps))),
        ]  # fmt: skip
        said = ["\n".join((head, *(f"  {line}".rstrip() for line in lines))) for head, lines in blocks if lines]
        return "\n\n".join((f"Call {self.call_id}\n{self.title}", *said))


def _timeline(steps: Sequence[Step]) -> Iterator[str]:
    """Each step with its time of day, and the date where it changes."""
    width, day = max((len(step.who) for step in steps), default=0), ""
    for step in steps:
        date, _, time = step.at.partition(" ")
        if date != day:
            yield date
            day = date
        yield f"{time}  {step.who:<{width}}  {step.what}"


def explain(query: Query, call_id: str) -> Explanation | None:
    """The call's life; None where the store knows no such call."""
    records = query(_RECORDS, {"call_id": call_id})
    if not records:
        return None
    for record in records:
        record["body"] = _body(record["body"])
    known = query(_CALL, {"call_id": call_id})
    call = known[0] if known else None
    told = [Step(r["at_text"], _who(r), tell(r)) for r in records]
    if call is not None:
        told += [Step(r["at_text"], r["person"] or r["writer"], f"{_SWITCHED[r['kind']]} {r['about']}: {r['reason']}")
                 for r in controls(query, call)]  # fmt: skip
        told.sort(key=lambda step: step.at)
    return Explanation(
        call_id=call_id, run_id=call["run_id"] if call else records[0]["run_id"], title=_title(call), asked=_asked(call, records),
        allowed=_allowed(call, records), people=people(records), happened=_happened(call, records), told=_told(call),
        related=related(query, call, records) if call else (), steps=tuple(told),
    )  # fmt: skip


_SWITCHED = {"disable": "switches off", "enable": "switches on", "stop": "stops"}


def _title(call: Row | None) -> str:
    if call is None:
        return "no gate has vouched for it"
    risk = f", {call['risk']}" if call["risk"] else ""
    version = f", version {call['tool_version'][:12]}" if call["tool_version"] else ""
    return f"{call['tool'] or 'a tool'}{risk}{version}: {call['status'].replace('_', ' ')}; run {call['run_id']}"


def _asked(call: Row | None, records: list[Row]) -> str:
    request = next((r for r in records if r["record"] == "CallRequested" and r["kind"] == "call"), None)
    words = _words(request)
    if call is None:
        return f"A request for {records[0]['tool'] or 'a tool'} that proved nothing (yet).{words}"
    agent = f" through the agent {call['agent']}" if call["agent"] else ""
    person = f" ({call['person']})" if call["person"] not in ("", call["subject"]) else ""
    arguments = call["arguments"] or (request["arguments"] if request else "")
    when = f" on {call['asked_text'][:10]} at {call['asked_text'][11:19]}"
    who = f"{call['subject'] or 'somebody'}{person} of {call['tenant'] or '?'}{agent}"
    return f"{who} asked for {call['tool']} {arguments}{when}.{words}{_intent(call, request)}"


def _intent(call: Row, request: Row | None) -> str:
    """What the run is for, where that says more than the user's last words."""
    intent = call["intent"] or (request["intent"] if request else "")
    return f"\nThe run is for: “{intent}”" if intent and intent not in _words(request) else ""


def _words(request: Row | None) -> str:
    if request is None:
        return ""
    turns = request["body"].get("user_turns") or []
    said = turns[-1] if turns else request["intent"]
    return f"\nIn these words: “{said}”" if said else ""


def _allowed(call: Row | None, records: list[Row]) -> str:
    if call is None:
        return "It was not."
    if not call["cleared"]:
        if call["status"] == "open":
            return "It is not decided yet."
        return f"It was not: {_no(records)}." if _no(records) else "It was not."
    why = []
    if call["rules"]:
        why.append(f"the business rules {', '.join(call['rules'])} held")
    if call["policies"]:
        why.append(f"the policies {', '.join(call['policies'])} permit it")
    if call["approvers"]:
        why.append(f"{', '.join(call['approvers'])} approved what they were shown")
    yes = ("Because " + "; ".join(why) + ".") if why else "The gates cleared it."
    return f"{yes}\nYet it went no further: {_no(records)}." if call["status"] == "refused" and _no(records) else yes


def _no(records: Sequence[Row]) -> str:
    """Who ended it and how, where somebody did."""
    ending = (r for r in records if r["record"] == "LedgerEntry" and r["kind"] in ("Refused", "Cancelled"))
    refused = next(ending, None)
    return f"the {refused['writer']} {tell(refused)}" if refused else ""


_HAPPENED: dict[str, Callable[[Row], str]] = {
    "committed": lambda c: f"It {'ran' if c['risk'] == 'read' else 'ran and took effect'} ({_attempts(c)}).",
    "failed": lambda c: f"It ran and failed without an effect ({_attempts(c)}).",
    "not_applied": lambda c: f"It was in doubt; a person found that it had not taken effect ({_attempts(c)}).",
    "refused": lambda c: f"It did not take effect: {c['outcome_code'] or c['code']}.",
    "cancelled": lambda c: "It was cancelled before it took effect.",
}


def _happened(call: Row | None, records: Sequence[Row]) -> str:
    if call is None:
        return "Nothing."
    if call["phase"] == "final":
        change = call["state_change"] if call["state_change"] not in ("", "{}") else ""
        return (
            _HAPPENED[call["outcome"]](call) + (f"\nThe tool says that it changed {change}" if change else "") + _doubted(records)
        )
    if call["phase"] == "in_doubt":
        return f"It was sent, and nobody knows yet whether it took effect ({_attempts(call)})."
    return "It is being executed." if call["phase"] == "claimed" else "Nothing has run so far."


def _doubted(records: Sequence[Row]) -> str:
    doubt = next((r for r in records if r["record"] == "LedgerEntry" and r["kind"] == "InDoubt"), None)
    return f"\nFor a time nobody knew whether it had taken effect ({doubt['reason']})." if doubt else ""


def _attempts(call: Row) -> str:
    attempts = int(call["attempts"])
    if attempts == 0:
        return f"a read, {call['duration_ms']} ms" if call["risk"] == "read" else "no attempt recorded"
    return f"{attempts} attempt{'s' if attempts > 1 else ''}, {call['duration_ms']} ms"


def _told(call: Row | None) -> str:
    if call is None:
        return "Nothing."
    if not call["decided"]:
        return f"So far: {call['last_code']}." if call["last_code"] else "Nothing so far."
    told = _body(call["observation"])
    content = told.get("content")
    said = f" “{_shortened(str(content))}”" if content else ""
    cut = ", cut" if call["truncated"] else ""
    redacted = f", {call['redactions']} places redacted" if int(call["redactions"]) else ""
    size = f" ({call['output_bytes']} bytes{cut}{redacted})" if int(call["output_bytes"]) else ""
    whole = told.get("content_ref")
    where = f"\nThe whole result: fourgates results show {whole['ref']}" if isinstance(whole, dict) and whole.get("ref") else ""
    return f"{call['answered_code']}: {told.get('message', '')}{said}{size}{where}"


def _who(record: Row) -> str:
    if record["record"] == "ApprovalEvent" and record["kind"] == "Decided":
        return str(record["person"])
    return "host" if record["record"] == "CallRequested" else str(record["writer"])


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[:limit] + "…"


def _body(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
