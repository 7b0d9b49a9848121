"""Rounds of faults: calls that stand still at their places while something is done to the processes that hold them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from support.fault_calls import WRITES, Played, new_call, play
from support.fault_checker import Checker, life
from support.fault_tally import Tally
from support.faulting import FaultWorld

CLAIM = "executor.LedgerEntry.Claimed"
EFFECT = "executor.EffectEntry.Claimed"
ATTEMPT = "executor.LedgerEntry.Attempted"
FINISH = "executor.LedgerEntry.Finished"
CONSUME = "executor.handle"
EXECUTOR_WRITES = (
    f"{CONSUME}.before", f"{CLAIM}.before", f"{CLAIM}.after", f"{EFFECT}.before", f"{EFFECT}.after", f"{ATTEMPT}.before",
    f"{ATTEMPT}.after", "executor.attempted", "executor.ran", f"{CONSUME}.after", f"{FINISH}.before", f"{FINISH}.after",
)  # fmt: skip
"""Consume; claim sent; claim seen (before the effect claim); effect claim; dispatch; effect; finished sent."""
_EXECUTOR_READS = (f"{CONSUME}.before", f"{CONSUME}.after", f"{FINISH}.before", f"{FINISH}.after")
_ANSWERS = ("sanitizer.handle.before", "sanitizer.CallCompleted.before", "sanitizer.CallCompleted.after")
_GATES = (
    "validator.handle.before", "validator.CallValidated.before", "validator.CallValidated.after",
    "authorizer.handle.before", "authorizer.CallCleared.cleared.before", "authorizer.CallCleared.cleared.after",
)  # fmt: skip
_PEOPLE = (
    "authorizer.ApprovalEvent.Held.before", "authorizer.ApprovalEvent.Held.after", "waiter.handle.before",
    "waiter.ApprovalEvent.Requested.before", "waiter.ApprovalEvent.Requested.after", "waiter.LedgerEntry.Pending.before",
    "waiter.LedgerEntry.Pending.after", "waiter.CallCleared.cleared.before", "waiter.CallCleared.cleared.after",
)  # fmt: skip
_DOUBTS = (
    "executor.LedgerEntry.InDoubt.before", "executor.LedgerEntry.InDoubt.after", "executor.ApprovalEvent.Held.before",
    "executor.ApprovalEvent.Held.after", "executor.LedgerEntry.Resolved.before", "executor.LedgerEntry.Resolved.after",
)  # fmt: skip
Place = tuple[str, str]
"""(failpoint, sort of call)."""

ALONG_THE_WAY: tuple[Place, ...] = (
    *((point, sort) for point in EXECUTOR_WRITES for sort in WRITES),
    *((point, "read") for point in _EXECUTOR_READS),
    *((point, sort) for point in _ANSWERS for sort in ("read", *WRITES)),
)
BEFORE_IT_IS_CLEARED: tuple[Place, ...] = (
    *((point, sort) for point in _GATES for sort in ("read", "plain")),
    *((point, "held") for point in _PEOPLE),
)
AFTER_A_LOST_ANSWER: tuple[Place, ...] = (
    *((point, "plain, answer lost") for point in _DOUBTS),
    *((point, sort) for point in ("executor.ran", f"{FINISH}.before", f"{FINISH}.after")
      for sort in ("key honoured, answer lost", "probe, answer lost", "probe, request lost")),
)  # fmt: skip
WITH_A_CANCEL: tuple[Place, ...] = tuple(
    (point, sort)
    for point in (
        f"{CONSUME}.before",
        f"{CLAIM}.before",
        f"{CLAIM}.after",
        f"{EFFECT}.before",
        f"{ATTEMPT}.before",
        "executor.ran",
    )
    for sort in ("key honoured", "plain")
)
FACTS_TURN: tuple[Place, ...] = tuple(
    (point, "facts")
    for point in ("validator.CallValidated.after", "authorizer.CallCleared.cleared.after", f"{CONSUME}.before", f"{CLAIM}.before",
                  f"{CLAIM}.after", f"{EFFECT}.after", "executor.attempted", "executor.ran")
)  # fmt: skip
UNFORESEEN: tuple[Place, ...] = (
    ("validator.handle.before", "read"), ("authorizer.handle.before", "plain"), ("waiter.handle.before", "held"),
    ("executor.handle.before", "key honoured"), (f"{CLAIM}.before", "plain"), (f"{CLAIM}.after", "probe"),
    (f"{EFFECT}.before", "plain"), (f"{ATTEMPT}.after", "key honoured"), ("executor.ran", "plain"), ("executor.ran", "probe"),
    (f"{FINISH}.before", "key honoured"), ("sanitizer.handle.before", "plain"), ("sanitizer.CallCompleted.before", "read"),
)  # fmt: skip


class Round:
    """One fault that strikes many calls at once, each at a place of its own."""

    def __init__(self, world: FaultWorld, tally: Tally) -> None:
        self._world, self._tally = world, tally
        self.calls: list[Played] = []
        self._hits: list[Path] = []
        self._playing: list[asyncio.Task[Played]] = []
        self._kinds: list[str] = []

    async def hold(self, kind: str, places: Sequence[Place], word: str = "hold") -> list[Played]:
        """Asks for a call for each place; `come` returns once all have come there."""
        held = []
        for point, sort in places:
            call = await new_call(self._world, sort, f"{kind} at {point} ({sort})")
            self._hits.append(self._world.points.arm(point, call.call_id, word))
            self._playing.append(asyncio.create_task(play(self._world, call)))
            self._kinds.append(kind)
            held.append(call)
        self.calls += held
        return held

    async def come(self) -> None:
        await self._world.points.taken(self._hits)

    def strike(self) -> None:
        """Now it happens: from here on recovery is measured."""
        now = asyncio.get_running_loop().time()
        for call, kind in zip(self.calls, self._kinds, strict=True):
            call.struck = now
            self._tally.faults[kind] += 1

    def release(self) -> None:
        for hit in self._hits:
            hit.unlink(missing_ok=True)

    async def end(self) -> None:
        """Every call has its end."""
        self._tally.calls += await asyncio.gather(*self._playing)


def facts_turn(world: FaultWorld, calls: Sequence[Played]) -> None:
    """The rooms are full from now on: what was judged before is no longer true."""
    for call in calls:
        world.bookings.put(call.booked, free=0, version=world.bookings.state(call.booked)["version"])


async def settled(world: FaultWorld, tally: Tally, checker: Checker, calls: Sequence[Played], stored: bool = True) -> None:
    """The three witnesses agree that nothing went wrong; else the lives of the first calls that it went wrong with."""
    found = await checker.check(tally.calls, stored)
    tally.verdict = found
    for call in sorted(calls, key=lambda call: call.recovery or 0):
        print(f"{call.recovery or -1:6.1f} s  {call.fault} {call.call_id[:8]}: {' '.join(call.heard)}")
    faults = found.faults()
    if faults:
        named = {str(entry).split(":")[0] for entries in faults.values() if isinstance(entries, list) for entry in entries[:3]}
        judged = {row["call_id"] for rows in found.integrity.values() for row in rows[:3] if row.get("call_id")}
        lives = {call_id: await life(world, call_id) for call_id in named | judged}
        for call_id in judged:
            lives[call_id] += [str(row) for row in await checker.stored_of(call_id)]
        told = "\n".join(f"{call_id}\n  " + "\n  ".join(lines) for call_id, lines in lives.items())
        raise AssertionError(f"seed {tally.seed}: {faults}\n{told}\n{[dataclasses.asdict(found)['in_doubt']]}")
