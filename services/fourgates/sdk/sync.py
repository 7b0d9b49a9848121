"""The same client for hosts without an event loop: it runs one in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from .answer import Answer
from .bearer import TokenSource
from .client import Client
from .run import Run
from .settings import SdkSettings

T = TypeVar("T")


class SyncClient:
    """`with SyncClient.from_env() as gates: run = gates.run(principal=token); answer = run.call(...)`. Threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fourgates-sdk", daemon=True)

    @classmethod
    def from_env(
        cls, settings: SdkSettings | None = None, trusted_results: Mapping[str, Iterable[str]] | None = None
    ) -> SyncClient:  # fmt: skip
        """As `Client.from_env`."""
        return cls(Client.from_env(settings, trusted_results))

    def __enter__(self) -> SyncClient:
        self._thread.start()
        try:
            self._do(self._client.__aenter__())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._do(self._client.__aexit__(kind, fault, trace))
        finally:
            self._end()

    def run(
        self,
        principal: TokenSource | None = None,
        intent: str = "",
        user_turns: Iterable[str] = (),
        allow: Iterable[str] | None = None,
        run_id: str | None = None,
        agent: TokenSource | None = None,
    ) -> SyncRun:
        """As `Client.run`. A function that gives a token is called in the client's thread."""
        return SyncRun(self, self._client.run(principal, intent, user_turns, allow, run_id, agent))

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        under_way = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return under_way.result()
        except BaseException:  # ctrl-C while waiting: nobody waits any more
            under_way.cancel()
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class SyncRun:
    """A `Run`, waited for by blocking."""

    def __init__(self, client: SyncClient, run: Run) -> None:
        self._client, self._run = client, run
        self.id = run.id

    def user_said(self, text: str) -> None:
        """As `Run.user_said`."""
        self._run.user_said(text)

    def saw(self, source: str, content: Any, trusted_fields: Iterable[str] = ()) -> None:
        """As `Run.saw`."""
        self._run.saw(source, content, trusted_fields)

    def vouches(self, source: str, content: Any) -> None:
        """As `Run.vouches`."""
        self._run.vouches(source, content)

    def allow(self, *actions: str) -> None:
        """As `Run.allow`."""
        self._run.allow(*actions)

    def call(
        self,
        tool: str,
        arguments: str | Mapping[str, Any],
        *,
        tool_call_id: str,
        wait: float | None = None,
        budget: float | None = None,
    ) -> Answer:
        """As `Run.call`."""
        return self._client._do(self._run.call(tool, arguments, tool_call_id=tool_call_id, wait=wait, budget=budget))

    def read_result(self, answer: Answer, offset: int = 0, size: int = 8_192, wait: float | None = None) -> Answer:
        """As `Run.read_result`."""
        return self._client._do(self._run.read_result(answer, offset, size, wait))

    def result_text(self, answer: Answer, wait: float | None = None) -> Iterator[str]:
        """As `Run.result_text`."""
        pages = self._run.result_text(answer, wait)

        async def following() -> str | None:
            return await anext(pages, None)

        while (page := self._client._do(following())) is not None:
            yield page

    def wait(self, call_id: str, timeout: float | None = None) -> Answer:
        """As `Run.wait`."""
        return self._client._do(self._run.wait(call_id, timeout))

    def cancel(self, call_id: str, wait: float | None = None) -> Answer:
        """As `Run.cancel`."""
        return self._client._do(self._run.cancel(call_id, wait))
