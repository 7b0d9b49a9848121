"""How fast the audit takes events, what survives kill -9 of it, how long its questions take, and whether it finds what is wrong.

python tests/evidence/audit.py --json build/audit.json [--events N] [--rows N] [--kills N]

Everything on the embedded engine, in one folder after the other. `events_per_s` is the sink's own: records in memory to rows on
the disk, seals checked, texts redacted, roll-up made; Kafka's client is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "services")]

from fourgates.audit.bulk import BulkMaker, BulkRows  # noqa: E402 - after the path is set
from fourgates.audit.integrity import run_integrity  # noqa: E402
from fourgates.audit.settings import ReadLimits, SinkSettings  # noqa: E402
from fourgates.audit.sink import AuditSink  # noqa: E402
from fourgates.audit.store import reading_client, running  # noqa: E402
from fourgates.contract.ports import Offsets, Received  # noqa: E402
from fourgates.runtime.clock import SystemClock  # noqa: E402
from support.auditing import Engine, engine_in, row_maker  # noqa: E402
from support.file_log import write_log  # noqa: E402
from support.many_events import fill  # noqa: E402
from support.planting import count_planted  # noqa: E402
from support.sealing import opener  # noqa: E402
from support.sink_process import Nobody  # noqa: E402
from support.stories import Tape, a_denied_write, a_misspelt_call, a_read, a_waived_write, an_approved_write  # noqa: E402

FETCH = 5_000
"""As many records as the Kafka client hands out at once."""
MIX = ((a_read,) * 12 + (a_waived_write,) * 7 + (a_misspelt_call,)) * 10 + (an_approved_write,)
"""People decide about one call in two hundred: nobody would keep up with more of thousands a second."""
VIEWS = (
    "success", "success_by_tool", "refusals_by_code", "failures_by_attribution", "latency_by_tool", "approval_times",
    "retry_counts", "doubt_counts",
)  # fmt: skip
ONE_CALL = "SELECT * FROM fourgates.calls WHERE call_id = lower(hex(SHA256('{number}')))"
PATIENCE = 120
"""Seconds that a question may take here: a figure beyond the door's limit is a figure, too."""
LATER_MS = 1_000_000_000_000


def busy(events: int, first: int = 0) -> Tape:
    """A tape of at least so many records."""
    tape, number = Tape(), first
    while len(tape.received) < events:
        MIX[number % len(MIX)](tape, f"call-{number}")
        number += 1
    a_denied_write(tape, f"call-{number}")
    return tape


class Feed:
    """The Batches port over records in memory."""

    def __init__(self, received: Sequence[Received]) -> None:
        self._received = received

    async def __aiter__(self) -> AsyncIterator[Sequence[Received]]:
        for first in range(0, len(self._received), FETCH):
            yield self._received[first : first + FETCH]

    async def commit(self, offsets: Offsets) -> None:
        """Nothing to remember: the feed is read once."""

    def assigned(self) -> Offsets:
        return {}

    async def close(self) -> None:
        """Ends by itself."""


def ingest(engine: Engine, received: Sequence[Received]) -> dict[str, float]:
    """Everything through one sink; seconds by the clock and by the processor."""
    maker = row_maker()
    rows = BulkRows(maker, BulkMaker(opener(), maker, running(engine.connect())), SinkSettings().bulk)
    rows.prepare(received[:FETCH])  # compiled patterns and the like are no part of the rate
    sink = AuditSink(engine.store, rows, Nobody(), SystemClock(), "audit@evidence", SinkSettings())
    began, worked = time.perf_counter(), time.process_time()
    asyncio.run(sink.run(Feed(received)))
    return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - worked}


def integrity_rows(engine: Engine) -> int:
    return sum(len(finding.rows) for finding in run_integrity(engine.store.query, LATER_MS * 2, 0))


def bytes_on_disk(engine: Engine) -> int:
    engine.store.command("OPTIMIZE TABLE fourgates.events FINAL")
    parts = "active AND database = 'fourgates' AND table IN ('events', 'call_rollup')"
    return int(engine.one(f"SELECT sum(bytes_on_disk) FROM system.parts WHERE {parts}"))


def miscounts(engine: Engine, tape: Tape) -> tuple[int, int]:
    """(records that count more or less than once, records that are missing)."""
    counted = engine.ask("SELECT topic, partition, offset, count() AS n FROM fourgates.records GROUP BY topic, partition, offset")
    seen = {(row["topic"], int(row["partition"]), int(row["offset"])): int(row["n"]) for row in counted}
    expected = {(one.position.topic, one.position.partition, one.position.offset) for one in tape.received}
    calls = int(engine.one("SELECT sum(asked) FROM fourgates.success"))
    asked = sum(one.position.topic == "calls.requested" for one in tape.received)
    wrong = sum(n != 1 for n in seen.values()) + len(seen.keys() - expected) + abs(calls - asked)
    return wrong, len(expected - seen.keys())


def killed_again_and_again(folder: Path, kills: int) -> tuple[int, int, int]:
    """(miscounted, missing, integrity rows) after a sink's process was killed so many times while it worked off a log."""
    tape, dice = busy(4_000 * max(kills, 1)), random.Random(kills)
    log, commits = folder / "log", folder / "commits.json"
    write_log(log, tape.received)
    argv = [sys.executable, "-m", "support.sink_process", str(folder / "engine"), str(log), str(commits), "2000"]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    for turn in range(kills + 1):
        child = subprocess.Popen(argv, stdout=subprocess.PIPE, env=env)
        assert child.stdout is not None
        assert child.stdout.readline() == b"reading\n"
        if turn < kills:
            time.sleep(dice.random() * 2)  # anywhere: no place is agreed upon
            child.kill()
        child.communicate()
    with engine_in(folder / "engine") as engine:
        return (*miscounts(engine, tape), integrity_rows(engine))


def asked(engine: Engine, rows: int, times: int) -> dict[str, float]:
    """Milliseconds that 95 % of so many askings of each view stay under, within the door's limits but for its 15 seconds."""
    calls = fill(engine.store, rows)
    client = reading_client(engine.connect, ReadLimits(seconds=PATIENCE))
    dice = random.Random(1)
    found = {}
    questions = {view: f"SELECT * FROM fourgates.{view} LIMIT 1000" for view in VIEWS} | {"one call": ONE_CALL}
    for name, sql in questions.items():
        took = []
        for _ in range(times):
            began = time.perf_counter()
            client.raw_query(sql.format(number=dice.randrange(calls)), fmt="JSONEachRow")
            took.append((time.perf_counter() - began) * 1000)
        found[name] = round(statistics.quantiles(took, n=20)[-1] if len(took) > 1 else took[0], 1)
        print(f"{name:24} p95 {found[name]:>9.1f} ms", flush=True)
    return found


def gathered(folder: Path, events: int, rows: int, kills: int, times: int) -> dict[str, Any]:
    tape = busy(events)
    with engine_in(folder / "ingest") as engine:
        took = ingest(engine, tape.received)
        lost = miscounts(engine, tape)
        found: dict[str, Any] = {
            "events": len(tape.received),
            "events_per_s": round(len(tape.received) / took["seconds"]),
            "cpu_us_per_event": round(took["cpu_seconds"] / len(tape.received) * 1e6, 1),
            "bytes_per_event": round(bytes_on_disk(engine) / len(tape.received), 1),
        }
        wrong = integrity_rows(engine)
    print(
        f"{found['events_per_s']} events/s, {found['cpu_us_per_event']} µs of CPU and {found['bytes_per_event']} bytes each",
        flush=True,
    )
    miscounted, missing, after_kills = killed_again_and_again(folder, kills)
    found |= {
        "kills": kills,
        "miscounted": miscounted + lost[0],
        "missing": missing + lost[1],
        "integrity_rows": wrong + after_kills,
    }
    print(f"{kills} kills: {found['miscounted']} miscounted, {found['missing']} missing", flush=True)
    with engine_in(folder / "planted") as engine:
        planted, seen = count_planted(engine)
        found |= {"planted": planted, "planted_found": seen}
    print(f"{planted} violations planted, {seen} found", flush=True)
    with engine_in(folder / "questions") as engine:
        found |= {"rows": rows, "query_p95_ms": asked(engine, rows, times)}
    return found


def main() -> int:
    """Writes the figures; exit code 1 where a record was lost or miscounted, or a violation was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--events", type=int, default=200_000, help="events that are taken (200,000)")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows that are asked about (10,000,000)")
    parser.add_argument("--kills", type=int, default=10, help="kills of the sink (10)")
    parser.add_argument("--times", type=int, default=20, help="askings of each view (20)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fourgates-audit-") as name:
        found = gathered(Path(name), chosen.events, chosen.rows, chosen.kills, chosen.times)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    good = not found["miscounted"] and not found["missing"] and not found["integrity_rows"]
    return 0 if good and found["planted"] == found["planted_found"] else 1


if __name__ == "__main__":
    sys.exit(main())
