"""Runs every fault test and every mutant and writes what they add up to: `make evidence-faults`, and for longer `make soak`."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SUMMED = ("calls", "double_effects", "lost", "two_finals", "false_answers", "unapproved", "stale_commits", "in_doubt")


def one_run(seed: int, tests: list[str], calls: int) -> tuple[int, dict[str, Any]]:
    """The exit code of pytest, and the report of its session."""
    with tempfile.TemporaryDirectory(prefix="fourgates-faults-") as folder:
        report = Path(folder) / "report.json"
        environment = {
            **os.environ, "FOURGATES_TEST_SEED": str(seed), "FOURGATES_TEST_FAULTS": "whole", "FOURGATES_TEST_KAFKA": "required",
            "FOURGATES_TEST_CALLS": str(calls), "FOURGATES_TEST_FAULTS_JSON": str(report),
        }  # fmt: skip
        argv = [sys.executable, "-m", "pytest", "-q", "-s", "--durations=10", f"--basetemp={folder}/tmp", *tests]
        code = subprocess.run(argv, cwd=ROOT, env=environment, check=False).returncode
        return code, json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}


def together(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """One report of several runs: faults and calls summed, the slowest recovery, the median of the medians."""
    if len(runs) == 1:
        return runs[0]
    faults: Counter[str] = Counter()
    for run in runs:
        faults.update(run["faults"])
    middles = [run["recovery_p50_s"] for run in runs if run["recovery_p50_s"] is not None]
    return {
        "seed": [run["seed"] for run in runs], "faults": dict(sorted(faults.items())), "faults_total": faults.total(),
        **{name: sum(run[name] for run in runs) for name in _SUMMED},
        "recovery_p50_s": statistics.median(middles) if middles else None,
        "recovery_max_s": max((run["recovery_max_s"] or 0 for run in runs), default=None),
        "mutants_planted": runs[0]["mutants_planted"], "mutants_caught": runs[0]["mutants_caught"],
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--calls", type=int, default=500, help="calls under load, at least")
    parser.add_argument("--minutes", type=float, default=0.0, help="goes on with other seeds for so long; 0: one run")
    chosen = parser.parse_args()
    end, seed, runs, failed = time.monotonic() + chosen.minutes * 60, chosen.seed, [], 0
    tests = ["tests/faults"]
    while True:
        code, report = one_run(seed, tests, chosen.calls)
        failed |= code
        if report:
            runs.append(report)
        if code or time.monotonic() > end:
            break
        seed, tests = seed + 1, ["tests/faults/test_places.py", "tests/faults/test_under_load.py"]
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    if runs:
        chosen.json.write_text(json.dumps(together(runs), indent=1) + "\n", encoding="utf-8")
        print(chosen.json.read_text(encoding="utf-8"))
    return failed


if __name__ == "__main__":
    sys.exit(main())
