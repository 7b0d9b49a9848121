"""The fold of the approvals log in SQL beside the one that the waiter believes."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import pytest

from fourgates.contract.errors import Poison
from fourgates.contract.events import ApprovalEvent, HoldReason
from fourgates.contract.ports import Envelope
from fourgates.contract.topology import APPROVALS, BY_NAME
from fourgates.gates.approval import ApprovalFold, HoldState, HoldStatus
from support.approvals import GROUP, decided, expired, held, person, requested, withdrawn
from support.auditing import Engine
from support.samples import CALL, PRINCIPAL
from support.sealing import opener
from support.stories import START_MS, Tape

pytestmark = pytest.mark.engine

HOLDS, AT_ONCE = 1_000, 25
OTHER_SHOWN = "6" * 64
_OPEN = (HoldStatus.HELD, HoldStatus.REQUESTED, HoldStatus.JOINED)
"""A hold that joined another is never shown to anybody: the view says that it is open, without `shown_at`."""


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


def _question(dice: random.Random, now_ms: int, hold_id: str, call_id: str) -> tuple[ApprovalEvent, bool]:
    """A Held, and whether it asks about a doubt."""
    reason = dice.choice([HoldReason.RISK, HoldReason.RISK, HoldReason.IN_DOUBT])
    in_doubt = reason is HoldReason.IN_DOUBT
    asked = held(
        hold_id, dataclasses.replace(CALL, call_id=call_id), reason=reason, quorum=dice.choice([1, 1, 2]), group=GROUP,
        expires_ms=None if in_doubt else now_ms + dice.choice([250, 2_000, 100_000]),
        not_before_ms=now_ms + 400 if in_doubt and dice.random() < 0.5 else 0,
    )  # fmt: skip
    return asked, in_doubt


def _said_about(dice: random.Random, hold_id: str, call_id: str, in_doubt: bool) -> tuple[str, ApprovalEvent]:
    """(who writes it, the entry): what a stage or a person may say about a hold, at its time or not."""
    if dice.random() < 0.03:
        call_id = "another call"
    match dice.randrange(8):
        case 0:
            return "waiter", expired(hold_id, call_id=call_id)
        case 1:
            return "waiter", withdrawn(hold_id, call_id=call_id)
        case 2 | 3:  # of two waiters one may have seen another state of the world
            shown = {"shown_digest": OTHER_SHOWN} if dice.random() < 0.2 else {}
            return "waiter", requested(hold_id, call_id=call_id, approvable=dice.random() < 0.9, **shown)
        case _:
            return "approver", _decision(dice, hold_id, call_id, in_doubt)


def _life(dice: random.Random, tape: Tape, number: int) -> Iterator[None]:
    """One call's entries, each appended when the next is asked for."""
    call_id, hold_id = f"call-{number}", f"hold-{number}"
    asked, in_doubt = _question(dice, tape.now_ms, hold_id, call_id)
    if dice.random() < 0.05:
        tape.put(*_said_about(dice, hold_id, call_id, in_doubt))
        yield
    tape.put("authorizer", asked)
    yield
    for _ in range(dice.randrange(0, 9)):
        match dice.randrange(20):
            case 0:  # told again, with other terms
                tape.put("authorizer", _question(dice, tape.now_ms, hold_id, call_id)[0])
            case 1:  # asked again: joins the first, or is a question of its own
                tape.put("authorizer", _question(dice, tape.now_ms, f"{hold_id}-again", call_id)[0])
            case _:
                tape.put(*_said_about(dice, hold_id, call_id, in_doubt))
        yield


def _log(dice: random.Random) -> Tape:
    """Many lives at once, and records that come once more: at their place, or where they do not belong."""
    tape = Tape(START_MS)
    waiting = [_life(dice, tape, number) for number in range(HOLDS)]
    running: list[Iterator[None]] = []
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            running.append(waiting.pop())
        life = dice.choice(running)
        if next(life, life) is life:
            running.remove(life)
        if tape.received and dice.random() < 0.1:
            again = dice.choice(tape.received[-200:])
            where = again.position.partition if dice.random() < 0.7 else dice.randrange(BY_NAME[APPROVALS].partitions)
            tape.put_raw(APPROVALS, again.key, again.value, where)
    return tape


def _opened(tape: Tape) -> Iterator[Envelope]:
    for received in tape.received:
        with contextlib.suppress(Poison):
            yield opener().open(received)


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
    tape, fold = _log(random.Random(seed)), ApprovalFold(lambda envelope: True)
    for envelope in _opened(tape):
        fold.apply(envelope)
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
