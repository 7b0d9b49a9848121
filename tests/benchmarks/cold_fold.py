"""A cold fold as a new owner of all partitions does it, through a real broker whose topics are empty before.

python tests/benchmarks/cold_fold.py BOOTSTRAP --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks"), str(ROOT / "services")]

from index_bench import FLOORS, Tape  # noqa: E402 - after the path is set

from fourgates.cli.stage_process import settle_memory  # noqa: E402
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_LEDGER  # noqa: E402
from fourgates.executor.effects_view import EffectsView  # noqa: E402
from fourgates.executor.index import LedgerIndex  # noqa: E402
from fourgates.runtime.clock import SystemClock  # noqa: E402
from fourgates.runtime.kafka import KafkaBus  # noqa: E402
from support.sealing import opener, writer  # noqa: E402

CALLS = 20_000
FLOOR_S = FLOORS["cold_fold_s_per_million_entries"]
_AT_ONCE = 400
"""So many calls are written side by side: about what a busy log looks like, few records to a batch."""
_HEADERS = (("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"),)


async def fill(bus: KafkaBus, calls: int) -> int:
    """Writes the lives of so many calls; returns how many entries of the ledger that were."""
    tape, entries = Tape(), 0
    for first in range(0, calls, _AT_ONCE):
        lives = list(tape.calls(first, min(_AT_ONCE, calls - first)))
        for step in zip(*lives, strict=True):
            entries += sum(one.position.topic == CALLS_LEDGER for one in step)
            await asyncio.gather(*(bus.raw.append(one.position.topic, one.key, one.value, headers=_HEADERS) for one in step))
    return entries


async def folded(bootstrap: str, calls: int) -> dict[str, Any]:
    """Seconds of processor time past a million entries, for the ledger and for the effects."""
    async with KafkaBus(bootstrap, opener()) as bus:
        entries = await fill(bus, calls)
    async with KafkaBus(bootstrap, opener()) as bus:
        publisher = bus.publisher(writer("executor"))
        settle_memory()
        begun = time.process_time()
        index = LedgerIndex(bus, publisher, SystemClock(), "executor@bench:1")
        await index.own(range(CALL_PARTITIONS))
        ledger = time.process_time() - begun
        begun = time.process_time()
        await EffectsView(bus, publisher).start()
        effects = time.process_time() - begun
    return {
        "ledger_s_per_million_entries": round(ledger / entries * 1e6, 1),
        "effects_s_per_million_entries": round(effects / calls * 1e6, 1), "entries": entries, "floor_s": FLOOR_S,
    }  # fmt: skip


def measured(bootstrap: str, json_file: Path) -> dict[str, Any]:
    """The figures of a process of its own: what else a process remembers makes it slower."""
    subprocess.run([sys.executable, __file__, bootstrap, "--json", str(json_file)], check=True)
    return dict(json.loads(json_file.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench-cold.json")
    parser.add_argument("--calls", type=int, default=CALLS)
    chosen = parser.parse_args()
    found = asyncio.run(folded(chosen.bootstrap, chosen.calls))
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f" index a cold fold on Kafka past a million entries: ledger {found['ledger_s_per_million_entries']} s, "
          f"effects {found['effects_s_per_million_entries']} s of processor time (floor {FLOOR_S:.0f})", flush=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
