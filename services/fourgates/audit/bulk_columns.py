"""What each record says as columns, in SQL over its Avro form: `fields.py` once more, for records that are plainly in order.

Only for what is common and sealed by a stage: what people say, what was approved, resolved, switched or buried is left to
`fields.py`, as is every text that is not certainly harmless. A property test holds both to the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fourgates.audit.columns import COLUMNS, EMPTY
from fourgates.audit.fields import RAW_ARGUMENTS_CHARS
from fourgates.audit.rows import OWN_ID
from fourgates.contract.codes import CODES
from fourgates.contract.events import EffectKind, LedgerEntry, LedgerKind, RequestKind
from fourgates.contract.parts import Risk
from fourgates.contract.seals import RUN_KEY_ID, writers_of
from fourgates.contract.topology import CALLS_CLEARED, CALLS_COMPLETED, CALLS_LEDGER, CALLS_REQUESTED, CALLS_VALIDATED, EFFECTS


@dataclass(frozen=True, slots=True)
class Mapped:
    """How one topic's records become rows. All are expressions over `r`, the record, and `place`, where it lay."""

    record: str
    key: str
    """The record's own Kafka key."""
    columns: Mapping[str, str]
    """Those that the record fills."""
    texts: str = "emptyArrayString()"
    """What users, models and tools said in it: an array."""
    tool: str = "''"
    """Whose contract names the kinds of personal data."""
    call_id: str = "''"
    rest: str = "0"
    """True for what is not mapped here."""
    also: Mapping[str, str] = field(default_factory=dict)
    """Further names for the expressions above."""
    writers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Who may write it, by kind; under '' for every kind."""


def _keyed(text: str) -> str:
    return f"if({text} = '', '', {_digest(text)})"


def _digest(text: str) -> str:
    """HMAC-SHA256 as RFC 2104 has it: the engine's own function sets the key up for each row, for three times the cost."""
    return f"lower(hex(substring(SHA256(concat(pads.2, SHA256(concat(pads.1, {text})))), 1, 16)))"


def _effect_key(key: str) -> str:
    readable = f"extract({key}, '(?s)^.*/')"
    return f"if({key} = '', '', concat({readable}, {_digest(f'substring({key}, length({readable}) + 1)')}))"


def _json(text: str) -> str:
    return f"if(isValidJSON({text}), JSONExtractRaw({text}), toJSONString({text}))"


def _unlike(*texts: str) -> str:
    """JSON that the engine may write in another way than Python does."""
    return " OR ".join(f"match({text}, {quoted(_OTHERWISE)})" for text in texts)


def _object(**members: str) -> str:
    """A JSON object of members that are JSON already."""
    parts = ", ',', ".join(f"'\"{name}\":', {value}" for name, value in members.items())
    return f"concat('{{', {parts}, '}}')" if members else "'{}'"


def _array(of: str, each: str) -> str:
    """A JSON array of `each`, JSON over `x`."""
    return f"concat('[', arrayStringConcat(arrayMap(x -> {each}, {of}), ','), ']')"


def _origins(of: str) -> str:
    names = ("pointer", "origin", "source", "quote")
    return _array(of, _object(**{name: f"toJSONString(x.{name})" for name in names}))


def _actions(of: str) -> str:
    return f"if(isNull({of}), 'null', toJSONString({of}.listed))"


def _steering(text: str) -> str:
    """Control characters, whose escapes the engine spells in its own way."""
    return f"match({text}, '[\\\\x00-\\\\x1f]')"


def _odd_claims(of: str) -> str:
    return f"arrayExists(x -> {_steering('x.call_id')}, {of})"


def _claims(of: str) -> str:
    return _array(of, _object(call_id="toJSONString(x.call_id)", fence="toString(x.fence)"))


def _verdicts(of: str) -> str:
    return _array(
        of,
        _object(
            gate="toJSONString(x.gate)", key_id="toJSONString(x.key_id)", at_ms="toString(x.at_ms)", reasons=_json("x.reasons"),
            obligations="toJSONString(x.obligations)",
        ),
    )  # fmt: skip


def _why(verdicts: str) -> dict[str, str]:
    def last(name: str) -> str:
        """Of the last verdict that says something of that name."""
        found = f"arrayLast(x -> JSONType(x.reasons, '{name}') = 'Array', {verdicts})"
        return f"JSONExtract({found}.reasons, '{name}', 'Array(String)')"

    digests = "JSONType(x.reasons, 'policies_digest') = 'String' OR JSONType(x.reasons, 'digest') = 'String'"
    said = f"arrayLast(x -> {digests}, {verdicts}).reasons"
    return {
        "rules": last("rules"),
        "policies": last("policies"),
        "policies_digest": f"if(JSONHas({said}, 'policies_digest'), JSONExtractString({said}, 'policies_digest'),"
        f" JSONExtractString({said}, 'digest'))",
        "obligations": f"arrayFlatten(arrayMap(x -> x.obligations, {verdicts}))",
    }


def _by_people(verdicts: str) -> str:
    """Verdicts that bear on what people saw, or of a gate that nobody knows."""
    unusual = f"x.gate NOT IN ('validator', 'authorizer') OR x.preview_digest != '' OR {_unlike('x.reasons')}"
    unusual += f" OR {_steering('concat(x.key_id, x.reasons, arrayStringConcat(x.obligations))')}"
    return f"arrayExists(x -> {unusual}, {verdicts})"


def _unknown(word: str, words: type[StrEnum]) -> str:
    return f"{word} NOT IN ({', '.join(quoted(one.value) for one in words)})"


def _call(call: str) -> dict[str, str]:
    who = f"{call}.principal"
    return {
        "call_id": f"{call}.call_id", "run_id": f"{call}.run_id", "tool_call_id": f"{call}.tool_call_id",
        "tenant": f"{who}.tenant", "subject": f"{who}.subject", "person": f"{who}.person", "agent": f"{who}.agent",
        "service": f"{who}.service", "groups": f"{who}.groups", "tool": f"{call}.tool", "tool_version": f"{call}.tool_version",
        "risk": f"{call}.risk", "intent": f"{call}.intent", "arguments": f"{call}.arguments",
        "args_digest": _keyed(f"{call}.args_digest"), "effect_key": _effect_key(f"{call}.effect_key"),
        "deadline_ms": f"{call}.deadline_ms",
    }  # fmt: skip


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _coded(code: str, what: str) -> str:
    """`class` or `final` of a code; empty or false where nobody knows it."""
    known = "[" + ", ".join(quoted(one.value) for one in CODES) + "]"
    if what == "class":
        return f"transform({code}, {known}, [{', '.join(quoted(info.code_class.value) for info in CODES.values())}], '')"
    return f"transform({code}, {known}, [{', '.join(str(int(info.final)) for info in CODES.values())}], 0)"


def _short(text: str, size: int = 256) -> str:
    return f"substringUTF8({text}, 1, {size})"


_OTHERWISE = r"[0-9][eE][+-]?[0-9]|\.[0-9]*0(?:[^0-9]|$)|[0-9]{16}|NaN|Infinity|\\u"
_ORIGIN_TEXTS = "arrayFlatten(arrayMap(x -> [x.pointer, x.origin, x.source, x.quote], {of}))"
_ACTION_TEXTS = "ifNull({of}.listed, emptyArrayString())"


def _requested() -> Mapped:
    return Mapped(
        record="CallRequested", key="r.call_id", tool="r.tool", call_id="r.call_id",
        rest=f"length(r.arguments) > {RAW_ARGUMENTS_CHARS // 4} OR {_unknown('r.kind', RequestKind)}",
        texts=f"arrayConcat([r.intent, r.arguments], r.user_turns, {_ORIGIN_TEXTS.format(of='r.origins')},"
        f" {_ACTION_TEXTS.format(of='r.allowed_actions')})",
        columns={
            "kind": "r.kind", "call_id": _short("r.call_id"), "run_id": _short("r.run_id"),
            "tool_call_id": _short("r.tool_call_id"), "tool": _short("r.tool"), "intent": "r.intent", "arguments": "r.arguments",
            "args_digest": _digest("r.arguments"), "deadline_ms": "r.deadline_ms",
            "body": _object(
                user_turns="toJSONString(r.user_turns)", origins=_origins("r.origins"),
                allowed_actions=_actions("r.allowed_actions"),
            ),
        },
        writers={"": frozenset({RUN_KEY_ID})},
    )  # fmt: skip


def _validated() -> Mapped:
    breaches = _array(
        "r.breaches",
        _object(
            pointer="toJSONString(x.pointer)", origin="toJSONString(x.origin)", allowed="toJSONString(x.allowed)",
            on_breach="toJSONString(x.on_breach)", source="toJSONString(x.source)", quote="toJSONString(x.quote)",
        ),
    )  # fmt: skip
    breach_texts = (
        "arrayFlatten(arrayMap(x -> arrayConcat([x.pointer, x.origin, x.on_breach, x.source, x.quote], x.allowed), r.breaches))"
    )
    return Mapped(
        record="CallValidated", key="r.call.call_id", tool="r.call.tool", call_id="r.call.call_id",
        rest=f"{_by_people('r.verdicts')} OR {_unknown('r.call.risk', Risk)} OR {_unlike('r.facts')}",
        texts=f"arrayConcat([r.call.intent, r.call.arguments, r.facts], {breach_texts},"
        f" {_ORIGIN_TEXTS.format(of='r.call.origins')}, {_ACTION_TEXTS.format(of='r.call.allowed_actions')})",
        columns=_call("r.call") | _why("r.verdicts") | {
            "kind": "'validated'",
            "body": _object(
                facts_ms="toString(r.facts_ms)", verdicts=_verdicts("r.verdicts"), facts=_json("r.facts"), breaches=breaches,
                origins=_origins("r.call.origins"), allowed_actions=_actions("r.call.allowed_actions"),
            ),
        },
        writers={"": writers_of(CALLS_VALIDATED, _ANY)},
    )  # fmt: skip


def _cleared() -> Mapped:
    return Mapped(
        record="CallCleared", key="r.call.call_id", tool="r.call.tool", call_id="r.call.call_id",
        rest=f"r.kind != 'cleared' OR notEmpty(r.approvers) OR isNotNull(r.resolution) OR {_odd_claims('r.supersedes')}"
        f" OR {_by_people('r.verdicts')}"
        f" OR {_unknown('r.call.risk', Risk)}",
        texts="[r.call.intent, r.call.arguments]",
        columns=_call("r.call") | _why("r.verdicts") | {
            "kind": "r.kind", "hold_id": "r.hold_id", "hold_reason": "r.hold_reason",
            "body": _object(
                approved_until_ms="ifNull(toString(r.approved_until_ms), 'null')", supersedes=_claims("r.supersedes"),
                attempts_shown="'null'", verdicts=_verdicts("r.verdicts"),
            ),
        },
        writers={"": writers_of(CALLS_CLEARED, _ANY)},
    )  # fmt: skip


def _ledger() -> Mapped:
    about = ("tenant", "run_id", "tool_call_id", "subject", "agent", "tool", "tool_version", "risk", "args_digest")
    of_about = {name: f"ifNull(r.about.{name}, '')" for name in about}
    of_about |= {"tool": _short(of_about["tool"]), "args_digest": _keyed(of_about["args_digest"])}
    claimed, call = "claimed", "claimed_call"
    empty = {name: "0" if name in ("service", "deadline_ms") else "''" for name in _call(call)} | {"groups": "emptyArrayString()"}
    empty |= dict.fromkeys(("rules", "policies", "obligations"), "emptyArrayString()") | {"policies_digest": "''"}
    of_claim = _call(call) | _why("r.verdicts")
    columns = {
        name: f"if({claimed}, {said}, {of_about.get(name, empty[name])})" for name, said in of_claim.items() if name != "call_id"
    }
    faults = _array("r.faults", _object(field="toJSONString(x.field)", reason="toJSONString(x.reason)"))
    members = [
        f"if(r.kind = 'Claimed', concat('\"lease_ms\":', toString(r.lease_ms), ',\"verdicts\":', {_verdicts('r.verdicts')}), '')",
        f"if(r.detail = '{{}}', '', concat('\"detail\":', {_json('r.detail')}))",
        f"if(empty(r.faults), '', concat('\"faults\":', {faults}))",
    ]
    texts = "[r.reason, r.field, r.sentence, r.detail, if(r.kind = 'Finished', r.state_change, '')]"
    return Mapped(
        record="LedgerEntry", key="r.call_id", call_id="r.call_id", tool=columns["tool"],
        also={"claimed": "isNotNull(r.call)", "claimed_call": "assumeNotNull(r.call)"},
        rest=f"{_by_people('r.verdicts')} OR ({claimed} AND {_unknown('claimed_call.risk', Risk)}) OR {_unlike('r.detail')}",
        texts=f"arrayConcat({texts}, arrayFlatten(arrayMap(x -> [x.field, x.reason], r.faults)),"
        f" if({claimed}, [{call}.intent, {call}.arguments], emptyArrayString()))",
        columns=columns | {
            "kind": "r.kind", "call_id": "r.call_id", "code": "r.code", "code_class": _coded("r.code", "class"),
            "final": f"r.kind = 'Refused' AND {_coded('r.code', 'final')}", "claim_id": "r.claim_id", "attempt": "r.attempt",
            "sent_by": "r.by", "vouches": "r.vouches", "outcome": "r.outcome", "reason": "r.reason", "field": "r.field",
            "sentence": "r.sentence", "hold_id": "r.hold_id", "started_ms": "r.started_ms", "duration_ms": "r.duration_ms",
            "state_change": "if(r.kind = 'Finished', r.state_change, '')",
            "output_bytes": "if(r.kind = 'Finished', ifNull(r.result.size, 0), 0)",
            "body": f"concat('{{', arrayStringConcat(arrayFilter(x -> x != '', [{', '.join(members)}]), ','), '}}')",
        },
        writers={kind.value: writers_of(CALLS_LEDGER, _ledger_of(kind)) for kind in LedgerKind},
    )  # fmt: skip


def _effects() -> Mapped:
    return Mapped(
        record="EffectEntry", key="r.effect_key", call_id="r.call_id",
        rest=f"{_unknown('r.kind', EffectKind)} OR {_odd_claims('r.supersedes')}",
        columns={
            "kind": "r.kind", "effect_key": _effect_key("r.effect_key"), "call_id": "r.call_id", "fence": "r.fence",
            "claim_id": "r.claim_id", "amount": "r.amount", "subject": "r.subject",
            "body": _object(window_ms="toString(r.window_ms)", supersedes=_claims("r.supersedes")),
        },
        writers={"": writers_of(EFFECTS, _ANY)},
    )  # fmt: skip


def _completed() -> Mapped:
    told = {name: f"JSONExtractString(r.observation, '{name}')" for name in ("reason", "field", "message")}
    unusual = " OR ".join(f"JSONType(r.observation, '{name}') != 'String'" for name in told)
    unusual += " OR arrayExists(x -> NOT match(x, '^[a-z_]*$'), r.signals)"  # escapes are spelt otherwise here
    return Mapped(
        record="CallCompleted", key="concat(r.tenant, '/', r.run_id)", call_id="r.call_id",
        rest=f"NOT isValidJSON(r.observation) OR {unusual}",
        texts=f"[replaceAll(r.observation, concat('\"', r.call_id, '\"'), '\"{OWN_ID}\"')]",
        columns={
            "kind": "if(r.final, 'final', 'interim')", "final": "r.final", "call_id": "r.call_id", "run_id": "r.run_id",
            "tenant": "r.tenant", "tool_call_id": "r.tool_call_id", "code": "r.code", "code_class": _coded("r.code", "class"),
            "reason": told["reason"], "field": told["field"], "sentence": told["message"],
            "replayed": "JSONExtractBool(r.observation, 'replayed')", "observation": "r.observation",
            "observation_digest": _digest("r.observation"), "output_bytes": "r.output_bytes", "truncated": "r.truncated",
            "redactions": "r.redactions",
            "body": "if(empty(r.signals), '{}', concat('{\"signals\":', toJSONString(r.signals), '}'))",
        },
        writers={"": writers_of(CALLS_COMPLETED, _ANY)},
    )  # fmt: skip


def _ledger_of(kind: LedgerKind) -> LedgerEntry:
    return LedgerEntry(event_id="", producer="", kind=kind, call_id="")


_ANY = _ledger_of(LedgerKind.BARRIER)
"""Stands for a record of a topic that only certain writers may write, whatever it says."""

MAPPED: Mapping[str, Mapped] = {
    CALLS_REQUESTED: _requested(), CALLS_VALIDATED: _validated(), CALLS_CLEARED: _cleared(), CALLS_LEDGER: _ledger(),
    EFFECTS: _effects(), CALLS_COMPLETED: _completed(),
}  # fmt: skip
"""The topics that are mapped here; the others are rare."""


def column_expressions(topic: str, made_by: str) -> list[str]:
    """Every column of a row, in the order of COLUMNS. `made_by` is the build's name."""
    mapped = MAPPED[topic]
    said = {**_placed(topic, mapped), **mapped.columns, "made_by": quoted(made_by)}
    return [f"{said.get(name, _empty(name))} AS `{name}`" for name in COLUMNS]


def _placed(topic: str, mapped: Mapped) -> dict[str, str]:
    cause = {name: f"r.cause.{name}" for name in ("event_id", "topic", "partition", "offset")}
    return {
        "topic": quoted(topic), "partition": "partition", "offset": "offset", "at": "fromUnixTimestamp64Milli(at_ms, 'UTC')",
        "record": quoted(mapped.record), "event_id": "r.event_id", "writer": "writer", "producer": _short("r.producer"),
        "cause_event_id": f"ifNull({cause['event_id']}, '')", "cause_topic": f"ifNull({cause['topic']}, '')",
        "cause_partition": f"ifNull({cause['partition']}, 0)", "cause_offset": f"ifNull({cause['offset']}, 0)",
        "trace_id": "trace_id", "value_digest": "value_digest", "value_bytes": "value_bytes",
    }  # fmt: skip


def _empty(name: str) -> str:
    value = EMPTY[name]
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "emptyArrayString()"
    return "''" if value == "" else str(int(value))
