"""What an answer of the other side means: only the contract may say that a write did not happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fourgates.catalog import Committed, ToolError, ToolErrorKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A way to fail that the contract declares (R7)."""

    reason: str
    """A short stable word."""
    sentence: str
    """What a model may read; the other side's own words never reach it."""
    kind: ToolErrorKind = ToolErrorKind.TERMINAL
    not_executed: bool = False
    """The other side asserts by it that nothing happened and nothing will. Without it a write that fails so is in doubt."""

    def error(self, retry_after_s: float | None = None) -> ToolError:
        """As an exception of the tool."""
        return ToolError(self.reason, self.sentence, self.kind, not_executed=self.not_executed, retry_after_s=retry_after_s)

    def words(self) -> list[Any]:
        """As part of the tool's version."""
        return [self.reason, self.sentence, self.kind.value, self.not_executed]


def refused_arguments(reason: str, sentence: str) -> ToolError:
    """An argument that cannot be passed on as it is; nothing was sent."""
    return ToolError(reason, sentence, ToolErrorKind.INVALID, not_executed=True)


def away(reason: str, retry_after_s: float | None = None) -> ToolError:
    """The other side was not reached at all: nothing was sent, later perhaps."""
    return ToolError(
        reason, "The tool cannot be reached.", ToolErrorKind.TRANSIENT, not_executed=True, retry_after_s=retry_after_s
    )


def silent(reason: str) -> ToolError:
    """The other side was reached and did not answer as agreed: unavailable for a read, in doubt for a write."""
    return ToolError(reason, "The tool did not answer.", ToolErrorKind.TRANSIENT)


def done(content: Any) -> Committed:
    """It happened; of a read, this is its answer."""
    return Committed(content)
