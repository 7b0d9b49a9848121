"""The index of the ledger and of the effects at a million calls: bytes a key, a cold fold, the cost of one more call.

    python tests/benchmarks/index_bench.py            writes build/bench-index.json

Sealed records are opened and folded as a new owner of all partitions does it, without a broker; `cold_fold.py` does it through
one. Times are processor time of one core: a machine that others use makes them longer, by half and more.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "benchmarks"), str(ROOT / "services")]

from measuring import rss_mb  # noqa: E402 - after the path is set

from fourgates.cli.stage_process import settle_memory  # noqa: E402
from fourgates.contract.events import EffectEntry, EffectKind, LedgerEntry, LedgerKind, Record  # noqa: E402
from fourgates.contract.partition import murmur2  # noqa: E402
from fourgates.contract.parts import ref_of  # noqa: E402
from fourgates.contract.ports import Envelope, Position, Received, Taking  # noqa: E402
from fourgates.contract.seals import RecordWriter, record_bytes  # noqa: E402
from fourgates.contract.topology import CALL_PARTITIONS, CALLS_LEDGER, EFFECTS  # noqa: E402
from fourgates.gates.effects import EffectsFold  # noqa: E402
from fourgates.gates.ledger import LedgerFold  # noqa: E402
from fourgates.runtime.metrics import Metrics  # noqa: E402
from fourgates.runtime.taking import Opening  # noqa: E402
from support.samples import CALL, VERDICT  # noqa: E402
from support.sealing import keyring, opener, writer  # noqa: E402

KEYS = (10_000, 100_000, 1_000_000)
FLOORS = {"ledger_bytes_per_key": 200, "cold_fold_s_per_million_entries": 30.0, "cost_ratio": 1.1}
"""What a key of the ledger's index may take, a cold fold past a million entries, and how far the cost of a call may move."""
ROUND, ROUNDS, COLD, FETCH = 200, 20, 20_000, 500
_CALL_ID, _CLAIM_ID, _KEY = "c" * 64, "b" * 32, "acme/refund/" + "a" * 32


def life() -> list[Record]:
    """What a write leaves in the logs: claimed, the effect claimed, attempted, finished."""
    head: dict[str, Any] = {"event_id": "e" * 32, "producer": "executor@bench:1", "call_id": _CALL_ID}
    about = ref_of(CALL)
    verdicts = (VERDICT, VERDICT)
    return [
        LedgerEntry(
            **head, kind=LedgerKind.CLAIMED, about=about, claim_id=_CLAIM_ID, call=CALL, verdicts=verdicts, lease_ms=10_000
        ),
        EffectEntry(
            **head, kind=EffectKind.CLAIMED, effect_key=_KEY, fence=0, claim_id=_CLAIM_ID, window_ms=86_400_000, subject="anna"
        ),
        LedgerEntry(**head, kind=LedgerKind.ATTEMPTED, about=about, claim_id=_CLAIM_ID, attempt="d" * 32, by="holder"),
        LedgerEntry(**head, kind=LedgerKind.FINISHED, about=about, claim_id=_CLAIM_ID, outcome="committed"),
    ]


class Tape:
    """Lives of any number of calls as sealed bytes: each is the template with its own ids in it, sealed again."""

    def __init__(self) -> None:
        self._signer = keyring().signer("executor")
        executor: RecordWriter = writer("executor")
        self._templates = [executor.encode(record) for record in life()]
        self._next = {(topic, number): 0 for topic in (CALLS_LEDGER, EFFECTS) for number in range(CALL_PARTITIONS)}
        self._ms = 1_800_000_000_000

    def calls(self, first: int, count: int) -> Iterator[list[Received]]:
        """The records of so many calls, each call's together."""
        for n in range(first, first + count):
            call_id, claim_id, key = f"{n:064x}".encode(), f"{n:032x}".encode(), f"acme/refund/{n:032x}".encode()
            mine = []
            for topic, at, value in self._templates:
                own = value.replace(_CALL_ID.encode(), call_id).replace(_CLAIM_ID.encode(), claim_id)
                own = own.replace(_KEY.encode(), key)
                own = own[:-32] + self._signer.sign(record_bytes(topic, own, 32))
                mine.append(self._received(topic, call_id if at == _CALL_ID.encode() else key, own))
            yield mine

    def _received(self, topic: str, key: bytes, value: bytes) -> Received:
        number = (murmur2(key) & 0x7FFFFFFF) % CALL_PARTITIONS
        offset = self._next[topic, number]
        self._next[topic, number] = offset + 1
        self._ms += 1
        return Received(Position(topic, number, offset), self._ms, key, value)


class Indexes:
    """What an executor remembers of both logs, and the looks that it takes for a call."""

    def __init__(self) -> None:
        self.ledger, self.effects = LedgerFold(), EffectsFold()
        self._opener = opener()
        self._take = self.reading(briefly=False)

    def reading(self, briefly: bool) -> Callable[[Sequence[Received]], int]:
        """What takes records as a reader of the log does it; briefly: as a new owner does it, up to its barrier."""
        return Opening(self._opener, Metrics()).into(self._fold, Taking(briefly=lambda: briefly))

    def _fold(self, envelope: Envelope) -> None:
        (self.ledger if envelope.position.topic == CALLS_LEDGER else self.effects).apply(envelope)

    def one_call(self, records: list[Received], now_ms: int) -> None:
        """The records of a call, and everything that is looked up while it runs."""
        call_id = records[0].key.decode()
        self.ledger.state(call_id, now_ms)
        for received in records:
            self._take((received,))
            self.ledger.state(call_id, now_ms)
        for key, fence in self.effects.held_by(call_id).items():
            self.effects.holds(key, call_id, fence)
            self.effects.rivals(key, "another", (), now_ms)

    def fill(self, first: int, count: int, now_ms: int) -> dict[str, float]:
        """Remembers so many more calls without opening anything. Resident bytes a key of each fold."""
        found = {}
        for topic, fold in ((CALLS_LEDGER, self.ledger), (EFFECTS, self.effects)):
            records = [record for record in life() if isinstance(record, EffectEntry) is (topic == EFFECTS)]
            gc.collect()
            before = rss_mb(os.getpid())
            for n in range(first, first + count):
                named = {"call_id": f"{n:064x}", "claim_id": f"{n:032x}"}
                key = {"effect_key": f"acme/refund/{n:032x}"} if topic == EFFECTS else {}
                for at, record in enumerate(records):
                    place = Position(topic, CALL_PARTITIONS + n % CALL_PARTITIONS, 4 * n + at)
                    fold.apply(Envelope(replace(record, **named, **key), place, now_ms, "executor"))
            gc.collect()
            found[topic] = (rss_mb(os.getpid()) - before) * 1024 * 1024 / count
        return found


def cost(indexes: Indexes, tape: Tape, first: int, now_ms: int, rounds: int) -> float:
    """Microseconds of one more call, the best of some short rounds."""
    best = float("inf")
    for n in range(rounds):
        lives = list(tape.calls(first + n * ROUND, ROUND))
        gc.collect()
        begun = time.process_time()
        for records in lives:
            indexes.one_call(records, now_ms)
        best = min(best, (time.process_time() - begun) / ROUND * 1e6)
    return best


def cold(tape: Tape, calls: int) -> float:
    """Seconds of a cold fold past a million entries of both logs, taken from so many calls, a fetch at a time."""
    entries = [received for records in tape.calls(10**12, calls) for received in records]
    take = Indexes().reading(briefly=True)
    begun = time.process_time()
    for first in range(0, len(entries), FETCH):
        take(entries[first : first + FETCH])
    return (time.process_time() - begun) / len(entries) * 1e6


def index(keys: tuple[int, ...] = KEYS, rounds: int = ROUNDS) -> dict[str, Any]:
    """The figures at these sizes: a part of `make bench`."""
    settle_memory()
    tape, indexes, known, now_ms = Tape(), Indexes(), 0, 1_800_000_000_000
    costs, grown = {}, {CALLS_LEDGER: 0.0, EFFECTS: 0.0}
    for size in keys:
        more = size - known
        for topic, each in indexes.fill(known, more, now_ms).items():
            grown[topic] += each * more
        known = size
        costs[str(size)] = round(cost(indexes, tape, 10**15 + size * ROUND * ROUNDS, now_ms, rounds), 1)
        say(f"{size:>9,} calls known: {costs[str(size)]:.1f} us for one more")
    found = {
        "keys": known, "cold_fold_s_per_million_entries": round(cold(tape, min(COLD, known // 10)), 1),
        "ledger_bytes_per_key": round(grown[CALLS_LEDGER] / known), "effects_bytes_per_key": round(grown[EFFECTS] / known),
        "call_us": costs, "cost_ratio": round(max(costs.values()) / min(costs.values()), 2), "floors": FLOORS,
    }  # fmt: skip
    say(f"{found['ledger_bytes_per_key']} bytes a key of the ledger (floor {FLOORS['ledger_bytes_per_key']}), "
        f"{found['effects_bytes_per_key']} of the effects")  # fmt: skip
    say(f"a cold fold past a million entries {found['cold_fold_s_per_million_entries']} s "
        f"(floor {FLOORS['cold_fold_s_per_million_entries']:.0f}); one more call {found['cost_ratio']}:1 "
        f"(floor {FLOORS['cost_ratio']})")  # fmt: skip
    return found


def say(line: str) -> None:
    """One line a figure, as it comes."""
    print(" index " + line, flush=True)


def measured(json_file: Path) -> dict[str, Any]:
    """The figures of a process of its own, whose memory nothing else has touched."""
    subprocess.run([sys.executable, __file__, "--json", str(json_file)], check=True)
    return dict(json.loads(json_file.read_text()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "bench-index.json")
    parser.add_argument("--keys", type=int, nargs="+", default=list(KEYS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    found = index(tuple(chosen.keys), chosen.rounds)
    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
