"""Whether what came of a call is what should have come of it."""

from __future__ import annotations

import json

from corpora.retail_shop.rules import OWN_ORDER
from corpora.retail_trial.mutants import Refused
from corpora.retail_trial.tasks import Step
from corpora.retail_trial.world import Outcome
from fourgates.contract.codes import Code
from fourgates.sdk import Answer


def same_outcome(outcome: Outcome, step: Step) -> bool:
    """Equal to what the tool answered when it was run directly.

    A call about an order that does not exist does not get so far: the rule that it must be one's own refuses it, with the very
    sentence that the tool would have said.
    """
    spoken = not outcome.refused_by or outcome.refused_by == OWN_ORDER.name
    return spoken and outcome.ok == step.ok and _text(outcome.answer) == _text(step.answer)


def told_whole(answer: Answer, outcome: Outcome) -> bool:
    if isinstance(outcome.answer, str):
        return answer.content == outcome.answer
    return answer.content is not None and not answer.truncated and _text(json.loads(answer.content)) == _text(outcome.answer)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def refused_otherwise(answer: Answer, expects: Refused) -> str:
    got = (answer.code, answer.reason, answer.field, answer.message)
    wanted = (expects.code, expects.reason, expects.field, expects.message)
    fits = all(not want or is_ == want for is_, want in zip(got, wanted, strict=True))
    return "" if fits else f"{answer.code.value} {answer.reason} {answer.field} in place of {expects.code.value} {expects.reason}"


def unless(answer: Answer, code: Code) -> str:
    return "" if answer.code is code else f"{answer.code.value} {answer.reason} in place of {code.value}"
