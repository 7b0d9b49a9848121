"""The fold of the approvals log in SQL beside the one that the waiter believes."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from fourgates.contract.events import ApprovalEvent, HoldReason
from fourgates.gates.approval import ApprovalFold, HoldState, HoldStatus
from support.approvals import GROUP, decided, expired, held, person, requested, withdrawn
from support.auditing import Engine
from support.samples import CALL, PRINCIPAL
from support.sealing import opener
from support.stories import START_MS, Tape

pytestmark = pytest.mark.engine

HOLDS = 1_000
OTHER_SHOWN = "6" * 64
_OPEN = (HoldStatus.HELD, HoldStatus.REQUESTED)


def _decision(dice: random.Random, hold_id: str, call_id: str, in_doubt: bool) -> ApprovalEvent:
    """Mostly somebody who may; now and then somebody who may not, or something that was not shown."""
    who = person(dice.choice(["fiona", "frank", "fred"]))
    strange: list[dict[str, Any]] = [
        {"agent": "bot"}, {"service": True}, {"tenant": "other"}, {"groups": ("support",)}, {"person": PRINCIPAL.person},
    ]  # fmt: skip
    if dice.random() < 0.3:
        who = dataclasses.replace(who, **dice.choice(strange))
    usual = ["committed", "not_applied"] if in_doubt else ["approve", "approve", "deny"]
    verdict = dice.choice([*usual, *usual, "approve", "committed"])
    more = {"shown_digest": OTHER_SHOWN} if dice.random() < 0.1 else {}
    return decided(hold_id, verdict, who, call_id=call_id, **more)


def _life(dice: random.Random, tape: Tape, number: int) -> None:
    call_id, hold_id = f"call-{number}", f"hold-{number}"
    call = dataclasses.replace(CALL, call_id=call_id)
    reason = dice.choice([HoldReason.RISK, HoldReason.RISK, HoldReason.IN_DOUBT])
    in_doubt = reason is HoldReason.IN_DOUBT
    tape.put("authorizer", held(
        hold_id, call, reason=reason, quorum=dice.choice([1, 1, 2]), group=GROUP,
        expires_ms=None if in_doubt else tape.now_ms + dice.choice([25, 60, 10_000]),
        not_before_ms=tape.now_ms + 40 if in_doubt and dice.random() < 0.5 else 0,
    ))  # fmt: skip
    for _ in range(dice.randrange(0, 7)):
        match dice.randrange(8):
            case 0:
                tape.put("waiter", expired(hold_id, call_id=call_id))
            case 1:
                tape.put("waiter", withdrawn(hold_id, call_id=call_id))
            case 2 | 3:
                tape.put("waiter", requested(hold_id, call_id=call_id, approvable=dice.random() < 0.9))
            case _:
                tape.put("approver", _decision(dice, hold_id, call_id, in_doubt))


def _expected(hold: HoldState) -> dict[str, Any]:
    ended = hold.status not in _OPEN
    return {
        "state": hold.status.value if ended else "open", "ended_ms": hold.ended_ms if ended else 0,
        "denied_by": hold.ended_by if hold.status is HoldStatus.DENIED else "",
        "resolved_as": hold.verdict,
    }  # fmt: skip


def test_the_view_says_of_every_hold_what_the_fold_says(engine: Engine) -> None:
    """L4, A5, A6: what a report calls approved is what the waiter acted on."""
    seed = random.SystemRandom().randrange(2**32)
    dice, tape, fold = random.Random(seed), Tape(START_MS), ApprovalFold(lambda envelope: True)
    for number in range(HOLDS):
        _life(dice, tape, number)
    for received in tape.received:
        fold.apply(opener().open(received))
    engine.take(tape.received)
    rows = engine.ask(
        "SELECT hold_id, state, if(ended_at IS NULL, 0, toUnixTimestamp64Milli(assumeNotNull(ended_at))) AS ended_ms,"
        " if(state = 'denied', denied_by, '') AS denied_by, if(state = 'resolved', resolved_as, '') AS resolved_as"
        " FROM fourgates.holds"
    )
    seen = {row.pop("hold_id"): row for row in rows}
    wrong = {hold.hold_id: (seen[hold.hold_id], _expected(hold)) for hold in fold if seen[hold.hold_id] != _expected(hold)}
    assert not wrong, f"seed {seed}: {dict(list(wrong.items())[:3])}"
    assert {row["state"] for row in seen.values()} == {"open", "approved", "denied", "expired", "withdrawn", "resolved"}
