"""One attempt of a tool: runs it within its time and says in our words how it ended."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fourgates.catalog import Committed, NotExecuted, Probed, ProbeVerdict, Tool, ToolContext, ToolError, ToolErrorKind
from fourgates.catalog.calling import invoke
from fourgates.catalog.stopping import Stopped
from fourgates.contract.codes import Code
from fourgates.executor.streams import is_streamed, received


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
    retry_after_s: float | None = None
    """How long the downstream asks to be left alone."""


_KINDS = {
    ToolErrorKind.INVALID: Code.INVALID_ARGUMENTS,
    ToolErrorKind.TRANSIENT: Code.UNAVAILABLE,
    ToolErrorKind.TERMINAL: Code.TOOL_FAILED,
    ToolErrorKind.DISABLED: Code.TOOL_DISABLED,
}


async def run_tool(tool: Tool, landed: Any, context: ToolContext, timeout: float, stop: asyncio.Event | None) -> Attempt:
    """One attempt, at most `timeout` seconds, ended early where `stop` is set. Never raises for what a tool does."""
    ends = time.monotonic() + timeout
    try:
        answer = await invoke(tool.run, landed, context, timeout=timeout, stop=stop)
        if is_streamed(answer):
            answer = await invoke(received, answer, context, timeout=ends - time.monotonic(), stop=stop)
        return _answered(tool, answer)
    except Stopped:
        return _unfinished(tool, Code.CANCELLED, "cancelled")
    except TimeoutError:
        return _unfinished(tool, Code.TIMEOUT, "timeout")
    except ToolError as declared:
        return _declared(tool, declared)
    except Exception as undeclared:
        return _unfinished(tool, Code.INTERNAL, f"undeclared_{type(undeclared).__name__}")


def _answered(tool: Tool, answer: Any) -> Attempt:
    if isinstance(answer, Committed):
        return Attempt(Ended.COMMITTED, answer.content, dict(answer.state_change))
    if isinstance(answer, NotExecuted):
        code = Code.UNAVAILABLE if answer.retryable else Code.TOOL_FAILED
        return Attempt(
            Ended.NOT_EXECUTED, code=code, reason=answer.reason, sentence=answer.sentence, retryable=answer.retryable,
            retry_after_s=answer.retry_after_s,
        )  # fmt: skip
    if tool.writes:  # a write that does not say Committed has said nothing
        return _unfinished(tool, Code.INTERNAL, "undeclared_result")
    return Attempt(Ended.COMMITTED, answer, {})


def _declared(tool: Tool, error: ToolError) -> Attempt:
    ended = Ended.NOT_EXECUTED if error.not_executed or not tool.writes else Ended.LOST
    transient = error.kind is ToolErrorKind.TRANSIENT
    return Attempt(
        ended, code=_KINDS[error.kind], reason=error.reason, sentence=error.sentence, retryable=transient,
        retry_after_s=error.retry_after_s,
    )  # fmt: skip


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
