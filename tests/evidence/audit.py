"""How fast the audit takes events, what survives kill -9 of it, how long its questions take, and whether it finds what is wrong.

python tests/evidence/audit.py --json build/audit.json [--only PHASE ...] [--events N] [--rows N] [--kills N]

The phases are ingest, kills, planted and questions, each on an embedded engine of its own; one that runs alone keeps what the
file says of the others. `events_per_s` is the sink's own: records in memory to rows on the disk, seals checked, texts redacted,
roll-up made; Kafka's client is not in it. A question's `query_p95_ms` is the slowest of its askings where there are fewer than
twenty; each goes through a reading client with the query door's limits, all but its seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS.parent / "services")]

from fourgates.audit.bulk import BulkMaker, BulkRows  # noqa: E402 - after the path is set
from fourgates.audit.explain import explain  # noqa: E402
from fourgates.audit.integrity import CHECKS, run_integrity  # noqa: E402
from fourgates.audit.settings import ReadLimits, SinkSettings  # noqa: E402
from fourgates.audit.sink import AuditSink  # noqa: E402
from fourgates.audit.store import Query, reading_client, running  # noqa: E402
from fourgates.audit.tables import REPORTS  # noqa: E402
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
    "retry_counts", "doubt_counts", "signals_by_tool",
)  # fmt: skip
ONE_CALL = "SELECT * FROM fourgates.calls WHERE call_id = {call_id:String}"
PATIENCE, LONG_ENOUGH = 120, 20
"""Seconds that one asking may take here, for a figure beyond the door's limit is a figure, too; and that all of a question may,
unless it was asked fewer than three times."""
LEAST_TIMES = 3
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
        told(f"killed {turn + 1} times" if turn < kills else "worked off to the end")
    with engine_in(folder / "engine") as engine:
        return (*miscounts(engine, tape), integrity_rows(engine))


def _questions(calls: int) -> dict[str, Callable[[Query], object]]:
    """Every question by its name: what it costs is all that is looked at."""
    dice = random.Random(1)

    def of_a_call(ask: Callable[[Query, str], object]) -> Callable[[Query], object]:
        return lambda query: ask(query, hashlib.sha256(str(dice.randrange(calls)).encode()).hexdigest())

    found: dict[str, Callable[[Query], object]] = {
        "one call": of_a_call(lambda query, call_id: query(ONE_CALL, {"call_id": call_id})),
        "explain": of_a_call(explain),
    }
    for view in VIEWS:
        found[view] = lambda query, view=view: query(f"SELECT * FROM fourgates.{view} LIMIT 1000")  # type: ignore[misc]
    for report in REPORTS.values():
        found[f"report {report.name}"] = lambda query, report=report: report.ask(query, report.default_by, 0)  # type: ignore[misc]
    return found


def asked(query: Query, ask: Callable[[Query], object], times: int) -> float:
    """Milliseconds that 95 % of so many askings stay under."""
    took: list[float] = []
    while len(took) < times and (len(took) < LEAST_TIMES or sum(took) < LONG_ENOUGH * 1000):
        began = time.perf_counter()
        ask(query)
        took.append((time.perf_counter() - began) * 1000)
    return round(statistics.quantiles(took, n=20)[-1] if len(took) >= 20 else max(took), 1)


def ingest_phase(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    tape = busy(chosen.events)
    told(f"{len(tape.received)} records to take")
    with engine_in(folder) as engine:
        took = ingest(engine, tape.received)
        miscounted, missing = miscounts(engine, tape)
        found = {
            "events": len(tape.received),
            "events_per_s": round(len(tape.received) / took["seconds"]),
            "cpu_us_per_event": round(took["cpu_seconds"] / len(tape.received) * 1e6, 1),
            "bytes_per_event": round(bytes_on_disk(engine) / len(tape.received), 1),
            "miscounted": miscounted, "missing": missing, "integrity_rows": integrity_rows(engine),
        }  # fmt: skip
    told(f"{found['events_per_s']} events/s, {found['cpu_us_per_event']} µs of CPU and {found['bytes_per_event']} bytes each")
    return found


def kills_phase(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    folder.mkdir()
    miscounted, missing, integrity = killed_again_and_again(folder, chosen.kills)
    told(f"{chosen.kills} kills: {miscounted} miscounted, {missing} missing")
    return {"kills": chosen.kills, "miscounted": miscounted, "missing": missing, "integrity_rows": integrity}


def planted_phase(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    with engine_in(folder) as engine:
        planted, seen = count_planted(engine)
    told(f"{planted} violations planted, {seen} found")
    return {"planted": planted, "planted_found": seen}


def questions_phase(folder: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    limits = ReadLimits()
    with engine_in(folder) as engine:
        began = time.perf_counter()
        calls = fill(engine.store, chosen.rows)
        told(f"{chosen.rows} rows of {calls} calls are there after {time.perf_counter() - began:.0f} s")
        client = reading_client(engine.connect, limits.model_copy(update={"seconds": PATIENCE}))

        def query(sql: str, parameters: Mapping[str, Any] | None = None, /) -> list[dict[str, Any]]:
            lines = client.raw_query(sql, parameters=dict(parameters or {}), fmt="JSONEachRow").split(b"\n")
            return [json.loads(line) for line in lines if line]

        p95: dict[str, float] = {}
        for name, ask in _questions(calls).items():
            p95[name] = asked(query, ask, chosen.times)
            told(f"{name:32} p95 {p95[name]:>9.1f} ms")
        integrity = 0
        for check in CHECKS:
            began = time.perf_counter()
            integrity += len(query(check.sql, {"before": LATER_MS * 2}))
            p95[f"check {check.name}"] = round((time.perf_counter() - began) * 1000, 1)
            told(f"{'check ' + check.name:32}     {p95[f'check {check.name}']:>9.1f} ms")
    slow = {name: ms for name, ms in p95.items() if ms > limits.seconds * 1000}
    return {"rows": chosen.rows, "query_p95_ms": p95, "integrity_rows": integrity, "beyond_the_doors_limit": slow}


PHASES = {"ingest": ingest_phase, "kills": kills_phase, "planted": planted_phase, "questions": questions_phase}
_STARTED = time.monotonic()


def told(what: str) -> None:
    print(f"{time.monotonic() - _STARTED:6.0f} s  {what}", flush=True)


def together(phases: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What the phases found as one: what counts faults is their sum, the rest is each phase's own."""
    found: dict[str, Any] = {}
    for phase in phases.values():
        for name, value in phase.items():
            found[name] = found.get(name, 0) + value if name in ("miscounted", "missing", "integrity_rows") else value
    return found | {"phases": dict(phases)}


def main() -> int:
    """Writes the figures; exit code 1 where a record was lost or miscounted, a violation was not found, or a question takes
    longer than the door allows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--only", choices=PHASES, nargs="+", default=list(PHASES), help="only these phases (all)")
    parser.add_argument("--events", type=int, default=400_000, help="events that are taken (400,000)")
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows that are asked about (10,000,000)")
    parser.add_argument("--kills", type=int, default=10, help="kills of the sink (10)")
    parser.add_argument("--times", type=int, default=20, help="askings of each question at most (20)")
    chosen = parser.parse_args()
    phases: dict[str, Any] = {}
    if len(chosen.only) < len(PHASES) and chosen.json.exists():
        phases = json.loads(chosen.json.read_text()).get("phases", {})
    for name in chosen.only:
        told(name)
        with tempfile.TemporaryDirectory(prefix="fourgates-audit-") as folder:
            phases[name] = PHASES[name](Path(folder) / name, chosen)
    found = together({name: phases[name] for name in PHASES if name in phases})
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    faults = ("miscounted", "missing", "integrity_rows", "beyond_the_doors_limit")
    return 1 if any(found.get(name) for name in faults) or found.get("planted") != found.get("planted_found") else 0


if __name__ == "__main__":
    sys.exit(main())
