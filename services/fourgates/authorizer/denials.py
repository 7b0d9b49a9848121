"""Denials that were given lately: a model that asks again for what it may not do costs a look into a dict, and is counted."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Hashable

from fourgates.contract.codes import Code
from fourgates.contract.events import CallValidated
from fourgates.gates.refusal import Refusal

REMEMBERED = 4_096


class Denials:
    """Keeps the answers of gate 3, never its yes. Another set of policies, other facts or arguments are another question."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._given: OrderedDict[Hashable, tuple[Refusal, int]] = OrderedDict()

    def again(self, validated: CallValidated, policies_digest: str) -> Refusal | None:
        """The denial that this very question got before, with how often it was asked again; None where it got none."""
        question = _question(validated, policies_digest)
        known = self._given.get(question)
        if known is None:
            return None
        refusal, times = known[0], known[1] + 1
        self._given[question] = refusal, times
        self._given.move_to_end(question)
        return dataclasses.replace(refusal, detail={**refusal.detail, "repeated": times})

    def remember(self, validated: CallValidated, policies_digest: str, refusal: Refusal) -> None:
        """Of other refusals than a denial nothing is kept: they depend on more than the question."""
        if refusal.code is not Code.PERMISSION_DENIED:
            return
        self._given[_question(validated, policies_digest)] = refusal, 0
        if len(self._given) > self._most:
            self._given.popitem(last=False)


def _question(validated: CallValidated, policies_digest: str) -> Hashable:
    """Everything that the policies can look at, and nothing that makes one call differ from its repetition."""
    call = validated.call
    return (
        policies_digest, call.principal, call.tool, call.tool_version, call.args_digest, validated.facts, validated.breaches,
        call.origins, call.intent, call.allowed_actions,
    )  # fmt: skip
