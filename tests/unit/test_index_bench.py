"""The bench of the index runs, on a small size, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "index_bench.py"


def test_the_index_is_measured_at_each_size(tmp_path: Path) -> None:
    """E1: a write is remembered in few bytes, and one more call costs the same however many are known."""
    told = tmp_path / "index.json"
    subprocess.run([sys.executable, SCRIPT, "--keys", "1000", "20000", "--rounds", "3", "--json", told], check=True, timeout=110)
    found = json.loads(told.read_text())
    assert found["call_us"].keys() == {"1000", "20000"}
    assert 0 < found["ledger_bytes_per_key"] < 600  # at this size the cache of partitions weighs as much
    assert found["cold_fold_s_per_million_entries"] > 0
    assert found["cost_ratio"] < 3
