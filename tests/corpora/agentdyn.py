"""The AgentDyn corpus through the real marking and the real validator: injected calls are held, honest ones go on.

python tests/corpora/agentdyn.py --data ../shared/data/agentdyn --json build/corpora/agentdyn.json

The recorded runs had no defence: also what a held call would not have done is answered as it was then.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpora.agentdyn_trial.contracts import make_catalog
from corpora.agentdyn_trial.counting import Counting, telling_arguments
from corpora.agentdyn_trial.judging import Judge
from corpora.agentdyn_trial.runs import RecordedRun, load_runs
from corpora.agentdyn_trial.variants import VARIANTS, variant
from fourgates.catalog import Catalog


async def measure(catalog: Catalog, runs: list[RecordedRun]) -> Counting:
    """Judges the attacks that succeeded and the clean runs; nothing else is counted."""
    counting, judge = Counting(catalog, runs), Judge(catalog)
    await judge.start()
    for run in runs:
        if run.succeeded or run.is_clean:
            counting.add(run, await judge.judge(run))
    await judge.close()
    return counting


def told(counting: Counting, catalog: Catalog) -> dict[str, Any]:
    return {
        **counting.all.told(),
        "suites": {name: figures.told() for name, figures in sorted(counting.suites.items())},
        "held_tools": counting.all.held_tools, "through": counting.all.through,
        "telling_arguments": {tool: list(names) for tool, names in telling_arguments(catalog).items() if names},
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with runs.jsonl.gz, or such a file")
    parser.add_argument("--json", type=Path, required=True, help="where the figures go")
    parser.add_argument("--curve", action="store_true", help="also measure stricter and laxer contracts")
    chosen = parser.parse_args()
    started, catalog, runs = time.monotonic(), make_catalog(), load_runs(chosen.data)
    found = told(asyncio.run(measure(catalog, runs)), catalog)
    if chosen.curve:
        found["curve"] = {name: asyncio.run(measure(variant(change), runs)).all.told() for name, change in VARIANTS.items()}
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2), f"\nin {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
