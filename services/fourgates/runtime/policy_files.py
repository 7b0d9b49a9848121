"""The operator's policies on disk: what changes there counts without a restart, unless it could not decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import structlog

from fourgates.contract.errors import ConfigurationError
from fourgates.gates.live_policies import LivePolicies
from fourgates.gates.permission import Policies
from fourgates.runtime.metrics import Metrics

LOOK_EVERY_S = 2.0
Load = Callable[[str, str], Policies]
"""(policies, links) as text -> the set. Raises ConfigurationError."""
_log = structlog.get_logger("fourgates.policies")


class PolicyFiles:
    """The file of policies and, where templates are used, the one of links. Use it as a context manager beside a stage.

    Files are compared by their contents, so it does not matter how they are replaced. A set that is refused changes nothing: the
    earlier one counts on, the log says why, and `fourgates_policies_refused` is 1 until the files hold a good one.
    """

    def __init__(self, policies: Path, links: Path | None, load: Load, metrics: Metrics) -> None:
        self._policies, self._links, self._load, self._metrics = policies, links, load, metrics
        self._seen: tuple[str, str] | str = ""
        self._looking: asyncio.Task[None] | None = None
        self.live: LivePolicies

    def open(self) -> LivePolicies:
        """The policies of the start. Raises ConfigurationError where they cannot be read or could not decide."""
        texts = self._texts()
        self.live, self._seen = LivePolicies(self._made(texts)), texts
        return self.live

    def look(self) -> None:
        """Takes up what has changed since the last look."""
        try:
            texts: tuple[str, str] | str = self._texts()
        except ConfigurationError as fault:
            texts = str(fault)
        if texts == self._seen:
            return
        self._seen = texts
        try:
            if isinstance(texts, str):
                raise ConfigurationError(texts)
            self.live.replace(self._made(texts))
        except ConfigurationError as fault:
            self._metrics.policies_loads.labels("refused").inc()
            self._metrics.policies_refused.set(1)
            _log.error("policies were refused, the earlier ones count", file=str(self._policies), why=str(fault))
        else:
            self._metrics.policies_loads.labels("taken").inc()
            self._metrics.policies_refused.set(0)
            _log.info("policies were taken up", file=str(self._policies), digest=self.live.current.digest)

    async def __aenter__(self) -> PolicyFiles:
        self._looking = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def _made(self, texts: tuple[str, str]) -> Policies:
        try:
            return self._load(*texts)
        except ConfigurationError as fault:
            raise ConfigurationError(f"{self._policies}: {fault}") from fault

    def _texts(self) -> tuple[str, str]:
        return _read(self._policies), _read(self._links) if self._links is not None else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as fault:
        raise ConfigurationError(f"{path} cannot be read ({type(fault).__name__})") from None
