"""A stage's process: the stage over its world, on the Faust worker."""

from __future__ import annotations

import gc
from contextlib import AbstractAsyncContextManager

from fourgates.assembly import build_stage, last_word, producer_of
from fourgates.cli.main import COLLECT_RARELY
from fourgates.cli.settings import PREFIX, Address, Settings
from fourgates.cli.world import Base, Trusted, world_of
from fourgates.contract.errors import Transient
from fourgates.contract.ports import Stage
from fourgates.contract.stage import WrappedStage
from fourgates.runtime.failpoints import FailingStage
from fourgates.runtime.faust_worker import Work, run_worker
from fourgates.runtime.intake import FatalError


def run_stage(base: Base, name: str) -> int:
    """Until a signal ends it (0) or it cannot go on (1). Raises ConfigurationError, FatalError."""
    settings, issuers, bus, producer = base.settings, base.issuers(), base.bus(), producer_of(name)
    world = world_of(base, bus, issuers)
    stage = build_stage(name, world, settings.stages, producer)
    settle_memory()
    health = Address.parse(f"{PREFIX}HEALTH", settings.health)
    return run_worker(Work(
        stage=_accompanied(_failing(stage, base), base, issuers), bus=bus, publisher=world.publisher(name),
        opener=base.opener, producer=producer, on_unforeseen=last_word(stage, producer),
        settings=settings.worker.model_copy(update={
            "health_host": health.host, "health_port": health.port, "at_once": _at_once(name, settings),
        }),
        failpoints=base.failpoints,
    ))  # fmt: skip


_TOOLS_THAT_HANG = 3
"""So many tools may fill all their places in an executor, and the others still have theirs."""


def _at_once(name: str, settings: Settings) -> int:
    """Records under way. Those of an executor mostly wait for a tool: a few tools that hang must not hold back its partitions."""
    at_once = settings.worker.at_once
    return at_once if name != "executor" else max(at_once, (_TOOLS_THAT_HANG + 1) * settings.stages.executor.per_tool)


def _failing(stage: Stage, base: Base) -> Stage:
    """The stage as it is, but where failpoints are set."""
    return stage if base.failpoints is None else FailingStage(stage, base.failpoints)


def _accompanied(stage: Stage, base: Base, issuers: Trusted) -> Stage:
    """The validator's issuers keep their keys up to date, those that judge by policies see when these change."""
    if stage.name == "validator":
        return _Accompanied(stage, issuers.keeping)
    if stage.name in ("authorizer", "executor") and base.policy_files is not None:
        return _Accompanied(stage, base.policy_files)
    return stage


def settle_memory() -> None:
    """What was made at start lives as long as the process: the collector need not look at it again, nor so often at the rest.

    Measured on a busy machine: about a seventh more calls a second.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_RARELY)


class _Accompanied(WrappedStage):
    """A stage beside which something else lives in the same loop."""

    def __init__(self, stage: Stage, beside: AbstractAsyncContextManager[object]) -> None:
        super().__init__(stage)
        self._beside = beside

    async def start(self) -> None:
        try:
            await self._beside.__aenter__()
        except Transient as fault:  # it is closed for good: a new process tries again
            raise FatalError(str(fault)) from fault
        await super().start()

    async def close(self) -> None:
        await super().close()
        await self._beside.__aexit__(None, None, None)
