"""What a session of fault tests adds up to: the faults by kind, every call that lived through them, the seed."""

from __future__ import annotations

import json
import os
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from support.fault_calls import Played
from support.fault_checker import Verdict

SEED_VARIABLE = "FOURGATES_TEST_SEED"
REPORT_VARIABLE = "FOURGATES_TEST_FAULTS_JSON"
WHOLE = os.environ.get("FOURGATES_TEST_FAULTS") == "whole"
"""As the evidence run has it; `make test` plays what the seed chooses."""
T = TypeVar("T")


def session_seed() -> int:
    """What decides everything that chance does, the same in all processes of a session (tests/conftest.py)."""
    return int(os.environ[SEED_VARIABLE])


def played(what: str, of: Sequence[T]) -> list[T]:
    """All of them in the evidence run, else the one that the seed chooses."""
    return list(of) if WHOLE else [random.Random(f"{session_seed()}/{what}").choice(of)]


class Tally:
    """One a session. `seed` chooses everything that chance decides."""

    def __init__(self) -> None:
        self.seed = session_seed()
        self.faults: Counter[str] = Counter()
        self.calls: list[Played] = []
        self.verdict = Verdict()
        self.mutants: dict[str, bool] = {}
        """Mutant -> whether it was caught."""
        print(f"seed {self.seed}: {SEED_VARIABLE}={self.seed} plays it again")

    def rng(self, what: str) -> random.Random:
        return random.Random(f"{self.seed}/{what}")

    def report(self) -> dict[str, Any]:
        recoveries = sorted(seconds for call in self.calls if (seconds := call.recovery) is not None)
        found = self.verdict
        return {
            "seed": self.seed, "faults": dict(sorted(self.faults.items())), "faults_total": self.faults.total(),
            "calls": len(self.calls), "double_effects": len(found.double_effects), "lost": len(found.lost),
            "two_finals": len(found.two_finals), "false_answers": len(found.false_answers),
            "unapproved": len(found.unapproved), "stale_commits": len(found.went_back), "in_doubt": found.in_doubt,
            "recovery_p50_s": round(statistics.median(recoveries), 2) if recoveries else None,
            "recovery_max_s": round(recoveries[-1], 2) if recoveries else None,
            "mutants_planted": len(self.mutants), "mutants_caught": sum(self.mutants.values()),
        }  # fmt: skip

    def write(self) -> None:
        """Into the file that the environment names, for `make evidence-faults`."""
        if path := os.environ.get(REPORT_VARIABLE):
            Path(path).write_text(json.dumps(self.report(), indent=1) + "\n", encoding="utf-8")
