"""One attempt of a tool: runs it within its time and says in our words how it ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fourgates.catalog import Committed, NotExecuted, Probed, ProbeVerdict, Tool, ToolContext, ToolError, ToolErrorKind
from fourgates.catalog.calling import invoke
from fourgates.contract.codes import Code


class Ended(StrEnum):
    COMMITTED = "committed"
    NOT_EXECUTED = "not_executed"
    """Asserted by the tool."""
    LOST = "lost"
    """A write that said neither: it may have happened."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """How one attempt ended, with what there is to tell."""

    ended: Ended
    content: Any = None
    state_change: Any = None
    code: Code = Code.OK
    reason: str = ""
    sentence: str = ""
    retryable: bool = False


_KINDS = {
    ToolErrorKind.INVALID: Code.INVALID_ARGUMENTS,
    ToolErrorKind.TRANSIENT: Code.UNAVAILABLE,
    ToolErrorKind.TERMINAL: Code.TOOL_FAILED,
}


async def run_tool(tool: Tool, landed: Any, context: ToolContext, timeout: float, stop: asyncio.Event | None) -> Attempt:
    """One attempt, at most `timeout` seconds, ended early where `stop` is set. Never raises for what a tool does."""
    running = asyncio.ensure_future(invoke(tool.run, landed, context, timeout=timeout))
    stopping = asyncio.ensure_future(stop.wait()) if stop is not None else None
    try:
        await asyncio.wait({running, stopping} if stopping else {running}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
        if running.cancelled():
            return _unfinished(tool, Code.CANCELLED, "cancelled")
        return _answered(tool, running.result())
    except TimeoutError:
        return _unfinished(tool, Code.TIMEOUT, "timeout")
    except ToolError as declared:
        return _declared(tool, declared)
    except Exception as undeclared:
        return _unfinished(tool, Code.INTERNAL, f"undeclared_{type(undeclared).__name__}")
    finally:
        if stopping is not None:
            stopping.cancel()
        running.cancel()


def _answered(tool: Tool, answer: Any) -> Attempt:
    if isinstance(answer, Committed):
        return Attempt(Ended.COMMITTED, answer.content, dict(answer.state_change))
    if isinstance(answer, NotExecuted):
        code = Code.UNAVAILABLE if answer.retryable else Code.TOOL_FAILED
        return Attempt(Ended.NOT_EXECUTED, code=code, reason=answer.reason, sentence=answer.sentence, retryable=answer.retryable)
    if tool.writes:  # a write that does not say Committed has said nothing
        return _unfinished(tool, Code.INTERNAL, "undeclared_result")
    return Attempt(Ended.COMMITTED, answer, {})


def _declared(tool: Tool, error: ToolError) -> Attempt:
    ended = Ended.NOT_EXECUTED if error.not_executed or not tool.writes else Ended.LOST
    transient = error.kind is ToolErrorKind.TRANSIENT
    return Attempt(ended, code=_KINDS[error.kind], reason=error.reason, sentence=error.sentence, retryable=transient)


def _unfinished(tool: Tool, code: Code, reason: str) -> Attempt:
    """No answer: doubt for a write; a read changes nothing, so it simply has none."""
    if tool.writes:
        return Attempt(Ended.LOST, code=Code.IN_DOUBT, reason=reason, retryable=True)
    return Attempt(Ended.NOT_EXECUTED, code=code, reason=reason)


async def probe(tool: Tool, landed: Any, context: ToolContext, timeout: float) -> Probed:
    """Asks the downstream whether the call with this key happened. A probe that fails knows nothing."""
    if tool.probe is None:
        return Probed(ProbeVerdict.UNKNOWN)
    try:
        answer = await invoke(tool.probe, landed, context, timeout=timeout)
    except Exception:
        return Probed(ProbeVerdict.UNKNOWN)
    return answer if isinstance(answer, Probed) else Probed(ProbeVerdict.UNKNOWN)
