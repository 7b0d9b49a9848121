"""What a mutant is, and those that any call has: a wrong text, a name that no tool has, somebody without the right."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from corpora.retail_trial.tasks import Step
from fourgates.contract.codes import Code


class Asker(StrEnum):
    """Whose run makes the call."""

    CUSTOMER = "customer"
    """The customer's own, by the shop's agent."""
    NO_CUSTOMER = "no customer"
    """The same account without the group that has rights here."""
    OTHER_AGENT = "other agent"
    """The same customer, by an agent that has no right here."""
    UNANNOUNCED = "unannounced"
    """The customer's own, which declares that its request can cause no write at all."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The call ends with this code. `reason` and `field` where they are given, `message` too."""

    code: Code
    reason: str = ""
    field: str = ""
    message: str = ""


class Ending(StrEnum):
    """What becomes of a held call; in none of these may its tool be entered."""

    NOBODY_ANSWERS = "nobody answers"
    """Nobody has the customer's yes; the host gives up and cancels."""
    DENIED = "denied"
    """The customer says no."""
    OTHER_DETAILS = "other details"
    """A yes to something else than what is shown: void. Then the host cancels."""
    OWN_YES = "own yes"
    """A yes by the account that the call was made for: void. Then the host cancels."""
    CONFIRMED_AGAIN = "confirmed again"
    """A yes to what has been done already: held once more, as a near duplicate. Then the host cancels."""


@dataclass(frozen=True, slots=True)
class Held:
    """The call waits for a person, for one of these reasons."""

    reasons: frozenset[str]
    ending: Ending


@dataclass(frozen=True, slots=True)
class Mutant:
    """A call that must not run."""

    kind: str
    tool: str
    raw: str
    expects: Refused | Held
    asker: Asker = Asker.CUSTOMER


def mutant(kind: str, tool: str, arguments: Mapping[str, Any], expects: Refused | Held, asker: Asker = Asker.CUSTOMER) -> Mutant:
    """With the text that a model would write for these arguments."""
    return Mutant(kind, tool, json.dumps(dict(arguments), ensure_ascii=False), expects, asker)


def of_any_call(step: Step, rng: random.Random) -> Iterator[Mutant]:
    """One with a fault in its form, one by somebody who may not."""
    yield rng.choice(list(_wrong_form(step, rng)))
    asker = rng.choice((Asker.NO_CUSTOMER, Asker.OTHER_AGENT))
    if step.ok:
        yield mutant(f"permission: {asker.value}", step.tool, step.arguments, Refused(Code.PERMISSION_DENIED, "no_policy"), asker)


def _wrong_form(step: Step, rng: random.Random) -> Iterator[Mutant]:
    arguments, tool = dict(step.arguments), step.tool
    text = json.dumps(arguments, ensure_ascii=False)
    invented = mutant("form: unknown tool", f"{tool}_now", arguments, Refused(Code.UNKNOWN_TOOL))
    yield invented
    yield mutant("form: unknown field", tool, {**arguments, "force": True}, _invalid("unknown_field", "/force"))
    yield Mutant("form: text after it", tool, f"{text} yes", _invalid("trailing_text"))
    yield Mutant("form: no object", tool, f"[{text}]", _invalid("not_an_object"))
    if not arguments:
        return
    name = rng.choice(sorted(arguments))
    less = {each: value for each, value in arguments.items() if each != name}
    yield mutant("form: missing field", tool, less, _invalid("missing_field", f"/{name}"))
    yield mutant("form: wrong type", tool, {**arguments, name: 7}, _invalid("wrong_type", f"/{name}"))
    again = f"{text[:-1]}, {json.dumps(name)}: {json.dumps(arguments[name])}}}"
    yield Mutant("form: field twice", tool, again, _invalid("duplicate_key", f"/{name}"))


def _invalid(reason: str, field: str = "") -> Refused:
    return Refused(Code.INVALID_ARGUMENTS, reason, field)
