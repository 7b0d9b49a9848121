"""A tool's contract: everything that decides about a call of it or acts for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from fourgates.contract.canonical import canonical, digest
from fourgates.contract.ids import effect_key
from fourgates.contract.parts import Principal, Risk
from fourgates.contract.topology import EFFECT_WINDOW

from .keywords import deciding
from .limits import Quota, Rate
from .stopping import Stopping


class OnDuplicate(StrEnum):
    """What happens to a new call with an effect that another call already has."""

    HOLD = "hold"
    REPLAY = "replay"
    REFUSE = "refuse"


class OnChange(StrEnum):
    """What happens where the effect that people said yes to is another one right before dispatch."""

    REFUSE = "refuse"
    HOLD = "hold"
    """People are asked once more about what it would be now; their first yes counts for nothing any more."""


class OnBreach(StrEnum):
    HOLD = "hold"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Rule:
    """A business rule in CEL over `args, principal, facts, origins, intent, now`; only a literal true passes."""

    name: str
    expression: str
    sentence: str
    """What the model is told where the rule says no."""
    field: str = ""
    """JSON Pointer of the argument that it is about."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What may happen only once. `parts` are templates over the arguments, such as `{order_id}`; none: all arguments."""

    name: str
    parts: tuple[str, ...] = ()
    window: timedelta = EFFECT_WINDOW
    on_duplicate: OnDuplicate = OnDuplicate.HOLD
    per_call: bool = False
    """True: each call is an effect of its own; a repeat under a new tool_call_id is not noticed."""


@dataclass(frozen=True, slots=True)
class OutputLimit:
    """How much of a result a model gets."""

    bytes: int = 16_384
    lines: int | None = None
    items: int | None = None
    """Of each list of a JSON result, so many items from its beginning and its end; what is shown stays JSON."""


@dataclass(slots=True)
class ToolContext:
    """What a tool gets beside its arguments. Never the caller's token."""

    key: str
    """The call's idempotency key, the same on every attempt: hand it to the downstream."""
    fence: int
    """The claim's position: a downstream may refuse a lower one than it has seen. -1 for a read."""
    deadline_ms: int
    """Absolute end of this attempt, ms since the epoch."""
    principal: Principal
    precondition: Mapping[str, Any] = field(default_factory=dict)
    """The facts that the rules were checked on, for optimistic versions."""
    attempt: int = 1
    run_id: str = ""
    """The run that the call belongs to."""
    stopping: Stopping = field(default_factory=Stopping)
    """The wish that this attempt ends, for tools that run in a thread, and how many seconds are left of it."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """One registered tool. Build it through `Catalog.tool`, which refuses contradictions."""

    name: str
    description: str
    risk: Risk
    schema: Mapping[str, Any]
    """JSON Schema 2020-12 of the arguments, closed: unknown fields are refused at any depth."""
    model: type[BaseModel] | None
    """The strict typed model that the executor lands the arguments in; None where only the schema exists."""
    run: Callable[..., Any]
    """`run(args, ctx)`, async or sync; args is an instance of `model`, else a dict."""
    timeout: timedelta
    output: OutputLimit = OutputLimit()
    facts: Callable[..., Any] | None = None
    """`facts(args, principal) -> dict`, read-only, async or sync."""
    facts_timeout: timedelta = timedelta(seconds=2)
    facts_at_once: int = 16
    """How many calls of one process may ask the provider at once; the others wait within `facts_timeout`. Decides nothing."""
    facts_types: Mapping[str, str] = field(default_factory=dict)
    """CEL type of each fact (`string`, `int`, `bool`, `double`, `list<string>`, `dyn`)."""
    rules: tuple[Rule, ...] = ()
    effect: Effect | None = None
    preview: Callable[..., Any] | None = None
    """`preview(args, principal) -> Preview`, read-only."""
    on_change: OnChange = OnChange.REFUSE
    """Where the preview's binding fields have changed since people saw them."""
    probe: Callable[..., Any] | None = None
    """`probe(args, ctx) -> Probed`, read-only."""
    settle: timedelta = timedelta(seconds=30)
    """How long an attempt may still land: before that, a probe's `not found` is unknown."""
    honours_key: bool = False
    """The downstream honours `ctx.key`: a second send with it cannot have a second effect."""
    at_once: int = 64
    """How many calls of one tenant run side by side; later ones wait in their order, and are refused where too many wait."""
    rate: Rate | None = None
    """How many calls of one tenant may begin in a time; further ones are `rate_limited`, with when to ask again."""
    quotas: tuple[Quota, ...] = ()
    """What agents, users, runs or the whole tenant may use up; for writes."""
    origins: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Argument name -> origins it may have (`user`, `within`, `result`, `result:TOOL`, `host`, `model`); see docs/origins.md."""
    on_breach: OnBreach = OnBreach.HOLD
    trusted_results: frozenset[str] = frozenset()
    """Fields of this tool's results that count as `host`, as paths: `email`, `contacts/*/email`, `*` for everything.

    An address book is not a web page. Nobody but this tool's owner may be able to write there.
    """
    redact: tuple[str, ...] = ()
    """Kinds to redact beside secrets: personal data (`card`, `iban`, `email`, `phone`), and with `password` also passwords of
    plain words in running text."""
    lift: tuple[str, ...] = ()
    """Top-level fields of a JSON result that are lifted into the observation."""

    @cached_property
    def version(self) -> str:
        """Digest of everything that decides or acts; not of the description (C2)."""
        effect = self.effect
        return digest({
            "name": self.name, "risk": self.risk.value, "schema": deciding(self.schema),
            "timeout_ms": int(self.timeout / timedelta(milliseconds=1)),
            "output": [self.output.bytes, self.output.lines, *([self.output.items] if self.output.items else [])],
            "rules": [[r.name, r.expression, r.sentence, r.field] for r in self.rules],
            "facts_types": dict(self.facts_types),
            "effect": [effect.name, list(effect.parts), int(effect.window.total_seconds()), effect.on_duplicate.value,
                       effect.per_call] if effect else None,
            "origins": {name: sorted(allowed) for name, allowed in self.origins.items()},
            "on_breach": self.on_breach.value, "trusted_results": sorted(self.trusted_results),
            "redact": list(self.redact), "lift": list(self.lift), "honours_key": self.honours_key,
            "settle_ms": int(self.settle / timedelta(milliseconds=1)),
            "limits": [self.at_once, self.rate.calls if self.rate else 0, self.rate.per.total_seconds() if self.rate else 0],
            "quotas": [[q.whose.value, q.per.total_seconds(), q.calls, q.amount, q.of, q.unit] for q in self.quotas],
            "target": _target(self.run), "facts": _target(self.facts), "preview": _target(self.preview),
            "probe": _target(self.probe),
            **({"on_change": self.on_change.value} if self.on_change is not OnChange.REFUSE else {}),
        })  # fmt: skip

    @property
    def writes(self) -> bool:
        return self.risk is not Risk.READ

    def land(self, arguments: Mapping[str, Any]) -> Any:
        """The arguments in the strict typed model (pydantic.ValidationError where they do not fit), else the dict itself."""
        return self.model.model_validate_json(json.dumps(arguments), strict=True) if self.model else dict(arguments)

    def effect_key(self, tenant: str, arguments: Mapping[str, Any], args_digest: str, call_id: str) -> str:
        """What this call may do only once; empty for a read."""
        if not self.writes:
            return ""
        effect = self.effect
        if effect is None:
            return effect_key(tenant, self.name, args_digest)
        if effect.per_call:
            return effect_key(tenant, effect.name, call_id)
        parts = [part.format_map(_Plain(arguments)) for part in effect.parts] or [args_digest]
        return effect_key(tenant, effect.name, *parts)


def _target(function: Callable[..., Any] | None) -> str:
    """Which function it is; an object that is called names its own target by `target`."""
    if function is None:
        return ""
    own = getattr(function, "target", None)
    return own if isinstance(own, str) else f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"


class _Plain(dict[str, Any]):
    """Template values: text as it is, other scalars in canonical JSON, so that 50 and 50.0 are one effect at every gate."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return value if isinstance(value, str) else canonical(value).decode()

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"the effect template names {{{key}}}, which the arguments do not have")
