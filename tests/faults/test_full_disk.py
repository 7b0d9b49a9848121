"""There is no room left for a large result: nothing is answered falsely, and what was done is told once there is room again."""

from __future__ import annotations

import asyncio
import resource
import sys

import pytest

from fourgates.contract.codes import Code
from support.eventually import eventually
from support.fault_calls import Played, new_call, play
from support.fault_checker import Checker
from support.fault_rounds import settled
from support.fault_tally import Tally
from support.faulting import FaultWorld

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"), pytest.mark.kafka, pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="another process's limits can be set on Linux only"),
]  # fmt: skip
ROOM = 1_500_000
"""Bytes that a file may have; a large result needs twice as many, and nothing else so many."""


TRIED = "Transient at "
"""What a process says that tries again because the blob store refused."""


def limit(world: FaultWorld, stage: str, size: int) -> None:
    """What a file of the stage's process may grow to, as on a disk that is full."""
    pid = world.supervisor.watched[stage].pid
    assert pid is not None
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.parametrize("stage", ["executor", "sanitizer"])
async def test_a_full_disk_loses_and_repeats_nothing(faulty: FaultWorld, tally: Tally, checker: Checker, stage: str) -> None:
    """E5, R2: a result that cannot be stored is no failure of the call; a write has run once, and its result comes in the end."""
    world, kind = faulty, f"disk full: {stage}"
    calls: list[Played] = []
    for sort in ("large read", "large write"):
        call = await new_call(world, sort, f"{kind} ({sort})")
        call.struck = asyncio.get_running_loop().time()
        calls.append(call)
        tally.faults[kind] += 1
    log = world.supervisor.watched[stage].log
    begun = log.read_text(errors="replace").count(TRIED)
    limit(world, stage, ROOM)
    playing = [asyncio.create_task(play(world, call)) for call in calls]
    try:
        await eventually(lambda: log.read_text(errors="replace").count(TRIED) > begun)
    finally:
        limit(world, stage, resource.RLIM_INFINITY)
    tally.calls += await asyncio.gather(*playing)
    assert {call.codes[0] for call in calls} == {Code.OK}
    archived = [call for call in calls if call.tool == "archive"]
    assert [(world.folder / "archives" / call.call_id).exists() for call in archived] == [True] * len(archived)
    await settled(world, tally, checker, calls)
