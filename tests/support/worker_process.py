"""One worker as a process of its own, running a small stage whose behaviour the records themselves ask for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from fourgates.contract import ids
from fourgates.contract.errors import ConfigurationError, Poison, Transient
from fourgates.contract.events import CallCleared, LedgerEntry, LedgerKind
from fourgates.contract.ports import Emit, Envelope
from fourgates.contract.seals import RecordOpener, RecordWriter
from fourgates.contract.stage import BaseStage, cause_of
from fourgates.contract.topology import CALLS_CLEARED
from fourgates.runtime.children import end_group, signal_group, spawn
from fourgates.runtime.keys import DevKeys
from support.eventually import eventually
from support.records import codec

GROUP = "executor"


class Obedient(BaseStage):
    """Reads calls.cleared and does what a call's `tool` says: `ok`, `slow`, `poison`, `broken`, `away` (its arguments say how).

    Answers with a Replayed that tells which process took the record, and as which one of its partition.
    """

    name = GROUP
    reads = CALLS_CLEARED
    restores = True

    def __init__(self, producer: str) -> None:
        self._producer = producer
        self._folded: dict[int, list[int]] = {}
        self._tried: dict[str, int] = {}

    async def revoked(self) -> None:
        self._folded.clear()

    def fold(self, envelope: Envelope) -> int:
        offsets = self._folded.setdefault(envelope.position.partition, [])
        offsets.append(envelope.position.offset)
        return len(offsets)

    async def handle(self, envelope: Envelope) -> Sequence[Emit]:
        record: CallCleared = envelope.record
        wish = json.loads(record.call.arguments)
        match record.call.tool:
            case "slow":
                await asyncio.sleep(wish["seconds"])
            case "poison":
                raise Poison("test_poison", "as asked for")
            case "broken":
                raise RuntimeError("a message that quotes hunter2")
            case "away":
                tried = self._tried[record.call.call_id] = self._tried.get(record.call.call_id, 0) + 1
                if tried <= wish["times"]:
                    raise Transient("not yet")
        return [self.answer(envelope, LedgerKind.REPLAYED)]

    def answer(self, envelope: Envelope, kind: LedgerKind) -> LedgerEntry:
        told = {"pid": os.getpid(), "folded": envelope.folded}
        return LedgerEntry(
            event_id=ids.event_id(envelope.record.event_id, self.name, kind.value), producer=self._producer, kind=kind,
            cause=cause_of(envelope), call_id=envelope.record.call.call_id, code="internal", detail=json.dumps(told),
        )  # fmt: skip


def main(config: dict[str, Any]) -> int:
    from fourgates.runtime.faust_worker import Work, run_worker
    from fourgates.runtime.kafka import KafkaBus
    from fourgates.runtime.logs import configure_logging
    from fourgates.runtime.worker_settings import WorkerSettings

    configure_logging("info")
    keyring = DevKeys.load(Path(config["keys"]))
    opener = RecordOpener(codec(), keyring.verifier())
    bus = KafkaBus(config["bootstrap"], opener)
    stage = Obedient("executor@test:1")
    publisher = bus.publisher(RecordWriter(codec(), keyring.signer("executor")))
    settings = WorkerSettings(**config["settings"])
    try:
        return run_worker(
            Work(stage, bus, publisher, opener, "executor@test:1", lambda e: [stage.answer(e, LedgerKind.REFUSED)], settings)
        )
    except ConfigurationError as fault:
        sys.stderr.write(f"{fault}\n")
        return 2


class WorkerProcess:
    """A handle on one worker process."""

    def __init__(self, child: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.child, self.log, self._url = child, log, f"http://127.0.0.1:{port}"

    async def ready(self, seconds: float = 30.0) -> None:
        async with httpx.AsyncClient() as client:

            async def answered() -> bool:
                if self.child.poll() is not None:
                    raise AssertionError(f"the worker ended with {self.child.returncode}: {self.log.read_text()[-2000:]}")
                try:
                    return (await client.get(f"{self._url}/readyz")).status_code == 200
                except httpx.TransportError:
                    return False

            await eventually(answered, seconds)

    async def get(self, path: str) -> httpx.Response:
        async with httpx.AsyncClient() as client:
            return await client.get(f"{self._url}{path}")

    def signal(self, number: signal.Signals) -> None:
        signal_group(self.child, number)

    async def ended(self, seconds: float = 40.0) -> int:
        """Its exit code."""
        return await asyncio.to_thread(self.child.wait, seconds)

    def stop(self) -> None:
        end_group(self.child, 0)


def start_worker(bootstrap: str, keys: Path, log: Path, port: int, **settings: Any) -> WorkerProcess:
    """Starts a worker; its log is appended to `log`."""
    config = {"bootstrap": bootstrap, "keys": str(keys), "settings": {"session": 6, "health_port": port, **settings}}
    root = Path(__file__).resolve().parents[2]
    env = {**os.environ, "PYTHONPATH": f"{root / 'services'}:{root / 'tests'}"}
    argv = [sys.executable, "-m", "support.worker_process", json.dumps(config)]
    return WorkerProcess(spawn(argv, log, cwd=log.parent, env=env), log, port)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
