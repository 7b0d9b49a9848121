"""The retail corpus through the real gates: 380 correct calls of 79 tasks must pass, whatever breaks a rule must not.

python tests/corpora/retail.py --data ../shared/data/retail --json build/corpora/retail.json --bus kafka

policy.md wants an explicit yes of the customer before each change. That is not the model's to report: here it is an approval by
somebody of `confirmers`, who has the customer's yes to exactly what is shown. A call without it is a call that stays held.
Each task has a tenant of its own, and with it a fresh store, its own effects and its own confirmers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpora.retail_trial.breeding import Breeder
from corpora.retail_trial.counts import Counts
from corpora.retail_trial.play import play
from corpora.retail_trial.tasks import Data
from corpora.retail_trial.world import open_world
from fourgates.contract.errors import ConfigurationError

AT_ONCE = 4


async def measure(data: Data, breeder: Breeder, bus: str, folder: Path) -> Counts:
    """Plays all tasks of `data` on `memory` or `kafka`. Everything that is written lies in `folder`."""
    async with open_world(bus, data, folder) as world:
        return await play(world, data, breeder, AT_ONCE)


def in_order(counts: Counts) -> bool:
    """Everything is as it should be."""
    told = counts.told()
    pairs = (("outcomes_equal", "calls"), ("stores_equal", "tasks"), ("mutants_refused", "mutants"))
    return all(told[part] == told[whole] for part, whole in pairs) and not counts.tool_entries_on_refused


def main() -> int:
    """Exit code 0 where everything is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with store.json and tasks.jsonl")
    parser.add_argument("--json", type=Path, required=True, help="where the counts go")
    parser.add_argument("--bus", choices=("kafka", "memory"), default="memory")
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fourgates-retail-", ignore_cleanup_errors=True) as folder:
        data = Data.load(chosen.data)
        try:
            counts = asyncio.run(measure(data, Breeder(data), chosen.bus, Path(folder)))
        except ConfigurationError as fault:  # such as a machine without Java
            parser.error(str(fault))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(counts.told(), indent=2) + "\n", encoding="utf-8")
    for line in counts.wrong:
        print(line, file=sys.stderr)
    for kind, count in sorted(counts.by_kind.items()):
        print(f"{count:5}  {kind}")
    print(f"mutants were answered with {dict(counts.answers.most_common())}")
    print(f"correct calls were held for {dict(counts.held.most_common())}; {counts.told_whole} results reached the model whole")
    print(json.dumps(counts.told()), f"in {time.monotonic() - started:.0f} s on {chosen.bus}")
    return 0 if in_order(counts) else 1


if __name__ == "__main__":
    sys.exit(main())
