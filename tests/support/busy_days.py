"""Two weeks of a shop's calls on a tape: many agents and tools, and everything that can become of a call."""

from __future__ import annotations

import dataclasses
import random

from fourgates.contract.codes import Code
from fourgates.contract.events import HoldReason
from fourgates.contract.parts import Risk
from support.samples import PRINCIPAL
from support.stories import Life, Tape

DAY_MS = 86_400_000
_TOOLS = {"get_order": 40, "search_catalog": 24, "refund_order": 14, "send_message": 9, "update_address": 7, "delete_review": 2}
_MEDIAN_MS = {"get_order": 9, "search_catalog": 45, "refund_order": 320, "send_message": 140, "update_address": 60}
_READS = ("get_order", "search_catalog")
_AGENTS = ("support-bot", "returns-bot", "concierge")


def busy_days(calls: int, days: int = 14, seed: int = 7) -> Tape:
    """The same tape for the same numbers."""
    dice = random.Random(seed)
    tape = Tape()
    start = tape.now_ms
    for number in range(calls):
        day = days * number // calls
        tape.now_ms = max(tape.now_ms, start + day * DAY_MS + dice.randrange(DAY_MS // 50))
        tool = dice.choices(list(_TOOLS), list(_TOOLS.values()))[0]
        principal = dataclasses.replace(PRINCIPAL, agent=dice.choice(_AGENTS))
        risk = Risk.READ if tool in _READS else Risk.DESTRUCTIVE if tool == "delete_review" else Risk.WRITE
        life = Life(tape, f"call-{number}", tool=tool, tool_version=f"{tool:x<64}"[:64].replace("_", "0"), risk=risk,
                    principal=principal, arguments={"order_id": f"A-{number}", "amount": 5})  # fmt: skip
        life.asked()
        _live(life, dice)
    return tape


def _live(life: Life, dice: random.Random) -> None:
    fate, read = dice.random(), life.call.risk is Risk.READ
    if fate < 0.05:
        life.refused("validator", Code.INVALID_ARGUMENTS, "unknown_field", field="/order")
        life.told(Code.INVALID_ARGUMENTS, None, reason="unknown_field")
    elif fate < 0.08:
        life.refused("validator", Code.RULE_VIOLATED, "within_the_return_period")
        life.told(Code.RULE_VIOLATED, None, reason="within_the_return_period")
    elif fate < 0.1:
        life.validated()
        life.refused("authorizer", Code.PERMISSION_DENIED, "no_policy")
        life.told(Code.PERMISSION_DENIED, None, reason="no_policy")
    else:
        life.validated()
        _after_the_gates(life, dice, read)


def _after_the_gates(life: Life, dice: random.Random, read: bool) -> None:
    by: tuple[str, ...] = ()
    if not read and dice.random() < 0.35:
        life.held()
        life.shown()
        life.tape.now_ms += int(dice.lognormvariate(11.5, 1.3))
        if dice.random() < 0.1:
            life.tape.now_ms += 3_600_000
            life.expired()
            life.refused("waiter", Code.APPROVAL_EXPIRED, "risk")
            life.told(Code.APPROVAL_EXPIRED, None, reason="nobody_decided")
            return
        if dice.random() < 0.14:
            life.decided("deny", "fiona", "not this one")
            life.refused("waiter", Code.APPROVAL_DENIED, "risk")
            life.told(Code.APPROVAL_DENIED, None, reason="declined")
            return
        by = ("fiona",)
        life.decided("approve", "fiona")
    life.cleared(*by)
    took = int(_MEDIAN_MS.get(life.call.tool, 50) * dice.lognormvariate(0, 0.6))
    if not read:
        life.claimed(*by)
        life.attempted()
        if dice.random() < 0.06:
            life.attempted("a2")
    life.tape.now_ms += took
    claim = "" if read else life.claim_id
    if dice.random() < 0.02:
        life.finished("failed", claim_id=claim, duration_ms=took, code=Code.TOOL_FAILED.value, vouches=-1)
        life.told(Code.TOOL_FAILED, None, reason="no_such_order")
    elif not read and dice.random() < 0.025:
        life.in_doubt()
        life.held(HoldReason.IN_DOUBT)
        life.shown()
        life.told(Code.IN_DOUBT, None)
        if dice.random() < 0.75:
            life.tape.now_ms += int(dice.lognormvariate(14, 1))
            life.decided("committed", "fiona")
            life.resolved("committed")
            life.told()
    else:
        life.finished(claim_id=claim, duration_ms=took)
        life.told()
