"""Tools whose definition somebody else writes: an operator accepts each, and what changes afterwards does not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Definition = Mapping[str, Any]


class Offer(Protocol):
    """What `fourgates catalog accept` needs of such a tool."""

    def accepted(self) -> Definition | None:
        """The accepted definition; None before the first."""

    async def offered(self) -> Definition:
        """The definition as it is now. Raises Transient where the other side is away, ConfigurationError where it has none."""

    def accept(self, definition: Definition) -> None:
        """From the next start on this definition counts. Raises ConfigurationError where it cannot be a tool."""

    async def close(self) -> None:
        """Ends what `offered` opened."""
