"""Tools that must be started: what may not run as it is keeps the executor from starting, and nothing stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from fourgates.catalog import Catalog, Committed, ToolContext, close_tools, start_tools
from fourgates.contract.errors import ConfigurationError
from fourgates.testing import Pipeline
from fourgates.tools.command import CommandTool

POLICIES = '@id("all") permit (principal, action, resource);'


class Nothing(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Kept:
    """A tool that counts its starts and ends."""

    target = "kept"

    def __init__(self, fault: Exception | None = None) -> None:
        self.started = self.closed = 0
        self._fault = fault

    async def start(self) -> None:
        self.started += 1

    async def close(self) -> None:
        self.closed += 1
        if self._fault is not None:
            raise self._fault

    async def __call__(self, args: Any, ctx: ToolContext) -> Committed:
        return Committed()


def catalog(*runs: Any) -> Catalog:
    made = Catalog("kept", policies=POLICIES)
    for number, run in enumerate(runs):
        made.register(run, name=f"tool_{number}", description="Does it.", arguments=Nothing, risk="read", timeout=1)
    return made


async def test_what_two_tools_share_is_started_and_closed_once() -> None:
    shared, own = Kept(), Kept()
    made = catalog(shared, own, shared)
    await start_tools(made)
    assert (shared.started, own.started) == (1, 1)
    await close_tools(made)
    assert (shared.closed, own.closed) == (1, 1)


async def test_one_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    broken, other = Kept(OSError("stuck")), Kept()
    with pytest.raises(OSError, match="stuck"):
        await close_tools(catalog(broken, other))
    assert other.closed == 1


async def test_the_pipeline_starts_and_closes_them_with_its_executor() -> None:
    """S1"""
    kept = Kept()
    async with Pipeline(catalog(kept)) as gates:
        assert kept.started == 1
        await gates.crash_stage("executor")
        await gates.start_stage("executor")
        assert kept.started == 2
    assert kept.closed == 2


async def test_without_its_sandbox_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E10: isolation is required and missing: a sentence that names the tool and says what to do."""
    monkeypatch.setattr("fourgates.tools.sandbox.PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"tool 'tool_0': sandbox: bwrap, .* missing; install bubblewrap"):
        async with Pipeline(catalog(CommandTool(("true",)))):
            pass
