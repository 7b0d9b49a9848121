"""What a measuring finds out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """What is found out. `wrong` says in words what is not as it should be."""

    calls: int = 0
    outcomes_equal: int = 0
    tasks: int = 0
    stores_equal: int = 0
    mutants: int = 0
    mutants_refused: int = 0
    tool_entries_on_refused: int = 0
    told_whole: int = 0
    """Results that the model got as the tool gave them: nothing innocent was redacted or cut."""
    by_kind: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    """Of the mutants, by code."""
    held: Counter[str] = field(default_factory=Counter)
    """Correct calls that had to be confirmed, by the reason of the hold."""
    wrong: list[str] = field(default_factory=list)

    def told(self) -> dict[str, int]:
        """As the JSON file has it."""
        names = (
            "calls", "outcomes_equal", "tasks", "stores_equal", "mutants", "mutants_refused", "tool_entries_on_refused",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}
