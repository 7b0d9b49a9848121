"""Shares with their uncertainty: two of three calls is not the same as two hundred of three hundred."""

from __future__ import annotations

import math
from dataclasses import dataclass

Z95 = 1.959963984540054
"""Of a normal distribution, 95 % lie within so many standard deviations."""


@dataclass(frozen=True, slots=True)
class Share:
    """`part` of `whole` calls. Nothing can be said where the whole is nothing."""

    part: int
    whole: int

    @property
    def value(self) -> float | None:
        return self.part / self.whole if self.whole else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's score interval at 95 %: it stays between 0 and 1, and holds also for few calls and for none that failed."""
        if not self.whole:
            return None
        n, p, z2 = self.whole, self.part / self.whole, Z95 * Z95
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
        low = 0.0 if self.part == 0 else max(0.0, middle - half)
        high = 1.0 if self.part == self.whole else min(1.0, middle + half)
        return low, high

    def text(self, between: str = " ") -> str:
        """`67% (21–94)`: the share, and where the true one lies with 95 % confidence; without it where it is within a point."""
        if self.value is None or self.interval is None:
            return "-"
        low, high = self.interval
        around = "" if high - low < 0.02 else f"{between}({low * 100:.0f}–{high * 100:.0f})"
        return f"{_percent(self.value)}{around}"


def _percent(value: float) -> str:
    """Never 100 % of what has an exception, or 0 % of what has happened."""
    shown = f"{value:.0%}"
    if value not in (0, 1) and shown in ("0%", "100%"):
        return "<1%" if value < 0.5 else ">99%"
    return shown
