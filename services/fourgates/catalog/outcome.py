"""What a tool may say of itself: it committed, it did not execute, or a declared error; what a preview and a probe say."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class Committed:
    """The only way for a write to succeed. Anything else that a write returns is in doubt."""

    content: Any = None
    """What the model gets to read after redaction: text, or any JSON value."""
    state_change: Mapping[str, Any] = field(default_factory=dict)
    """What changed, for the audit."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """A result too large for memory: text, or its UTF-8 bytes, piece by piece. A read returns it, or it is a Committed's content.

    The pieces are taken within the tool's timeout. A model gets head and tail and may page through the rest.
    """

    pieces: Iterable[str | bytes] | AsyncIterable[str | bytes]


@dataclass(frozen=True, slots=True)
class NotExecuted:
    """The only way to `failed`: the tool asserts that nothing happened and nothing will."""

    reason: str
    """A short stable word."""
    sentence: str = ""
    """A sentence that a model may read."""
    retryable: bool = False
    """Whether asking again later may help."""
    retry_after_s: float | None = None
    """How long the downstream asks to be left alone, in seconds."""


class ToolErrorKind(StrEnum):
    """How a declared error is told."""

    INVALID = "invalid"
    """The model can mend it (`file not found`): invalid_arguments."""
    TRANSIENT = "transient"
    """Later perhaps: unavailable."""
    TERMINAL = "terminal"
    """tool_failed."""
    DISABLED = "disabled"
    """The tool is not what was accepted: tool_disabled, until its operator accepts it."""


class ToolError(Exception):
    """A declared error. For a write it counts as `nothing happened` only where `not_executed` is True, else as doubt."""

    def __init__(
        self,
        reason: str,
        sentence: str,
        kind: ToolErrorKind = ToolErrorKind.TERMINAL,
        *,
        not_executed: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{reason}: {sentence}")
        self.reason, self.sentence, self.kind, self.not_executed = reason, sentence, kind, not_executed
        self.retry_after_s = retry_after_s
        """How long the downstream asks to be left alone, in seconds; looked at for transient errors."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a person sees before they decide. Values are JSON."""

    target: str
    before: Any
    after: Any
    recoverable: bool
    amount: str = ""
    binding: tuple[str, ...] = ("target", "before", "after", "recoverable", "amount")
    """The fields that must be the same right before dispatch."""


class ProbeVerdict(StrEnum):
    COMMITTED = "committed"
    NEVER = "never"
    """It did not happen, and the downstream now refuses the key."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Probed:
    """The answer to: did the call with this key happen?"""

    verdict: ProbeVerdict
    content: Any = None
    state_change: Mapping[str, Any] = field(default_factory=dict)
