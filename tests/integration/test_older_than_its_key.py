"""People may take longer than a call's key is remembered: whoever asks for the call meanwhile does not end it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from fourgates.assembly import StageSettings
from fourgates.authorizer.settings import AuthorizerSettings
from fourgates.contract.codes import Code
from fourgates.contract.topology import CALLS_CLEARED
from fourgates.executor.settings import ExecutorSettings
from fourgates.testing import Pipeline
from support.attacked import ShiftedClock
from support.downstream import Downstream
from support.eventually import eventually
from support.toolbox import make_catalog

DAY_MS = 86_400_000
PEOPLE = ("approvers", "finance")
WAIT = StageSettings(
    authorizer=AuthorizerSettings(wait=timedelta(days=20)),
    executor=ExecutorSettings(audit_lag=10 * DAY_MS / 1000),  # the clock is set forward, and the audit's last word was before
)
PAY = json.dumps({"order": "A-1", "cents": 9_000})


async def test_host_that_resumes_an_old_run_does_not_end_what_people_hold(tmp_path: Path) -> None:
    """A5, E1, E2: it is told that the run is too old, nothing else happens; the yes comes, the call runs once and is answered."""
    clock, downstream = ShiftedClock(), Downstream(tmp_path / "downstream.sqlite")
    async with Pipeline(make_catalog(tmp_path), settings=WAIT, clock=clock) as gates:
        run = gates.run("anna", ("staff",), agent="bot")
        pending = await run.call("pay", PAY, tool_call_id="1", wait=0.3)
        [hold] = await eventually(lambda: gates.holds("ben", PEOPLE))
        run_id = run.id
        del run  # the host was started anew
        clock.ahead_ms += 8 * DAY_MS
        again = gates.run("anna", ("staff",), agent="bot", run_id=run_id)
        told = await again.call("pay", PAY, tool_call_id="1")
        assert (told.call_id, told.code, told.final) == (pending.call_id, Code.CALL_TOO_OLD, False)
        await gates.drained()
        assert [waiting["hold_id"] for waiting in await gates.holds("ben", PEOPLE)] == [hold["hold_id"]]
        assert (await gates.decide(hold["hold_id"], "approve", "ben", PEOPLE)).status_code == 200
        assert (await again.wait(pending.call_id)).code is Code.OK
        assert [what for _, _, what in downstream.effects("pay")] == ["A-1"]


async def test_call_that_nobody_holds_is_told_that_it_is_too_old_however_often_and_never_runs(tmp_path: Path) -> None:
    """E1"""
    clock, downstream = ShiftedClock(), Downstream(tmp_path / "downstream.sqlite")
    async with Pipeline(make_catalog(tmp_path), settings=WAIT, clock=clock) as gates:
        run = gates.run("anna", ("staff",), agent="bot")
        clock.ahead_ms += 8 * DAY_MS
        old = gates.run("anna", ("staff",), agent="bot", run_id=run.id)
        for _ in range(2):
            told = await old.call("pay", PAY, tool_call_id="1")
            assert (told.code, told.final) == (Code.CALL_TOO_OLD, False)
        await gates.drained()
        assert downstream.entries() == [] and await gates.holds("ben", PEOPLE) == []
        assert gates.records(CALLS_CLEARED) == []
