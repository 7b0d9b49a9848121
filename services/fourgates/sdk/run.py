"""A run: one user request and the calls that a model makes for it, under one principal."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from fourgates.contract import ids
from fourgates.contract.codes import Code, CodeClass
from fourgates.contract.errors import Transient
from fourgates.contract.events import CallRequested, RequestKind
from fourgates.contract.ports import Clock
from fourgates.contract.topology import HORIZON
from fourgates.gates.origins import OriginBook

from .answer import Answer, PageRefused, RunStopped, no_answer_yet
from .bearer import Bearer
from .inbox import Inbox, Track, is_open
from .request import MAX_ID_CHARS, MAX_INTENT_BYTES, marks_of, newest_turns, own_refusal, raw_text
from .transport import Transport

PUBLISH_S = 5.0
"""A request gets at least so long to reach the log, also where the caller does not wait for an answer."""
READ_RESULT = "read_result"
"""The tool that pages through stored results; `fourgates.tools.results.add_result_reader` brings it into a catalog."""
PAGE_BYTES = 16_384
_PUBLISH_AGAIN_S = 0.5
_HORIZON_MARGIN = timedelta(minutes=30)
"""Clocks differ, and a request takes a while to be judged."""
_OPEN_PATIENCE = 6
"""A call that waits for people or evidence is asked for so much more rarely: its rest comes by itself."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a client's runs behave; times in seconds."""

    wait_s: float = 30.0
    ask_again_s: float = 10.0
    budget_s: float = 120.0
    trusted_results: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Tool -> fields of its results that count as `host` (`OriginBook.saw`); `Tool.trusted_results` of the catalog."""
    producer: str = ""
    """How this host names itself to operators; empty: by machine and process."""


@dataclass(slots=True)
class _Asked:
    """A call of this run, kept so that it can be asked for again."""

    request: CallRequested
    track: Track
    budget: float

    def again(self, request: CallRequested, now_ms: int) -> CallRequested:
        """The same call asked for once more: an event of its own, or its answer would count as told already.

        Its budget begins anew. The first request stands before it in the log and is judged by its own deadline; but a call
        that people hold must not end because the host asks after it when the first deadline is over.
        """
        return dataclasses.replace(request, event_id=ids.random_id(), deadline_ms=now_ms + round(self.budget * 1000))


class Run:
    """Made by `Client.run`. Calls of one run may be made at once; the same `tool_call_id` is the same call, however often."""

    def __init__(
        self, transport: Transport, inbox: Inbox, bearer: Bearer, clock: Clock, options: Options, run_id: str, intent: str
    ) -> None:  # fmt: skip
        if len(intent.encode()) > MAX_INTENT_BYTES:
            raise ValueError(f"intent: at most {MAX_INTENT_BYTES} bytes; give what was said as user_turns")
        ids.run_started_ms(run_id)
        self.id, self.intent = run_id, intent
        self._transport, self._inbox, self._bearer = transport, inbox, bearer
        self._clock, self._options = clock, options
        self._book = OriginBook()
        self._allowed: tuple[str, ...] | None = None
        self._asked: dict[str, _Asked] = {}
        self._heard: set[str] = set()
        self._stopped: Answer | None = None

    def user_said(self, text: str) -> None:
        """A turn of the user: what stands in it as a whole word may be used as an argument of origin `user`."""
        self._book.user_said(text)

    def saw(self, source: str, content: Any, trusted_fields: Iterable[str] = ()) -> None:
        """The model read this (a page, a mail, another system's result): its values count as that source's.

        Values of the trusted fields (paths such as `contacts/*/email`) count as the host's.
        """
        self._book.saw(source, content, trusted_fields)

    def vouches(self, source: str, content: Any) -> None:
        """The host itself gives these values, such as the number of the account that is signed in: origin `host`."""
        self._book.vouches(source, content)

    def allow(self, *actions: str) -> None:
        """Declares which tools or effects the request can cause; a write that is not among them goes to a person."""
        self._allowed = (*(self._allowed or ()), *actions)

    async def call(
        self,
        tool: str,
        arguments: str | Mapping[str, Any],
        *,
        tool_call_id: str,
        wait: float | None = None,
        budget: float | None = None,
    ) -> Answer:
        """Asks for one call with the model's own `tool_call_id` and raw argument text, and waits up to `wait` seconds.

        Returns at once what needs no waiting for; after `wait`, that people decide (`approval_pending`), that it is being found
        out (`in_doubt`), or that nothing came back (`unavailable`, reason `no_answer_yet`): go on with `wait()`, or ask again.
        Raises RunStopped for an internal error, ValueError for a principal, tool_call_id or content that cannot be used.
        """
        if not tool_call_id or len(tool_call_id) > MAX_ID_CHARS or not tool_call_id.isprintable():
            raise ValueError(f"tool_call_id: 1 to {MAX_ID_CHARS} printable characters")
        raw = raw_text(arguments)
        if (refused := own_refusal(tool, raw, tool_call_id)) is not None:
            return dataclasses.replace(refused, call_id=await self._call_id(tool_call_id))
        asked = await self._request(tool, raw, tool_call_id, self._options.budget_s if budget is None else budget)
        return await self._answer(asked, asked.request, wait)

    async def wait(self, call_id: str, timeout: float | None = None) -> Answer:
        """Goes on waiting for a call of this run, asking again for it from time to time. Raises as `call`, KeyError too."""
        asked = self._known(call_id)
        if (final := asked.track.final) is not None:
            return self._told(asked, final)
        return await self._answer(asked, asked.request, timeout, publish=False)

    async def cancel(self, call_id: str, wait: float | None = None) -> Answer:
        """Asks that the call does not run. `cancelled` where it had not begun, else what becomes of it."""
        asked = self._known(call_id)
        cancel = dataclasses.replace(asked.request, event_id=ids.random_id(), kind=RequestKind.CANCEL, arguments="", origins=())
        return await self._answer(asked, cancel, wait)

    async def read_result(self, answer: Answer, offset: int = 0, size: int = 8_192, wait: float | None = None) -> Answer:
        """A page of the whole result of an answer that was cut, through the tool `read_result` of the catalog.

        `fields` has `next_offset` (null at the end) and `size` of the whole in bytes, the content is {"text", ...}. Raises
        ValueError for an answer that is whole, else as `call`.
        """
        if answer.content_ref is None:
            raise ValueError("the answer names no stored result: it is whole, or the rest was not kept")
        asked = {"ref": answer.content_ref.ref, "offset": offset, "size": size}
        return await self.call(READ_RESULT, asked, tool_call_id=f"page-{answer.call_id[:24]}-{offset}-{size}", wait=wait)

    async def result_text(self, answer: Answer, wait: float | None = None) -> AsyncIterator[str]:
        """The whole result, page by page. Raises PageRefused where a page cannot be read, else as `read_result`."""
        offset: int | None = 0
        while offset is not None:
            page = await self.read_result(answer, offset, PAGE_BYTES, wait)
            if not page.ok or page.content is None:
                raise PageRefused(page)
            yield json.loads(page.content)["text"]
            offset = page.fields.get("next_offset")

    def _known(self, call_id: str) -> _Asked:
        asked = self._asked.get(call_id)
        if asked is None:
            raise KeyError(f"call {call_id[:12]} is not one of this run here; ask with `call` and its tool_call_id")
        return asked

    async def _call_id(self, tool_call_id: str) -> str:
        who = (await self._bearer.credential()).principal
        return ids.call_id(who.issuer, who.tenant, who.subject, who.agent, self.id, tool_call_id)

    async def _request(self, tool: str, raw: str, tool_call_id: str, budget: float) -> _Asked:
        call_id = await self._call_id(tool_call_id)
        if self._stopped is not None:
            raise RunStopped(Answer(Code.RUN_STOPPED, call_id, self._stopped.reason, tool_call_id=tool_call_id))
        request = CallRequested(
            event_id=ids.random_id(), producer=self._options.producer, kind=RequestKind.CALL, call_id=call_id, run_id=self.id,
            tool_call_id=tool_call_id, tool=tool, arguments=raw, origins=await marks_of(self._book, raw),
            user_turns=newest_turns(self._book.user_turns), intent=self.intent, allowed_actions=self._allowed,
            deadline_ms=self._clock.now_ms() + round(budget * 1000), grant="",
        )  # fmt: skip
        asked = _Asked(request, self._inbox.track(call_id), budget)
        self._asked.setdefault(call_id, asked)
        return asked

    async def _answer(self, asked: _Asked, request: CallRequested, wait: float | None, *, publish: bool = True) -> Answer:
        """Publishes the request, waits, publishes it again where no answer comes, and gives what there is when time is over."""
        track, clock = asked.track, self._clock
        end = clock.monotonic() + (self._options.wait_s if wait is None else wait)
        due = clock.monotonic() + (0 if publish else self._patience(track))
        reached = not publish
        with track.ask(asked.request.tool, asked.request.arguments) as ask:
            while True:
                answer = ask.answer()
                if answer is not None and not is_open(answer):
                    return self._told(asked, answer)
                now = clock.monotonic()
                if ask.missed():
                    due = now
                if not publish and not self._remembered():
                    due = max(due, end)
                if now >= due and (publish or now < end):
                    request = asked.again(request, clock.now_ms()) if reached else request
                    publish, reached = False, await self._publish(request, end - now) or reached
                    due = now + (self._patience(track) if reached else _PUBLISH_AGAIN_S)
                elif now >= end:
                    break
                else:
                    await track.changed(min(end, due) - now, clock)
            return self._told(asked, ask.standing() or no_answer_yet(track.call_id, request.tool_call_id))

    def _remembered(self) -> bool:
        """Whether the gates still know keys of this run. People may take longer than that: a call that they hold would be
        ended by being asked for again (`call_too_old`), so from then on it is only listened for."""
        age_ms = self._clock.now_ms() - ids.run_started_ms(self.id)
        return age_ms < (HORIZON - _HORIZON_MARGIN) / timedelta(milliseconds=1)

    def _patience(self, track: Track) -> float:
        return self._options.ask_again_s * (_OPEN_PATIENCE if track.latest is not None and is_open(track.latest) else 1)

    async def _publish(self, request: CallRequested, seconds: float) -> bool:
        """False where the log is away; the request is then tried again. The grant is the present one: tokens are renewed."""
        credential = await self._bearer.credential()
        try:
            async with asyncio.timeout(max(seconds, PUBLISH_S)):
                await self._transport.publish(dataclasses.replace(request, grant=credential.grant), credential.signer)
        except (Transient, TimeoutError):
            return False
        return True

    def _told(self, asked: _Asked, answer: Answer) -> Answer:
        """Remembers what the model now reads; raises where the run has ended."""
        if answer.code_class is CodeClass.INTERNAL:
            self._stopped = self._stopped or answer
            raise RunStopped(answer)
        if answer.final and answer.call_id not in self._heard:
            self._heard.add(answer.call_id)
            tool = asked.request.tool
            trusted = self._options.trusted_results.get(tool, frozenset())
            for content in (answer.fields, answer.content):
                if content:
                    self._book.saw(tool, content, trusted, call_id=answer.call_id)
        return answer
